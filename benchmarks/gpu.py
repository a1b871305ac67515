"""Training and decoding on a CUDA card: `bash benchmarks/gpu.sh FOLDER` runs this after the tests of the card.

Training is compared with nanoGPT, decoding with transformers; both take turns in one process. A third part times
training on the machine's processor with 1, 2, 4 ... threads. Each result is written into FOLDER/gpu.json as soon as
it is measured, and a part that fails does not stop the next one.
"""

import argparse
import dataclasses
import functools
import os
import sys
import time
import traceback
from collections import deque
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch

from benchmarks import shape as shapes
from benchmarks.contenders.decoding import our_decode
from benchmarks.contenders.nanogpt import NanoGPT, windows
from benchmarks.frame import Spread, spread
from benchmarks.shape import Shape
from tinylm.base.command import run_command
from tinylm.base.files import write_json
from tinylm.base.machine import pick_device
from tinylm.base.runtime import conditions
from tinylm.bench.device import MIB, synchronize
from tinylm.decoding.decoder import Decoder
from tinylm.kernels.decoding.step import decoding_step
from tinylm.train.trainer import Trainer, Update

GPT2_BPE = Shape(
    layers=6, heads=8, width=512, feed_forward=2048, context=64, vocab=50_257, batch=128
)
DEFAULT = Shape(
    heads=4, width=128, feed_forward=512, context=128, vocab=1_500, batch=8, dropout=0.0
)
TRIALS = 3
TRIAL_S = 0.5
AHEAD = 8  # updates that the card may be behind
LOG_EVERY = 10  # updates: how often nanoGPT's loop reads the loss in its own configurations
NEW_TOKENS = 48  # of each text that is decoded
Work = Callable[[], object]


@dataclasses.dataclass(frozen=True)
class Options:
    """nanogpt: a clone of it."""

    device: torch.device
    nanogpt: Path | None
    tiny: bool

    def of(self, shape: Shape, rows: int | None = None) -> Shape:
        """The shape with this many rows; a small one if the parts are only tested."""
        if self.tiny:
            return shapes.TINY
        return dataclasses.replace(shape, batch=rows or shape.batch)


def seconds(work: Work, device: torch.device) -> float:
    """Seconds of one call, until the device has finished it."""
    synchronize(device)
    start = time.perf_counter()
    work()
    synchronize(device)
    return time.perf_counter() - start


def calls_per_s(works: dict[str, Work], options: Options) -> dict[str, Spread]:
    """Calls per second of each, measured in turn. Ours use deterministic kernels, as every stage does."""

    def timed(name: str, count: int) -> float:
        debug_mode = "error" if name.startswith("tinylm") else "default"
        torch.set_deterministic_debug_mode(debug_mode)
        work = works[name]
        return seconds(lambda: [work() for _ in range(count)], options.device)

    counts = {}
    for name in works:
        timed(name, 1)
        counts[name] = 1 if options.tiny else max(3, round(TRIAL_S * 3 / timed(name, 3)))
    rates: dict[str, list[float]] = {name: [] for name in works}
    for _ in range(TRIALS):
        for name, count in counts.items():
            rates[name].append(count / timed(name, count))
    return {name: spread(values) for name, values in rates.items()}


def our_updates(trainer: Trainer) -> Work:
    """One update of stage train: results are read some updates late, as there."""
    pending: deque[Update] = deque()

    def update() -> None:
        pending.append(trainer.launch(trainer.batches_of(trainer.updates)))
        if len(pending) > AHEAD:
            pending.popleft().result()

    return update


def nanogpt_updates(clone: Path, shape: Shape, device: torch.device) -> Work:
    """One step of nanoGPT's train.py: bf16, flash attention, torch.compile, fused AdamW.

    As there, the next batch is gathered while the card computes.
    """
    torch.set_deterministic_debug_mode("default")
    torch.manual_seed(1)
    mode = "bf16+compile" if device.type == "cuda" else "fp32"
    peer = NanoGPT(str(clone), shape, mode, device=device.type)
    ids = shapes.stream(shape, 64 * shape.step_tokens)

    def batch() -> tuple[torch.Tensor, torch.Tensor]:
        inputs, targets = windows(ids, shape)
        if device.type == "cuda":
            inputs = inputs.pin_memory().to(device, non_blocking=True)
            targets = targets.pin_memory().to(device, non_blocking=True)
        return inputs, targets

    upcoming = [batch()]
    steps = 0

    def step() -> None:
        nonlocal steps
        loss = peer.update(upcoming.pop())
        upcoming.append(batch())
        steps += 1
        if steps % LOG_EVERY == 0:
            loss.item()

    return step


def _peak(work: Work, options: Options) -> float | None:
    """Peak of the CUDA allocator while work runs, in MiB; None on a CPU."""
    if options.device.type != "cuda":
        return None
    torch.cuda.reset_peak_memory_stats()
    seconds(work, options.device)
    return torch.cuda.max_memory_allocated() / MIB


def training(options: Options) -> Iterator[dict[str, Any]]:
    """Tokens per second at several batch sizes, in turn with nanoGPT in its best mode."""
    cases = [("word-50k", shapes.WORD_50K, rows) for rows in (32, 256, 4096)]
    cases += [("gpt2-bpe", GPT2_BPE, 128)]
    for name, full, rows in cases[:1] if options.tiny else cases:
        yield from _training_at(name, options.of(full, rows), options)


def _training_at(name: str, shape: Shape, options: Options) -> Iterator[dict[str, Any]]:
    torch._dynamo.reset()  # else torch compiles a second shape for shapes of any size
    settings = shapes.train_settings(shape, **shapes.ADAMW)
    trainer = shapes.new_trainer(shape, settings, 2, device=options.device)
    works = {"tinylm": our_updates(trainer)}
    peaks = {"tinylm": _peak(works["tinylm"], options)}
    if options.nanogpt is not None:
        works["nanoGPT"] = nanogpt_updates(options.nanogpt, shape, options.device)
        peaks["nanoGPT"] = _peak(works["nanoGPT"], options)
    for who, rate in calls_per_s(works, options).items():
        yield {
            "what": f"{name}, {shape.batch} x {shape.context}, {who}",
            "tokens_per_s": _times(rate, shape.step_tokens),
            "peak_mib": peaks[who],
        }


def decoding(options: Options) -> Iterator[dict[str, Any]]:
    """Tokens per second of 1, 20 and 256 rows, greedy and in fp32, in turn with transformers.

    transformers has the same architecture, its static cache, and the compiled step that it then uses by itself.
    """
    from transformers import GPT2Config, GPT2LMHeadModel

    shape = options.of(shapes.WORD_50K)
    new_tokens = min(NEW_TOKENS, shape.context - 5)
    model = shapes.untrained(shape).to(options.device)
    config = GPT2Config(
        vocab_size=shape.vocab,
        n_positions=shape.context,
        n_embd=shape.width,
        n_layer=shape.layers,
        n_head=shape.heads,
        n_inner=shape.feed_forward,
        bos_token_id=None,
        eos_token_id=None,
    )
    torch.set_deterministic_debug_mode("default")
    peer: Any = GPT2LMHeadModel(config)
    peer.to(options.device).eval()
    decoder = Decoder(model=model, eos_id=None, banned=[], step=decoding_step(model))
    decode = our_decode(decoder, new_tokens)
    for rows in (1, 2) if options.tiny else (1, 20, 256):
        prompts = [[5, 6, 7, 8, 9]] * rows
        works: dict[str, Work] = {
            "tinylm": functools.partial(decode, prompts, "greedy"),
            "transformers": functools.partial(
                peer.generate,
                torch.tensor(prompts, device=options.device),
                attention_mask=torch.ones(rows, 5, device=options.device),
                max_new_tokens=new_tokens,
                do_sample=False,
                cache_implementation="static",
            ),
        }
        for who, rate in calls_per_s(works, options).items():
            yield {
                "what": f"greedy decoding, {rows} rows, {who}",
                "tokens_per_s": _times(rate, rows * new_tokens),
            }


def threads(options: Options) -> Iterator[dict[str, Any]]:
    """Tokens per second of training on the processor by number of threads, at two shapes."""
    options = dataclasses.replace(options, device=torch.device("cpu"))
    most = 2 if options.tiny else os.cpu_count() or 1
    for name, full in (("default", DEFAULT), ("word-50k", shapes.WORD_50K)):
        shape = options.of(full)
        for precision in ("fp32", "bf16"):
            settings = shapes.train_settings(shape, optimizer="adamw", precision=precision)
            works = {}
            for count in (1, 2, 4, 8, 16):
                if count <= most:
                    works[f"{count} threads"] = _on_threads(
                        count, our_updates(shapes.new_trainer(shape, settings, count))
                    )
            for who, rate in calls_per_s(works, options).items():
                yield {
                    "what": f"{name}, {precision}, {who}",
                    "tokens_per_s": _times(rate, shape.step_tokens),
                }


def _on_threads(count: int, work: Work) -> Work:
    def run() -> None:
        torch.set_num_threads(count)
        work()

    return run


def _times(rate: Spread, factor: int) -> dict[str, float]:
    return {key: rate[key] * factor for key in ("median", "low", "high")}


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.gpu", description=__doc__)
    parser.add_argument("folder", type=Path, help="for gpu.json")
    parser.add_argument("--nanogpt", type=Path, help="a clone of nanoGPT, to compare with")
    parser.add_argument("--tiny", action="store_true", help="on the CPU, to show that it runs")
    arguments = parser.parse_args()
    device = pick_device("cpu" if arguments.tiny else "cuda")
    options = Options(device, arguments.nanogpt, arguments.tiny)
    results: dict[str, Any] = {"conditions": conditions(device, torch.get_num_threads())}
    failed = False
    for part in (decoding, training, threads):
        rows = results[part.__name__] = []
        try:
            for row in part(options):
                print(row, flush=True)
                rows.append(row)
                write_json(arguments.folder / "gpu.json", results)
        except Exception:
            traceback.print_exc()
            failed = True
    sys.exit(failed)


if __name__ == "__main__":
    sys.exit(run_command(main))
