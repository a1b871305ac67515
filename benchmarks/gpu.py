"""`make bench-gpu`: every figure of a CUDA card in one call of under eight minutes, so whoever has one can add a row.

The machine's limits (matrix products, memory), training at the shape of word-50k in bf16 with its peak memory, one
prompt, and the 5,000 iterations of coding report (D) (preset gpt2-bpe), shortened and extrapolated if time is short.
Counted goals for one H200: 2.5 M tokens/s, 8,000 tokens/s, 45 s; their arithmetic is in docs/reference/benchmarks.md.
"""

import dataclasses
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import torch

from benchmarks import shape as shapes
from benchmarks.contenders.decoding import our_decode
from benchmarks.serve import seconds
from tinylm.base.config import InputError
from tinylm.base.files import read_json, write_json
from tinylm.base.machine import pick_device
from tinylm.bench import measure
from tinylm.host.command import Parser, guard, is_out_of_memory
from tinylm.host.runtime import conditions
from tinylm.kernels.decoding.decoder import prepare
from tinylm.model.describe import summary
from tinylm.train.trainer import Trainer, TrainSettings

RESULTS = Path("benchmarks/results-gpu.json")
BUDGET_S = 420.0
TRAINING_S = 220.0  # no further batch is tried after this
GOALS = {"word-50k tokens/s": 2.5e6, "one prompt tokens/s": 8000.0, "D's 5,000 iterations, s": 45.0}


class Sizes(NamedTuple):
    """square: side of the products; rows: batches tried; seconds: of each measured part; iterations: of report D."""

    square: int
    rows: tuple[int, ...]
    seconds: float
    iterations: int
    shape: shapes.Shape
    shape_d: shapes.Shape


D = shapes.Shape(
    layers=6, heads=8, width=512, feed_forward=2048, context=64, vocab=50_257, batch=128
)
FULL = Sizes(8192, (32, 128, 512, 2048, 4096), 8.0, 5000, shapes.WORD_50K, D)
TINY = Sizes(64, (1, 2), 0.01, 2, shapes.TINY, shapes.TINY)


def _seconds(work: Callable[[], object], device: torch.device) -> float:
    """Wall time of one call, until the device has finished it."""
    measure.synchronize(device)

    def finished() -> None:
        work()
        measure.synchronize(device)

    return seconds(finished)


def _steps(
    update: Callable[[], object], wanted_s: float, device: torch.device
) -> tuple[int, float]:
    """(updates, seconds) that took about `wanted_s`, after two updates that are not counted (the first compiles)."""
    for _ in range(2):
        once = _seconds(update, device)
    count = max(1, min(2000, round(wanted_s / max(once, 1e-6))))
    return count, _seconds(lambda: [update() for _ in range(count)], device)


def limits(device: torch.device, sizes: Sizes) -> dict[str, float]:
    """TFLOP/s of square products and GB/s of reading memory: the best of some repeats."""
    rates = {}
    for name in ("bf16", "tf32", "fp32"):
        dtype = torch.bfloat16 if name == "bf16" else torch.float32
        torch.backends.cuda.matmul.allow_tf32 = name == "tf32"
        a, b = (torch.randn(sizes.square, sizes.square, device=device).to(dtype) for _ in range(2))
        best = min(_seconds(lambda a=a, b=b: a @ b, device) for _ in range(8))  # type: ignore[misc]
        rates[f"{name} product, TFLOP/s"] = 2 * sizes.square**3 / best / 1e12
    block = torch.ones(sizes.square**2, device=device)
    rates["memory read, GB/s"] = (
        block.nbytes / min(_seconds(block.sum, device) for _ in range(8)) / 1e9
    )
    return rates


def _forget_peak(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats(device)


def _peak_mib(device: torch.device) -> float | None:
    """Largest size of the allocator since its peak was forgotten; None if there is no CUDA."""
    return torch.cuda.max_memory_allocated(device) / measure.MIB if device.type == "cuda" else None


def training(device: torch.device, sizes: Sizes) -> Iterator[dict[str, Any]]:
    """Tokens per second at each batch that fits, with the peak memory and the operations per second reached."""
    start = time.perf_counter()
    for rows in sizes.rows:
        if time.perf_counter() - start > TRAINING_S:
            yield {"rows": rows, "error": "no time left"}
            return
        shape = dataclasses.replace(sizes.shape, batch=rows)
        _forget_peak(device)
        try:
            settings = shapes.train_settings(shape, **shapes.ADAMW_BF16)
            trainer = shapes.new_trainer(shape, settings, 2, device=device)
            updates, taken = _steps(_update(trainer), sizes.seconds, device)
        except (RuntimeError, MemoryError) as error:
            if not is_out_of_memory(error):
                raise
            yield {"rows": rows, "error": measure.OOM}
            return
        rate = updates * shape.step_tokens / taken
        flop = summary(trainer.model)["training_flop_per_token"]
        yield {
            "rows": rows,
            "tokens_per_s": rate,
            "tflop_per_s": rate * flop / 1e12,
            "peak_mib": _peak_mib(device),
        }


def _update(trainer: Trainer) -> Callable[[], object]:
    return lambda: trainer.update(trainer.next_batches())


def one_prompt(device: torch.device, sizes: Sizes) -> dict[str, float]:
    """Greedy tokens per second of one prompt at the shape of word-50k, by the decoder that suits this machine."""
    model = shapes.untrained(sizes.shape).to(device).eval()
    new = sizes.shape.context - 6
    decode = our_decode(model, prepare(model, "auto"), new)
    runs, taken = _steps(lambda: decode([[4, 5, 6, 7, 8]], "greedy"), sizes.seconds, device)
    return {"tokens_per_s": runs * new / taken}


def report_d(device: torch.device, sizes: Sizes, left_s: float) -> dict[str, float]:
    """Seconds of report D's 5,000 iterations of 128 x 64 tokens (preset gpt2-bpe): measured as far as time allows."""
    shape, preset = sizes.shape_d, "gpt2-bpe"
    own = {"batch_size": shape.batch, "precision": "bf16"}
    settings = shapes.section("train", TrainSettings, own, preset)
    model = shapes.model_settings(shape, {}, preset)
    trainer = shapes.new_trainer(shape, settings, 2, model=model, device=device)
    update = _update(trainer)
    _forget_peak(device)
    first = _seconds(update, device)
    done, start = 0, time.perf_counter()
    for done in range(1, sizes.iterations + 1):
        update()
        if done % 50 == 0 and time.perf_counter() - start > left_s:
            break
    measure.synchronize(device)
    taken = time.perf_counter() - start
    return {
        "seconds": taken * sizes.iterations / done,
        "iterations_measured": done,
        "first_update_s": first,
        "peak_mib": _peak_mib(device) or 0.0,
    }


def run(device: torch.device, sizes: Sizes) -> dict[str, Any]:
    """All figures, printed as they are measured."""
    start = time.perf_counter()
    results: dict[str, Any] = {
        "conditions": conditions(device, 2),
        "limits": limits(device, sizes),
        "training": [],
    }
    print(results["conditions"], results["limits"], sep="\n", flush=True)
    for row in training(device, sizes):
        results["training"].append(row)
        print(f"word-50k, bf16: {row}", flush=True)
    results["one_prompt"] = one_prompt(device, sizes)
    print(f"one prompt: {results['one_prompt']}", flush=True)
    left = max(5.0, BUDGET_S - (time.perf_counter() - start))
    results["report_d"] = report_d(device, sizes, left)
    print(f"D's 5,000 iterations: {results['report_d']}", flush=True)
    results["seconds"] = round(time.perf_counter() - start, 1)
    best = max(
        (row["tokens_per_s"] for row in results["training"] if "tokens_per_s" in row), default=0.0
    )
    figures = (best, results["one_prompt"]["tokens_per_s"], results["report_d"]["seconds"])
    for (name, goal), figure in zip(GOALS.items(), figures, strict=True):
        print(f"{name}: {figure:,.0f}; counted goal for an H200: {goal:,.0f}", flush=True)
    return results


def main() -> None:
    parser = Parser(prog="python -m benchmarks.gpu", description=__doc__)
    parser.add_argument(
        "--device", choices=("cuda", "cpu"), default="cuda", help="cpu: to try the script, tiny"
    )
    parser.add_argument("--results", type=Path, default=RESULTS, help="default %(default)s")
    given = parser.parse_args()
    try:
        device = pick_device(given.device)
    except InputError:
        raise InputError(
            "make bench-gpu: torch sees no CUDA device here; nothing was measured"
        ) from None
    results = run(device, FULL if given.device == "cuda" else TINY)
    earlier = read_json(given.results) if given.results.exists() else []
    kept = [
        row for row in earlier if row["conditions"]["device"] != results["conditions"]["device"]
    ]
    write_json(given.results, [*kept, results])


if __name__ == "__main__":
    sys.exit(guard(main))
