"""`make bench-gpu`: every figure of a CUDA card in one call of under eight minutes, so that whoever has one adds a row.

The machine's limits (matrix products, memory), training at the shape of word-50k in bf16 with its peak memory, one
prompt, and the 5,000 iterations of the report D (preset gpt2-bpe), shortened and extrapolated where time is short.
Counted goals for one H200: 2.5 M tokens/s, 8,000 tokens/s, 45 s; their arithmetic is in docs/benchmarks.md.
"""

import argparse
import dataclasses
import itertools
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from tinylm.base.config import InputError
from tinylm.base.files import read_json, write_json
from tinylm.bench import measure
from tinylm.host.command import guard, is_out_of_memory
from tinylm.host.runtime import conditions, pick_device

RESULTS = Path("docs/benchmarks-gpu.json")
BUDGET_S = 420.0
TRAINING_S = 220.0  # after so long no further batch is tried
GOALS = {"word-50k tokens/s": 2.5e6, "one prompt tokens/s": 8000.0, "D's 5,000 iterations, s": 45.0}


@dataclasses.dataclass(frozen=True)
class Sizes:
    """square: side of the products; rows: batches tried; seconds: of each measured part; iterations: of D."""

    square: int
    rows: tuple[int, ...]
    seconds: float
    iterations: int
    tiny: bool


FULL = Sizes(8192, (32, 128, 512, 2048, 4096), 8.0, 5000, False)
TINY = Sizes(64, (1, 2), 0.01, 2, True)


def limits(device: Any, sizes: Sizes) -> dict[str, float]:
    """TFLOP/s of square products and GB/s of reading memory: the best of some repeats."""
    import torch

    found = {}
    for name, dtype, tf32 in (
        ("bf16", torch.bfloat16, False),
        ("tf32", torch.float32, True),
        ("fp32", torch.float32, False),
    ):
        torch.backends.cuda.matmul.allow_tf32 = tf32
        a, b = (torch.randn(sizes.square, sizes.square, device=device).to(dtype) for _ in range(2))
        seconds = min(_seconds(lambda a=a, b=b: a @ b, device) for _ in range(8))  # type: ignore[misc]
        found[f"{name} product, TFLOP/s"] = 2 * sizes.square**3 / seconds / 1e12
    torch.backends.cuda.matmul.allow_tf32 = False
    block = torch.ones(sizes.square**2, device=device)
    found["memory read, GB/s"] = block.nbytes / min(_seconds(block.sum, device) for _ in range(8)) / 1e9
    return found


def _seconds(work: Callable[[], object], device: Any) -> float:
    measure.synchronize(device)
    start = time.perf_counter()
    work()
    measure.synchronize(device)
    return time.perf_counter() - start


def _steps(update: Callable[[], object], seconds: float, device: Any) -> tuple[int, float]:
    """(updates, seconds) of about so long, behind a first one that compiles and is not counted, and a second."""
    for _ in range(2):
        once = _seconds(update, device)
    count = max(1, min(2000, round(seconds / max(once, 1e-6))))
    return count, _seconds(lambda: [update() for _ in range(count)], device)


def _peak_mib(device: Any) -> float | None:
    """Largest size of the allocator since it was reset; None without CUDA."""
    import torch

    return torch.cuda.max_memory_allocated(device) / measure.MIB if device.type == "cuda" else None


def training(device: Any, sizes: Sizes) -> Iterator[dict[str, Any]]:
    """Tokens a second at each batch that fits, with the peak memory and the share of the product's limit reached."""
    import torch

    from tinylm.benchmarks.shape import TINY as SMALL
    from tinylm.benchmarks.shape import WORD_50K, new_trainer
    from tinylm.cost.describe import summary

    start = time.perf_counter()
    for rows in sizes.rows:
        if time.perf_counter() - start > TRAINING_S:
            yield {"rows": rows, "error": "no time left"}
            return
        shape = dataclasses.replace(SMALL if sizes.tiny else WORD_50K, batch=rows)
        if device.type == "cuda":
            torch.cuda.empty_cache()
            torch.cuda.reset_peak_memory_stats(device)
        try:
            made = {"threads": 2, "settings": {"precision": "bf16", "optimizer": "adamw"}}
            trainer = new_trainer(shape, made, device)
            updates, seconds = _steps(lambda t=trainer: t.update(t.next_batches()), sizes.seconds, device)  # type: ignore[misc]
        except (RuntimeError, MemoryError) as error:
            if not is_out_of_memory(error):
                raise
            yield {"rows": rows, "error": measure.OOM}
            return
        rate = updates * shape.step_tokens / seconds
        flop = summary(trainer.model)["training_flop_per_token"]
        yield {"rows": rows, "tokens_per_s": rate, "tflop_per_s": rate * flop / 1e12, "peak_mib": _peak_mib(device)}


def one_prompt(device: Any, sizes: Sizes) -> dict[str, float]:
    """Greedy tokens a second of one prompt at the shape of word-50k, by this machine's own path."""
    from tinylm.benchmarks.contenders.our_decoding import prepared, settings
    from tinylm.benchmarks.shape import TINY as SMALL
    from tinylm.benchmarks.shape import WORD_50K, untrained
    from tinylm.decoding.sampling import generate

    shape = SMALL if sizes.tiny else WORD_50K
    model = untrained(shape).to(device).eval()
    new, greedy, fast = shape.context - 6, settings().greedy(), prepared(model, "auto")

    def run() -> object:
        return generate(model, [[4, 5, 6, 7, 8]], greedy, max_new_tokens=new, eos_id=None, banned=[], **fast)

    runs, seconds = _steps(run, sizes.seconds, device)
    return {"tokens_per_s": runs * new / seconds}


def report_d(device: Any, sizes: Sizes, left_s: float) -> dict[str, float]:
    """Seconds of D's 5,000 iterations of 128 x 64 tokens (preset gpt2-bpe): measured as far as time allows."""
    import torch

    from tinylm.benchmarks.shape import Shape, new_trainer_on_stream, of_preset

    shape = Shape(6, 8, 512, 2048, 64, 50_257, 128, 0.1)
    if sizes.tiny:
        shape = Shape(1, 2, 16, 32, 16, 97, 2, 0.1)
    model, train = of_preset("gpt2-bpe", shape)
    trainer = new_trainer_on_stream(shape, model, dataclasses.replace(train, precision="bf16"), 2, device)
    if device.type == "cuda":
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats(device)
    first = _seconds(lambda: trainer.update(trainer.next_batches()), device)
    done, start = 0, time.perf_counter()
    for done in range(1, sizes.iterations + 1):
        trainer.update(trainer.next_batches())
        if done % 50 == 0 and time.perf_counter() - start > left_s:
            break
    measure.synchronize(device)
    seconds = time.perf_counter() - start
    return {
        "seconds": seconds * sizes.iterations / done,
        "iterations_measured": done,
        "first_update_s": first,
        "peak_mib": _peak_mib(device) or 0.0,
    }


def run(device: Any, sizes: Sizes) -> dict[str, Any]:
    """All figures, printed as they come."""
    start = time.perf_counter()
    found: dict[str, Any] = {"conditions": conditions(device, 2), "limits": limits(device, sizes)}
    print(found["conditions"], found["limits"], sep="\n", flush=True)
    found["training"] = []
    for row in training(device, sizes):
        found["training"].append(row)
        print(f"word-50k, bf16: {row}", flush=True)
    found["one_prompt"] = one_prompt(device, sizes)
    print(f"one prompt: {found['one_prompt']}", flush=True)
    left = max(5.0, BUDGET_S - (time.perf_counter() - start))
    found["report_d"] = report_d(device, sizes, left)
    print(f"D's 5,000 iterations: {found['report_d']}", flush=True)
    found["seconds"] = round(time.perf_counter() - start, 1)
    best = max((row["tokens_per_s"] for row in found["training"] if "tokens_per_s" in row), default=0.0)
    figures = (best, found["one_prompt"]["tokens_per_s"], found["report_d"]["seconds"])
    for (name, goal), figure in zip(GOALS.items(), figures, strict=True):
        print(f"{name}: {figure:,.0f}; counted goal for an H200: {goal:,.0f}", flush=True)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tinylm.benchmarks.gpu", description=__doc__)
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda", help="cpu: to try the script, tiny")
    parser.add_argument("--results", type=Path, default=RESULTS, help="default %(default)s")
    given = parser.parse_args()
    try:
        device = pick_device(given.device)
    except InputError:
        raise InputError("make bench-gpu: torch sees no CUDA device here; nothing was measured") from None
    found = run(device, FULL if given.device == "cuda" else TINY)
    earlier = read_json(given.results) if given.results.exists() else []
    kept = [row for row in earlier if row["conditions"]["device"] != found["conditions"]["device"]]
    write_json(given.results, list(itertools.chain(kept, [found])))


if __name__ == "__main__":
    sys.exit(guard(main))
