"""What a CUDA card reaches: `bash benchmarks/gpu.sh FOLDER` runs this after the tests and the stages.

Each part writes its results into FOLDER/gpu.json when it is done, and the next one begins even if
it failed. Speeds of two contenders are measured in turn in one process.
"""

import argparse
import dataclasses
import statistics
import sys
import time
import traceback
from collections import deque
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch

from benchmarks import shape as shapes
from benchmarks.contenders import gpu as contenders
from benchmarks.shape import Shape
from tinylm.base.files import read_json, write_json
from tinylm.base.machine import pick_device
from tinylm.bench import measure
from tinylm.host.command import guard
from tinylm.host.runtime import conditions
from tinylm.model.describe import summary
from tinylm.train.loop import train
from tinylm.train.preparation import assemble
from tinylm.train.settings import TrainSettings
from tinylm.train.trainer import Trainer, Update, accumulate_gradients

GPT2_BPE = Shape(
    layers=6, heads=8, width=512, feed_forward=2048, context=64, vocab=50_257, batch=128
)
TRIALS = 3
TRIAL_S = 0.5
AHEAD = 8  # updates that the card may be behind
REPORT_D_UPDATES = 5000
CHECKPOINTED = Shape(layers=8, batch=1024)
MODES = ("none", "blocks", "blocks+loss", "sqrt")
Work = Callable[[], object]


@dataclasses.dataclass(frozen=True)
class Options:
    """device; folder for results; clone of nanoGPT and folder of token stores, if there are any."""

    device: torch.device
    folder: Path
    nanogpt: Path | None
    tokens: Path | None
    tiny: bool

    def of(self, shape: Shape, rows: int | None = None) -> Shape:
        """The shape with this many rows; a small one if the parts are only tested."""
        if self.tiny:
            return shapes.TINY
        return dataclasses.replace(shape, batch=rows or shape.batch)


def seconds(work: Work, device: torch.device) -> float:
    """Seconds of one call, until the device has finished it."""
    measure.synchronize(device)
    start = time.perf_counter()
    work()
    measure.synchronize(device)
    return time.perf_counter() - start


def calls_per_s(works: dict[str, Work], options: Options) -> dict[str, dict[str, float]]:
    """Calls per second of each, measured in turn: median, lowest and highest of the trials."""
    counts = {}
    for name, work in works.items():
        work()
        once = seconds(lambda: [work() for _ in range(3)], options.device) / 3  # noqa: B023
        counts[name] = 1 if options.tiny else max(3, round(TRIAL_S / once))
    rates: dict[str, list[float]] = {name: [] for name in works}
    for _ in range(TRIALS):
        for name, work in works.items():
            count = counts[name]
            taken = seconds(lambda: [work() for _ in range(count)], options.device)  # noqa: B023
            rates[name].append(count / taken)
    return {
        name: {"median": statistics.median(values), "low": min(values), "high": max(values)}
        for name, values in rates.items()
    }


def limits(options: Options) -> Iterator[dict[str, Any]]:
    """TFLOP/s of square matrix products and GB/s of copying memory: the best of some."""
    size = 64 if options.tiny else 8192
    for name in ("bf16", "tf32", "fp32"):
        torch.backends.cuda.matmul.allow_tf32 = name == "tf32"
        dtype = torch.bfloat16 if name == "bf16" else torch.float32
        matrix = torch.randn(size, size, device=options.device).to(dtype)
        best = min(seconds(lambda: matrix @ matrix, options.device) for _ in range(8))  # noqa: B023
        yield {"what": f"{name} product, TFLOP/s", "value": 2 * size**3 / best / 1e12}
    torch.backends.cuda.matmul.allow_tf32 = False
    block = torch.randn(size, size, device=options.device)
    copy = torch.empty_like(block)
    best = min(seconds(lambda: copy.copy_(block), options.device) for _ in range(8))
    yield {"what": "memory read and written, GB/s", "value": 2 * block.nbytes / best / 1e9}


def our_updates(trainer: Trainer) -> Work:
    """One update of stage train: results are read some updates late, as there."""
    pending: deque[Update] = deque()

    def update() -> None:
        pending.append(trainer.launch(trainer.next_batches()))
        if len(pending) > AHEAD:
            pending.popleft().result()

    return update


def _peak(work: Work, options: Options) -> float | None:
    """Peak of the allocator while work runs, in MiB."""
    if options.device.type != "cuda":
        return None
    torch.cuda.reset_peak_memory_stats()
    seconds(work, options.device)
    return torch.cuda.max_memory_allocated() / measure.MIB


def training(options: Options) -> Iterator[dict[str, Any]]:
    """Tokens per second at several batch sizes, in turn with nanoGPT in its best mode."""
    cases = [("word-50k", shapes.WORD_50K, rows) for rows in (32, 256, 4096)]
    cases += [("gpt2-bpe", GPT2_BPE, rows) for rows in (128,)]
    for name, full, rows in cases[:1] if options.tiny else cases:
        yield from _training_at(name, options.of(full, rows), options)


def _training_at(name: str, shape: Shape, options: Options) -> Iterator[dict[str, Any]]:
    torch._dynamo.reset()  # else a second shape is compiled for any shape
    settings = shapes.train_settings(shape, **shapes.ADAMW_BF16)
    start = time.perf_counter()
    trainer = shapes.new_trainer(shape, settings, 2, device=options.device)
    flop = summary(trainer.model)["training_flop_per_token"]
    works = {"tinylm": contenders.with_deterministic_kernels(our_updates(trainer))}
    peaks = {"tinylm": _peak(works["tinylm"], options)}
    started = {"tinylm": time.perf_counter() - start}
    if options.nanogpt is not None:
        start = time.perf_counter()
        peer = contenders.nanogpt_updates(options.nanogpt, shape, options.device)
        works["nanoGPT"] = peer
        peaks["nanoGPT"] = _peak(peer, options)
        started["nanoGPT"] = time.perf_counter() - start
    for who, rate in calls_per_s(works, options).items():
        tokens_per_s = {key: value * shape.step_tokens for key, value in rate.items()}
        yield {
            "what": f"{name}, {shape.batch} x {shape.context}, {who}",
            "tokens_per_s": tokens_per_s,
            "tflop_per_s": tokens_per_s["median"] * flop / 1e12,
            "peak_mib": peaks[who],
            "first_update_s": started[who],
        }


def variants(options: Options) -> Iterator[dict[str, Any]]:
    """What each choice for a card is worth: word-50k's training step with one of them switched off."""
    changes: dict[str, dict[str, Any]] = {
        "all": {},
        "no CUDA graphs": {"cuda_graphs": "false"},
        "not compiled": {"compile": "false"},
        "own attention": {"attention": "own"},
        "muon": {"optimizer": "muon"},
    }
    shape = options.of(shapes.WORD_50K, 32)
    works = {}
    for name, change in changes.items():
        settings = shapes.train_settings(shape, **(shapes.ADAMW_BF16 | change))
        trainer = shapes.new_trainer(shape, settings, 2, device=options.device)
        works[name] = contenders.with_deterministic_kernels(our_updates(trainer))
        if name == "all":
            works["any kernels"] = contenders.with_any_kernels(
                our_updates(shapes.new_trainer(shape, settings, 2, device=options.device))
            )
    for name, rate in calls_per_s(works, options).items():
        yield {"what": name, "tokens_per_s": rate["median"] * shape.step_tokens}


def report_d(options: Options) -> Iterator[dict[str, Any]]:
    """All 5,000 updates of the preset gpt2-bpe with products in bf16, validation included."""
    shape = options.of(GPT2_BPE)
    updates = 3 if options.tiny else REPORT_D_UPDATES
    settings: TrainSettings = shapes.section(
        "train",
        TrainSettings,
        {
            "tokens": updates * shape.step_tokens,
            "batch_size": shape.batch,
            "precision": "bf16",
            "compile": "auto",
            "attention": "auto",
            "keep_epochs": [],
        },
        "gpt2-bpe",
    )
    stores = shapes.stores(shape, options.tokens)
    model = shapes.model_settings(shape, {}, "gpt2-bpe")
    matrix = torch.randn(shape.vocab, shape.width, generator=torch.Generator().manual_seed(1))
    start = time.perf_counter()
    assembly = assemble(model, settings, matrix, stores, shapes.PAD_ID, options.device, 2)
    result = train(assembly.model, assembly.batches, assembly.held_out, settings, log_every_s=5.0)
    yield {
        "what": f"{len(result.curves.updates)} updates of {shape.batch} x {shape.context} tokens",
        "wall_s": time.perf_counter() - start,
        "update_s": result.train_s,
        "held_out": result.curves.held_out,
        "train": result.curves.train[-20:],
        "data": "random ids" if options.tokens is None else str(options.tokens.name),
    }


def decoding(options: Options) -> Iterator[dict[str, Any]]:
    """Tokens per second in fp32 with and without a cache, in turn with transformers' generate."""
    shape = options.of(shapes.WORD_50K)
    new_tokens = shape.context - 9
    prompts = [[4, 5, 6, 7, 8 + row] for row in range(20)]
    for count, method in ((1, "sample"), (20, "sample"), (20, 5), (20, 10)):
        works = {}
        for use_cache in (True, False) if method == "sample" else (True,):
            ours = contenders.our_decode(options, shape, new_tokens, use_cache)
            theirs = contenders.transformers_decode(options, shape, new_tokens, use_cache)
            cache = "cache" if use_cache else "no cache"
            works[f"tinylm, {cache}"] = _call(ours, prompts[:count], method)
            works[f"transformers, {cache}"] = _call(theirs, prompts[:count], method)
        for who, rate in calls_per_s(works, options).items():
            yield {
                "what": f"{count} prompts, {method}, {who}",
                "tokens_per_s": rate["median"] * count * new_tokens,
            }


def _call(decode: Callable[..., object], prompts: list[list[int]], method: Any) -> Work:
    return lambda: decode(prompts, method)


def checkpointing(options: Options) -> Iterator[dict[str, Any]]:
    """Seconds and peak memory of forward and backward pass with each mode of recomputation."""
    shape = options.of(CHECKPOINTED)
    for precision in ("fp32", "bf16"):
        rows = {}
        for mode in MODES:
            settings = shapes.train_settings(shape, precision=precision, recompute=mode)
            trainer = shapes.new_trainer(shape, settings, 2, device=options.device)
            batches = [trainer.batches.batch(0)]

            def step(trainer: Trainer = trainer, batches: Any = batches) -> None:
                trainer.model.zero_grad(set_to_none=True)
                accumulate_gradients(trainer.model, batches, trainer.settings.precision)

            step()
            taken = measure.median_seconds(step, repeats=9, device=options.device)
            trainer.model.zero_grad(set_to_none=True)
            rows[mode] = (taken, measure.peak_mib(step, options.device))
        plain_s, plain_mib = rows["none"]
        for mode, (taken, peak) in rows.items():
            yield {
                "what": f"{shape.layers} layers, {precision}, recompute {mode}",
                "step_s": taken,
                "peak_mib": peak,
                "time": taken / plain_s - 1.0,
                "memory": (peak or 0.0) / (plain_mib or 1.0) - 1.0,
            }


PARTS = {
    "limits": limits,
    "training": training,
    "variants": variants,
    "report_d": report_d,
    "decoding": decoding,
    "checkpointing": checkpointing,
}


def run_part(name: str, options: Options) -> dict[str, Any]:
    """A part's rows, printed as they are measured, and its error if it failed."""
    start = time.perf_counter()
    rows = []
    error = None
    try:
        for row in PARTS[name](options):
            rows.append(row)
            print(f"{name}: {row}", flush=True)
    except Exception as failure:
        traceback.print_exc()
        error = f"{type(failure).__name__}: {failure}"[:500]
    if options.device.type == "cuda":
        torch.cuda.empty_cache()
    seconds_of_part = time.perf_counter() - start
    print(f"{name}: {seconds_of_part:.0f} s", flush=True)
    return {"rows": rows, "error": error, "seconds": seconds_of_part}


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.gpu", description=__doc__)
    parser.add_argument("folder", type=Path, help="for gpu.json")
    parser.add_argument("--parts", nargs="*", choices=PARTS, default=list(PARTS))
    parser.add_argument("--nanogpt", type=Path, help="a clone of nanoGPT, to compare with")
    parser.add_argument("--tokens", type=Path, help="token stores of preset gpt2-bpe")
    parser.add_argument("--tiny", action="store_true", help="on the CPU, to show that it runs")
    arguments = parser.parse_args()
    device = pick_device("cpu" if arguments.tiny else "cuda")
    options = Options(device, arguments.folder, arguments.nanogpt, arguments.tokens, arguments.tiny)
    options.folder.mkdir(parents=True, exist_ok=True)
    path = options.folder / "gpu.json"
    results = read_json(path) if path.exists() else {}
    results["conditions"] = conditions(device, torch.get_num_threads())
    for name in arguments.parts:
        results[name] = run_part(name, options)
        write_json(path, results)
    if any(results[name]["error"] for name in arguments.parts):
        sys.exit(1)


if __name__ == "__main__":
    sys.exit(guard(main))
