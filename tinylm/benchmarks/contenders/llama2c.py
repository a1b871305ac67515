"""llama2.c (github.com/karpathy/llama2.c): its C programs, compiled here, with a random model of the same size.

It has three matrices in the feed-forward, and its int8 needs widths with many factors, so its shape is its own:
width 288 in 6 heads, feed-forward 928, which makes 8.8 M weights at 4 layers and 14,886 words, as in word-50k.
"""

import contextlib
import importlib
import io
import os
import re
import struct
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tinylm.base.files import atomic_path, atomic_write
from tinylm.benchmarks.serve import Step

WIDTH, INNER, HEADS = 288, 928, 6
FLAGS = ("-Ofast", "-march=native", "-fopenmp")  # its `make runomp`, the fastest it offers
PROGRAMS = {"fp32": "run", "int8": "runq"}
_RATE = re.compile(r"achieved tok/s: ([0-9.]+)")


def _weights(clone: Path, folder: Path, setup: Mapping[str, Any]) -> None:
    """A random model in both of its formats, written by its own export.py."""
    import torch

    torch.manual_seed(1)
    sys.path.insert(0, str(clone))
    theirs, export = importlib.import_module("model"), importlib.import_module("export")
    arguments = theirs.ModelArgs(
        dim=WIDTH, n_layers=setup["shape"]["layers"], n_heads=HEADS, vocab_size=setup["shape"]["vocab"],
        hidden_dim=INNER, max_seq_len=setup["shape"]["context"],
    )  # fmt: skip
    model = theirs.Transformer(arguments)
    with contextlib.redirect_stdout(io.StringIO()):
        for name, write in (
            ("fp32.bin", export.legacy_export),
            ("int8.bin", export.version2_export),
        ):
            with atomic_path(folder / name) as temporary:
                write(model, str(temporary))


def _vocabulary(folder: Path, size: int) -> None:
    """Its file of tokens: the longest one's length, then score, length and text of each."""
    with atomic_write(folder / "tokenizer.bin", "wb") as handle:
        handle.write(struct.pack("<i", 8))
        for number in range(size):
            text = f" w{number}".encode()
            handle.write(struct.pack("<fi", 0.0, len(text)) + text)


def make(setup: Mapping[str, Any]) -> Step:
    """setup: clone, folder, shape, precision (fp32 | int8), cores, texts (of a trial).  -> {seconds, tokens}

    The time is what it measures itself: all tokens except the first, without loading.
    """
    clone, folder, precision = Path(setup["clone"]), Path(setup["folder"]), setup["precision"]
    if not (folder / "tokenizer.bin").exists():
        _weights(clone, folder, setup)
        _vocabulary(folder, setup["shape"]["vocab"])
    program, steps = folder / PROGRAMS[precision], setup["shape"]["context"]
    with atomic_path(program) as temporary:
        source = clone / f"{PROGRAMS[precision]}.c"
        subprocess.run(
            ["gcc", *FLAGS, "-o", str(temporary), str(source), "-lm"],
            check=True,
            capture_output=True,
        )
    program.chmod(0o755)
    command = [str(program), str(folder / f"{precision}.bin"), "-z", str(folder / "tokenizer.bin")]
    command += ["-n", str(steps), "-t", "1.0", "-p", "1.0"]
    environment = os.environ | {"OMP_NUM_THREADS": str(setup["cores"])}

    def rate(seed: int) -> float:
        """Tokens per second of one text; 0 if it does not print them."""
        made = subprocess.run(
            [*command, "-s", str(seed)], capture_output=True, env=environment, check=True
        )
        match = _RATE.search(made.stderr.decode(errors="replace"))
        return float(match[1]) if match else 0.0

    def step(_: Mapping[str, Any]) -> dict[str, Any]:
        rates = [each for seed in range(1, setup["texts"] + 1) if (each := rate(seed)) > 0]
        return {
            "seconds": sum((steps - 1) / each for each in rates),
            "tokens": (steps - 1) * len(rates),
        }

    return step
