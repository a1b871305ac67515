"""Pictures of what heads do: their roles, how far they are apart, and where they tend to look."""

from collections.abc import Iterator

import numpy as np

from tinylm.report import charts, heatmaps
from tinylm.report.drawing import Picture
from tinylm.report.heads import head_distances, heads, in_the_plane, tendencies
from tinylm.report.sources import Run
from tinylm.report.wording import figure, loss, share


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


def draw_distances(run: Run) -> Picture | None:
    """The divergence of every pair of heads."""
    found = head_distances(run)
    if found is None:
        return None
    names, bits = found
    title = "How far apart two heads look, bits"
    return Picture(
        heatmaps.draw_pairs(bits, names, title),
        f"{title}: from {figure(bits[bits > 0].min(initial=1.0), 2)} to {figure(bits.max(), 2)} of at most 1.",
    )


def draw_plane(run: Run) -> Picture | None:
    """The same divergences as distances in a plane."""
    found = head_distances(run)
    if found is None or len(found[0]) < 3:
        return None
    points = [
        (name, f"layer {name.partition('.')[0]}", float(x), float(y))
        for name, (x, y) in zip(found[0], in_the_plane(found[1]), strict=True)
    ]
    title = "Heads by where they look"
    words = "; ".join(f"{name} at {figure(x, 2)}, {figure(y, 2)}" for name, _, x, y in points)
    return Picture(charts.draw_plane(points, title), f"{title} (layer.head): {words}.")


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
