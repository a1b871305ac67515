"""`make bench-gpu`: what a CUDA card reaches, in one call of a few minutes.

The machine's limits (matrix products, memory), training at the shape of word-50k in bf16 at several batch sizes with
its peak memory, and one prompt. A row for each kind of device is kept in benchmarks/results-gpu.json.
"""

import dataclasses
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

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
from tinylm.model.describe import summary

RESULTS = Path("benchmarks/results-gpu.json")
REPEATS = 8
PROMPT = [[4, 5, 6, 7, 8]]


@dataclasses.dataclass(frozen=True)
class Sizes:
    """square: side of the products; batches: rows tried; measured_s: of each measured part; shape: of the model."""

    square: int
    batches: tuple[int, ...]
    measured_s: float
    shape: shapes.Shape


FULL = Sizes(8192, (32, 128, 512, 2048, 4096), 8.0, shapes.WORD_50K)
TINY = Sizes(64, (1, 2), 0.01, shapes.TINY)


def timed(work: Callable[[], object], device: torch.device) -> float:
    """Seconds of one call, until the device has finished it."""

    def finished() -> None:
        work()
        measure.synchronize(device)

    measure.synchronize(device)
    return seconds(finished)


def rate(work: Callable[[], object], wanted_s: float, device: torch.device) -> float:
    """Calls per second over about `wanted_s`, after two calls that do not count."""
    for _ in range(2):
        once = timed(work, device)
    count = max(1, min(2000, round(wanted_s / once)))
    return count / timed(lambda: [work() for _ in range(count)], device)


def limits(device: torch.device, sizes: Sizes) -> dict[str, float]:
    """TFLOP/s of square products and GB/s of reading memory: the best of some repeats."""
    reached = {}
    for name in ("bf16", "tf32", "fp32"):
        dtype = torch.bfloat16 if name == "bf16" else torch.float32
        torch.backends.cuda.matmul.allow_tf32 = name == "tf32"
        matrix = torch.randn(sizes.square, sizes.square, device=device).to(dtype)
        best = min(timed(lambda: matrix @ matrix, device) for _ in range(REPEATS))  # noqa: B023
        reached[f"{name} product, TFLOP/s"] = 2 * sizes.square**3 / best / 1e12
    block = torch.ones(sizes.square**2, device=device)
    best = min(timed(block.sum, device) for _ in range(REPEATS))
    return reached | {"memory read, GB/s": block.nbytes / best / 1e9}


def training(device: torch.device, sizes: Sizes) -> Iterator[dict[str, Any]]:
    """Tokens per second at each batch that fits into memory, with the peak and the operations per second."""
    for rows in sizes.batches:
        shape = dataclasses.replace(sizes.shape, batch=rows)
        if device.type == "cuda":
            torch.cuda.empty_cache()
            torch.cuda.reset_peak_memory_stats(device)
        try:
            settings = shapes.train_settings(shape, **shapes.ADAMW_BF16)
            trainer = shapes.new_trainer(shape, settings, 2, device=device)

            def update(trainer: Any = trainer) -> None:
                trainer.update(trainer.next_batches())

            tokens_per_s = rate(update, sizes.measured_s, device) * shape.step_tokens
        except (RuntimeError, MemoryError) as error:
            if not is_out_of_memory(error):
                raise
            yield {"rows": rows, "error": measure.OOM}
            return
        flop = summary(trainer.model)["training_flop_per_token"]
        row = {
            "rows": rows,
            "tokens_per_s": tokens_per_s,
            "tflop_per_s": tokens_per_s * flop / 1e12,
        }
        if device.type == "cuda":
            row["peak_mib"] = torch.cuda.max_memory_allocated(device) / measure.MIB
        yield row


def one_prompt(device: torch.device, sizes: Sizes) -> dict[str, float]:
    """Greedy tokens per second of one prompt at the shape of word-50k."""
    model = shapes.untrained(sizes.shape).to(device).eval()
    new_tokens = sizes.shape.context - len(PROMPT[0]) - 1
    decode = our_decode(model, None, new_tokens)
    texts_per_s = rate(lambda: decode(PROMPT, "greedy"), sizes.measured_s, device)
    return {"tokens_per_s": texts_per_s * new_tokens}


def run(device: torch.device, sizes: Sizes) -> dict[str, Any]:
    """All results, printed as they are measured."""
    results: dict[str, Any] = {"conditions": conditions(device, 2), "training": []}
    results["limits"] = limits(device, sizes)
    print(results, flush=True)
    for row in training(device, sizes):
        results["training"].append(row)
        print(f"word-50k, bf16: {row}", flush=True)
    results["one_prompt"] = one_prompt(device, sizes)
    print(f"one prompt: {results['one_prompt']}", flush=True)
    return results


def main() -> None:
    parser = Parser(prog="python -m benchmarks.gpu", description=__doc__)
    parser.add_argument("--results", type=Path, default=RESULTS, help="default %(default)s")
    parser.add_argument("--tiny", action="store_true", help="on the CPU, to show that it runs")
    arguments = parser.parse_args()
    try:
        device = pick_device("cpu" if arguments.tiny else "cuda")
    except InputError:
        raise InputError("torch sees no CUDA device here; nothing was measured") from None
    results = run(device, TINY if arguments.tiny else FULL)
    earlier = read_json(arguments.results) if arguments.results.exists() else []
    name = results["conditions"]["device"]
    others = [row for row in earlier if row["conditions"]["device"] != name]
    write_json(arguments.results, [*others, results])


if __name__ == "__main__":
    sys.exit(guard(main))
