"""FlashLM (github.com/changcheng967/FlashLM) on the tokens of this workspace: bits per byte after so many minutes.

Its script CPUFlow v9.7 is run as it is, but for four things: as many threads as this machine has cores, in place of 4;
the tokens per second from which it makes its schedule, measured here in place of 5,500; a seed; its last weights are
kept, not those of its last validation (every 200 updates). They are scored as stage evaluate scores: the evaluation
stories as one stream, non-overlapping windows of its context, every token counted. The tokenizer has to keep every byte
(vocab.tokenizer: bpe, lower_case: false).

    tinylm preset tinystories-2m
    dvc exp run -S vocab.tokenizer=bpe -S vocab.lower_case=false -S vocab.max_size=4096 vocab
    FLASHLM=../FlashLM python -m tinylm.benchmarks.flashlm --minutes 30
"""

import json
import math
import re
import runpy
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.torch import load_file
from torch.nn import functional as F

from tinylm.base import paths
from tinylm.base.config import InputError
from tinylm.base.files import read_json, write_bytes, write_json
from tinylm.benchmarks import record
from tinylm.benchmarks.options import above_zero, clone
from tinylm.download.stories import read_stories
from tinylm.host.command import CommandFailed, Parser, guard
from tinylm.host.workers import cores
from tinylm.vocab.token_store import TokenStore
from tinylm.vocab.tokenizer import open_tokenizer

SCRIPT = "v10/train_cpuflow_v97_simple_memory.py"
END = 'print(f"\\n--- Final Diagnostics ---")'
OURS = (
    ("torch.set_num_threads(4)", "torch.set_num_threads({threads})"),
    ("60 * 5500 /", "60 * {rate} /"),
    (
        END,
        "import safetensors.torch; safetensors.torch.save_file(model.state_dict(), 'weights.safetensors')",
    ),
)
FILE = Path("docs/flashlm.json")
TRIAL = 0.5  # minutes in which its rate is measured


def prepare(folder: Path, repository: Path) -> None:
    """Its data folder beside its script. Raises InputError if the tokens do not keep every byte."""
    tokenizer = open_tokenizer(Path(paths.VOCAB) / "tokenizer.json")
    if not tokenizer.lossless or tokenizer.normalise("A") != "A" or len(tokenizer) > 1 << 16:
        raise InputError(
            "vocab.tokenizer: allowed beside FlashLM: bpe with lower_case: false, at most 65,536 tokens"
        )
    stores = {
        name: TokenStore(paths.TOKENS, split)
        for split, name in (("train", "train"), ("held_out", "val"))
    }
    if any(store.vocab_size != len(tokenizer) for store in stores.values()):
        raise InputError(
            f"{paths.TOKENS}: not of the tokenizer in {paths.VOCAB}; dvc repro vocab, then again"
        )
    data = folder / "data_v10"
    data.mkdir(parents=True, exist_ok=True)
    for name, store in stores.items():
        write_bytes(data / f"{name}.bin", np.asarray(store.ids).astype(np.uint16).tobytes())
    write_json(data / "meta.json", {"vocab": len(tokenizer)})
    tokenizer.save(data / "tokenizer.json")
    write_bytes(folder / "script.txt", (repository / SCRIPT).read_bytes())


def train(folder: Path, minutes: float, rate: int, seed: int) -> tuple[float, str]:
    """(seconds from the start of its process, the last lines it printed)"""
    text = (folder / "script.txt").read_text(encoding="utf-8")
    for old, new in OURS:
        if old not in text:
            raise InputError(f"{SCRIPT}: holds no {old!r}; allowed: FlashLM as of 2026-05")
        text = text.replace(old, new.format(threads=cores(), rate=rate))
    script = folder / "train.py"
    write_bytes(script, f"import torch; torch.manual_seed({seed})\n{text}".encode())
    start = time.perf_counter()
    done = subprocess.run(
        [sys.executable, script.name, "--minutes", str(minutes)],
        cwd=folder,
        stdout=subprocess.PIPE,
        text=True,
    )
    if done.returncode:
        raise CommandFailed(f"FlashLM: its script ended with exit code {done.returncode}")
    return time.perf_counter() - start, done.stdout


def speed(said: str) -> int:
    """Tokens per second, as it says at the end."""
    found = re.findall(r"Speed: (\d+) tok/s", said)
    if not found:
        raise CommandFailed("FlashLM: it did not say its speed")
    return int(found[-1])


@torch.no_grad()
def score(folder: Path) -> float:
    """Nats of the evaluation stream, of the weights that it kept."""
    theirs: dict[str, Any] = runpy.run_path(str(folder / "train.py"))
    vocab = read_json(folder / "data_v10/meta.json")["vocab"]
    model = theirs["CPUFlowV97"](vocab, theirs["D"], theirs["K"], theirs["N_LAYERS"])
    model.load_state_dict(load_file(folder / "weights.safetensors"))
    model.eval()
    ids = torch.from_numpy(np.asarray(TokenStore(paths.TOKENS, "evaluation").ids).astype(np.int64))
    nats, context = 0.0, theirs["SEQ_LEN"]
    for start in range(0, len(ids) - 1, context):
        inputs = ids[None, start : min(start + context, len(ids) - 1)]
        targets = ids[start + 1 : start + 1 + inputs.shape[1]]
        logits = F.linear(model._forward(inputs)[0], model.embed.weight)
        nats += float(F.cross_entropy(logits, targets, reduction="sum"))
    return nats


def main() -> None:
    parser = Parser(prog="python -m tinylm.benchmarks.flashlm", description=__doc__)
    parser.add_argument(
        "--minutes", type=above_zero, default=120, help="default %(default)g, as it has"
    )
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    repository = clone("FLASHLM", SCRIPT)
    if repository is None:
        raise InputError("FLASHLM is not set; allowed: a clone of github.com/changcheng967/FlashLM")
    folder = Path(".bench/flashlm")
    prepare(folder, repository)
    _, said = train(folder, TRIAL, 5500, given.seed)
    rate = speed(said)
    print(f"FlashLM: {rate:,} tokens/s; {given.minutes:g} minutes begin", flush=True)
    seconds, said = train(folder, given.minutes, rate, given.seed)
    raw_bytes = sum(
        len(story["text"].encode()) for story in read_stories(paths.STORIES, "evaluation")
    )
    found = {
        "minutes": given.minutes, "seed": given.seed, "seconds": round(seconds, 1), "tokens_per_second": speed(said),
        "raw_bits_per_byte": score(folder) / math.log(2) / raw_bytes, "cores": cores(),
        "load": record.load_average(), "written": record.stamp(),
    }  # fmt: skip
    runs = read_json(FILE) if FILE.exists() else []
    write_json(FILE, [*runs, found])
    print(json.dumps(found))


if __name__ == "__main__":
    sys.exit(guard(main))
