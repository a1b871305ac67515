"""Pictures of what heads do: their roles, how far they are apart, and where they tend to look."""

from collections.abc import Iterator

import numpy as np

from tinylm.report import heatmaps
from tinylm.report.drawing import Picture
from tinylm.report.heads import heads, tendencies
from tinylm.report.sources import Run
from tinylm.report.wording import loss, share


def head_roles(run: Run) -> Picture | None:
    """Each head's role and what the model loses without it."""
    known = heads(run)
    if not known:
        return None
    values = np.full((max(head.layer for head in known), max(head.head for head in known)), np.nan)
    names = np.full(values.shape, "", dtype=object)
    for head in known:
        values[head.layer - 1, head.head - 1] = np.nan if head.increase is None else head.increase
        names[head.layer - 1, head.head - 1] = head.name()
    title = "Loss added by ablating a head, nats per token"
    words = "; ".join(
        f"layer {h.layer}, head {h.head} ({h.name() or 'no role'}) {loss(h.increase)}"
        for h in known
    )
    return Picture(heatmaps.draw_named(values, names, title), f"{title}: {words}.")


def tendency_pictures(run: Run) -> Iterator[tuple[str, Picture]]:
    """One matrix for each figure of the tendencies, by name."""
    for name, tendency in tendencies(run).items():
        layer, head, value = tendency.highest()
        number = share if tendency.is_weight else loss
        title = f"{tendency.words[0].upper()}{tendency.words[1:]}" + (
            ", %" if tendency.is_weight else ""
        )
        alt = f"{title}, layers by heads; highest in layer {layer}, head {head}: {number(value)}."
        yield (
            f"heads_{name}",
            Picture(heatmaps.draw_matrix(tendency.values, title, weight=tendency.is_weight), alt),
        )
