"""Pictures of seed variation and memorisation: the losses of all seeds, n-grams not in the training split."""

from tinylm.reporting import curves
from tinylm.reporting.picture import Picture, ends
from tinylm.reporting.sources import Run, as_number, long_series
from tinylm.reporting.wording import interval


def seed_band(run: Run, x: str) -> curves.Bands:
    """Lowest and highest held-out loss of all seeds against x; empty with one seed."""
    lines = long_series(run.rows("seed_curves"), x)
    if not {"lowest", "highest"} <= lines.keys():
        return {}
    return {"held-out": (*lines["lowest"], lines["highest"][1])}


def seed_losses(run: Run) -> Picture | None:
    """Held-out loss of each seed against tokens; nothing with one seed."""
    found = long_series(run.rows("seed_curves"), "tokens")
    lines = {name: line for name, line in found.items() if name.startswith("seed ")}
    if len(lines) < 2:
        return None
    title = "Held-out loss of each seed"
    drawn = curves.draw_curves(lines, title, "tokens seen", "nats per token")
    return Picture(drawn, f"{title}, nats per token against tokens seen: {ends(lines)}.")


def new_ngrams(run: Run) -> Picture | None:
    """Share of n-grams not in the training split against n, of the continuations and of the stories' own."""
    lines: dict[str, tuple[list[float], list[float]]] = {}
    bands: dict[str, tuple[list[float], list[float], list[float]]] = {}
    for key, name in (("continuations", "continuations"), ("references", "the stories' own")):
        rows = run.mapping("evaluate", "memorised", key, "new")
        known = [
            (place, value, span)
            for n, row in rows.items()
            if (place := as_number(n)) is not None
            and (value := as_number(row.get("value"))) is not None
            and (span := interval(row)) is not None
        ]
        if known:
            places = [place for place, _, _ in known]
            lines[name] = places, [100 * value for _, value, _ in known]
            bands[name] = places, [100 * low for *_, (low, _) in known], [100 * high for *_, (_, high) in known]
    if not lines:
        return None
    title = "n-grams not in the training split"
    drawn = curves.draw_curves(lines, title, "words (n)", "% of all n-grams", from_zero=True, bands=bands)
    return Picture(drawn, f"{title}, % of all against n: {ends(lines)}.")
