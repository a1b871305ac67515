"""About how much disk, memory and time a run takes, for `tinylm check`."""

import math
import time
from pathlib import Path
from typing import Any

from tinylm.base import paths
from tinylm.base.machine import pick_device
from tinylm.cli.describe import blank_model
from tinylm.host.params import Sections

STORY_BYTES = 1000  # of an average story
HUB_STORIES = 2_140_000
SHARE = 0.35  # of the speed of the feed-forward layers' matrix product that an update reaches
MEASURED_S = 0.2
MOST_ROWS = 8192
MODEL_SECTIONS = {"model", "embedding", "train"}


def vocab_size(sections: Sections) -> int | None:
    """The largest size that section `vocab` allows, or that of the vocabulary that is there."""
    vocab = sections.get("vocab")
    limit: int | None = None if vocab is None else vocab.size_limit()
    if limit is None and Path(paths.TOKENIZER).exists():
        from tinylm.vocab.tokenizer import open_tokenizer

        return len(open_tokenizer(paths.TOKENIZER))
    return limit


def _totals(sections: Sections, size: int | None) -> dict[str, Any] | None:
    """Bytes and operations of the model; None if it is not known yet."""
    from tinylm.model.describe import summary

    if not size or not sections.keys() >= MODEL_SECTIONS:
        return None
    width = sections["embedding"].width
    if sections["model"].problems_with_width(width):
        return None
    model = blank_model(sections["model"], size, width, sections["train"].recompute)
    return summary(model, sections["train"].optimizer)


def _corpus_bytes(sections: Sections) -> int:
    """Size of the corpus as text: of local files, otherwise by the number of stories."""
    data = sections.get("data")
    if data is None:
        return 0
    if data.source == "local":
        path = Path(data.path)
        files = [path] if path.is_file() else [part for part in path.rglob("*") if part.is_file()]
        return sum(file.stat().st_size for file in files if file.exists())
    return STORY_BYTES * ((data.train_stories or HUB_STORIES) + (data.evaluation_stories or 0))


def disk_bytes(sections: Sections, size: int | None) -> int:
    """Disk of a run.

    The corpus three times (as delivered, stories and ids, DVC's cache), the weights ten times
    (model, cache, snapshots with the optimizer's state).
    """
    totals = _totals(sections, size)
    weights = 0 if totals is None else totals["weight_bytes"]
    return 3 * _corpus_bytes(sections) + 10 * weights


def memory_bytes(sections: Sections, size: int | None) -> int | None:
    """Memory of training, None if the vocabulary's size is not known yet.

    Weights, gradients, the optimizer's state, and of one mini-batch in fp32 the activations
    (14 D + 3 F + 3 H T numbers per token and layer) and the logits with their gradient.
    """
    totals = _totals(sections, size)
    if totals is None or size is None:
        return None
    model = sections["model"]
    train = sections["train"]
    width = sections["embedding"].width
    tokens = train.batch_size * model.context
    layers = model.layers if train.recompute == "none" else 1
    per_layer = 14 * width + 3 * model.feed_forward + 3 * model.heads * model.context
    activations = 4 * tokens * (layers * per_layer + 2 * size)
    fixed: int = totals["weight_bytes"] + totals["gradient_bytes"] + totals["optimizer_bytes"]
    return fixed + activations


def _operations_per_s(
    rows: int, width: int, columns: int, precision: str, device: Any, threads: int
) -> float:
    """Operations per second of a (rows, width) by (columns, width) product: the fastest seen.

    The fastest, since what else runs on the machine now may have ended when the run starts.
    """
    import torch

    torch.set_num_threads(threads)
    kind = torch.bfloat16 if precision == "bf16" else torch.float32
    inputs = torch.ones((rows, width), dtype=kind, device=device)
    weights = torch.ones((columns, width), dtype=kind, device=device)
    best = math.inf
    end = time.perf_counter() + MEASURED_S
    while math.isinf(best) or time.perf_counter() < end:
        start = time.perf_counter()
        product = torch.nn.functional.linear(inputs, weights)
        float(product[0, 0])  # waits for a CUDA device
        best = min(best, time.perf_counter() - start)
    return 2 * rows * width * columns / best


def training_time(sections: Sections, size: int | None) -> str:
    """About how long the runs of train, seed_train and accum_run take: operations over speed."""
    from tinylm.base.config import InputError
    from tinylm.train.precision import resolved

    totals = _totals(sections, size)
    if totals is None or not sections.keys() >= {"runtime", "seeds", "accum_sweep"}:
        return "not known: a section has an error"
    model = sections["model"]
    sweep = sections["accum_sweep"]
    if sections["train"].tokens is None:
        return "not known before all stories are read"
    try:
        device = pick_device(sections["runtime"].device)
    except InputError:
        return "not known: no such device"
    train = resolved(sections["train"], device)
    tokens = train.budget(0)[1] * (1 + len(sections["seeds"].more))
    tokens += sweep.tokens * len(sweep.settings)
    speed = _operations_per_s(
        min(train.batch_size * model.context, MOST_ROWS),
        sections["embedding"].width,
        model.feed_forward,
        train.precision,
        device,
        sections["runtime"].threads,
    )
    seconds = tokens * totals["training_flop_per_token"] / (SHARE * speed)
    shown = f"{seconds / 60:,.0f} min" if seconds >= 90 else f"{seconds:,.0f} s"
    return f"about {shown}: {tokens:,} tokens, all runs together"
