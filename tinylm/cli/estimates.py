"""About how much disk and memory a run takes, for `tinylm check`."""

from pathlib import Path

from tinylm.base import paths
from tinylm.cli.describe import blank_model
from tinylm.host.params import Sections

STORY_BYTES = 1000  # of an average story
HUB_STORIES = 2_140_000


def _vocab_size(sections: Sections) -> int | None:
    """The largest size that section `vocab` allows, or that of the vocabulary that is there."""
    from tinylm.vocab.tokenizer import open_tokenizer

    limit: int | None = sections["vocab"].size_limit()
    if limit is None and Path(paths.TOKENIZER).exists():
        return len(open_tokenizer(paths.TOKENIZER))
    return limit


def _corpus_bytes(sections: Sections) -> int:
    """Size of the corpus as text: of local files, otherwise by the number of stories."""
    data = sections["data"]
    if data.source == "local":
        path = Path(data.path)
        files = path.rglob("*") if path.is_dir() else [path]
        return sum(file.stat().st_size for file in files if file.is_file())
    return STORY_BYTES * ((data.train_stories or HUB_STORIES) + (data.evaluation_stories or 0))


def disk_and_memory(sections: Sections) -> tuple[int, int | None]:
    """Bytes on the disk, and bytes of memory while training: None if they cannot be estimated.

    Disk: the corpus three times (as delivered, stories and ids, DVC's cache), the weights ten times
    (model, cache, snapshots with the optimizer's state). Memory: weights, gradients, the
    optimizer's state, and of one mini-batch in fp32 the activations (14 D + 3 F + 3 H T numbers
    per token and layer) and the logits with their gradient.
    """
    from tinylm.model.describe import summary

    disk = 3 * _corpus_bytes(sections) if "data" in sections else 0
    if not sections.keys() >= {"vocab", "model", "embedding", "train"}:
        return disk, None
    size = _vocab_size(sections)
    model = sections["model"]
    train = sections["train"]
    width = sections["embedding"].width
    if size is None or model.problems_with_width(width):
        return disk, None
    totals = summary(blank_model(model, size, width, train.recompute), train.optimizer)
    tokens = train.batch_size * model.context
    layers = model.layers if train.recompute == "none" else 1
    per_layer = 14 * width + 3 * model.feed_forward + 3 * model.heads * model.context
    memory = 4 * tokens * (layers * per_layer + 2 * size)
    memory += totals["weight_bytes"] + totals["gradient_bytes"] + totals["optimizer_bytes"]
    return disk + 10 * totals["weight_bytes"], memory
