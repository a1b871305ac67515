"""llama2.c (github.com/karpathy/llama2.c): its C programs, compiled here, with a random model of as many weights.

Its architecture has three matrices in the feed-forward and its int8 wants widths of many factors, so that the shape is
one of its own: width 288 in 6 heads, feed-forward 928: 8.8 M weights at 4 layers and 14,886 words, as word-50k's.
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
_RATE = re.compile(r"achieved tok/s: ([0-9.]+)")


def _build(clone: Path, folder: Path, name: str) -> Path:
    """Its run.c (fp32) or runq.c (int8) as a program."""
    program = folder / name
    with atomic_path(program) as temporary:
        command = ["gcc", *FLAGS, "-o", str(temporary), str(clone / f"{name}.c"), "-lm"]
        subprocess.run(command, check=True, capture_output=True)
    program.chmod(0o755)
    return program


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
        for name, write in (("fp32.bin", export.legacy_export), ("int8.bin", export.version2_export)):
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
    """setup: clone, folder, shape; request: precision (fp32 | int8), cores, runs -> {seconds, tokens}.

    Time is what it measures itself: all tokens but the first, loading left out.
    """
    clone, folder = Path(setup["clone"]), Path(setup["folder"])
    folder.mkdir(parents=True, exist_ok=True)
    if not (folder / "tokenizer.bin").exists():
        _weights(clone, folder, setup)
        _vocabulary(folder, setup["shape"]["vocab"])
    programs = {"fp32": _build(clone, folder, "run"), "int8": _build(clone, folder, "runq")}
    steps = setup["shape"]["context"]

    def once(precision: str, cores: int, seed: int) -> float:
        """Tokens a second of one text."""
        command = [str(programs[precision]), str(folder / f"{precision}.bin"), "-z", str(folder / "tokenizer.bin")]
        command += ["-n", str(steps), "-t", "1.0", "-p", "1.0", "-s", str(seed)]
        made = subprocess.run(
            command, capture_output=True, env=os.environ | {"OMP_NUM_THREADS": str(cores)}, check=True
        )
        found = _RATE.search(made.stderr.decode(errors="replace"))
        return float(found[1]) if found else 0.0

    def step(request: Mapping[str, Any]) -> dict[str, Any]:
        rates = [once(request["precision"], request["cores"], seed) for seed in range(1, request["runs"] + 1)]
        told = [rate for rate in rates if rate > 0]
        return {"seconds": sum((steps - 1) / rate for rate in told), "tokens": (steps - 1) * len(told)}

    return step
