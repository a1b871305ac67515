"""Every picture of a run by name: what it is drawn from, the figure, and its alt text."""

from collections.abc import Callable
from typing import Any

from matplotlib import rc_context

from tinylm.report import charts, heatmaps
from tinylm.report.charts import Curves
from tinylm.report.drawing import STYLE, Picture, to_svg
from tinylm.report.head_pictures import head_roles, tendency_pictures
from tinylm.report.head_training import draw_roles, draw_widths
from tinylm.report.pair_sections import draw_phenomena, draw_training
from tinylm.report.sense_sections import sense_methods
from tinylm.report.sources import STAGES, Run, as_number, long_series
from tinylm.report.wording import big, count, figure, interval, name_of, prediction, seconds

Draw = Callable[[Run], Picture | None]


def ends(lines: Curves) -> str:
    """Where each curve begins and ends, in words."""
    return "; ".join(
        f"{name} from {figure(ys[0])} to {figure(ys[-1])}" for name, (_, ys) in lines.items()
    )


def seed_band(run: Run, x: str) -> charts.Bands:
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
    drawn = charts.draw_curves(lines, title, "tokens seen", "nats per token")
    return Picture(drawn, f"{title}, nats per token against epochs: {ends(lines)}.")


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
            bands[name] = (
                places,
                [100 * low for *_, (low, _) in known],
                [100 * high for *_, (_, high) in known],
            )
    if not lines:
        return None
    title = "n-grams not in the training split"
    drawn = charts.draw_curves(
        lines, title, "words (n)", "% of all n-grams", from_zero=True, bands=bands
    )
    return Picture(drawn, f"{title}, % of all against n: {ends(lines)}.")


def _lines(
    name: str,
    x: str,
    title: str,
    x_label: str,
    y_label: str,
    *,
    log_y: bool = False,
    faint: str = "",
) -> Draw:
    def draw(run: Run) -> Picture | None:
        lines = long_series(run.rows(name), x)
        if not lines:
            return None
        bands = seed_band(run, x) if name == "loss" else {}
        drawn = charts.draw_curves(
            lines, title, x_label, y_label, log_y=log_y, faint=faint, bands=bands
        )
        return Picture(drawn, f"{title}, {y_label} against {x_label}: {ends(lines)}.")

    return draw


def _baselines(run: Run) -> Picture | None:
    found = [(name, as_number(row.get("perplexity"))) for name, row in baseline_rows(run)]
    known = [(name, value) for name, value in found if value is not None and value > 0]
    if not known:
        return None
    once = ", each target scored once" if run.mapping("evaluate", "once") else ""
    title = f"Perplexity on evaluation{once} (lower is better)"
    drawn = charts.draw_bars(
        known, title, "perplexity, log scale", figure, log_x=True, strong="this model"
    )
    return Picture(
        drawn, f"{title}: " + "; ".join(f"{name} {figure(value)}" for name, value in known) + "."
    )


def baseline_rows(run: Run) -> list[tuple[str, dict]]:
    """Baselines and model by name, each target scored once, from knowing nothing to knowing the generator."""
    baselines = run.mapping("evaluate", "baselines")
    order = run.get("evaluate", "baselines", "kneser_ney", "order")
    rows = [
        ("uniform", baselines.get("uniform")),
        ("unigram", baselines.get("unigram")),
        (f"Kneser-Ney of order {order}" if order else "Kneser-Ney", baselines.get("kneser_ney")),
        ("this model", run.scored_once()),
        ("the generator's floor", baselines.get("floor")),
    ]
    return [(name, row) for name, row in rows if isinstance(row, dict) and row]


def _beams(quality: str, y_label: str) -> Draw:
    def draw(run: Run) -> Picture | None:
        speeds = run.table("beam_bench_time", "methods")
        points = [
            (method, x, y)
            for method, row in run.table("beam_bench", "methods").items()
            if (x := as_number(speeds.get(method, {}).get("tokens_per_s"))) is not None
            and (y := as_number(row.get(quality))) is not None
        ]
        if not points:
            return None
        title = f"{y_label[0].upper()}{y_label[1:]} against speed"
        words = "; ".join(f"{name} {figure(y)} at {figure(x)} tokens/s" for name, x, y in points)
        return Picture(charts.draw_points(points, title, "tokens/s", y_label), f"{title}: {words}.")

    return draw


def _sense_methods(run: Run) -> Picture | None:
    rows = [(name, row.get("words")) for name, row in sense_methods(run).items()]
    known = [
        (name, value) for name, words in rows if (value := as_number((words or {}).get("value")))
    ]
    if not known:
        return None
    title = "Words read for each impossible one"
    drawn = charts.draw_bars(known, title, "words", figure, strong="as in section decode")
    return Picture(
        drawn, f"{title}: " + "; ".join(f"{name} {figure(value)}" for name, value in known) + "."
    )


def _epochs(run: Run, row: dict[str, Any]) -> float | None:
    """The epochs of a checkpoint; at the end those of the whole run."""
    epochs = row.get("epochs")
    return as_number(run.get("train", "epochs") if epochs is None else epochs)


def _sense_training(run: Run) -> Picture | None:
    rows = run.get("evaluate", "sense", "training")
    points = [
        (epochs, value, *span)
        for row in (rows if isinstance(rows, list) else [])
        if (epochs := _epochs(run, row)) is not None
        and (value := as_number((row.get("words") or {}).get("value"))) is not None
        and (span := interval(row["words"]))
    ]
    if not points:
        return None
    xs, ys, lows, highs = (list(column) for column in zip(*points, strict=True))
    title = "Words read for each impossible one during training"
    lines, bands = {"samples": (xs, ys)}, {"samples": (xs, lows, highs)}
    drawn = charts.draw_curves(lines, title, "epochs", "words", from_zero=True, bands=bands)
    return Picture(drawn, f"{title}, against epochs: {ends(lines)}.")


def _pair(
    name: str, x: str, flag: str, y: str, labels: tuple[str, str], title: str, axes: tuple[str, str]
) -> Draw:
    """Two curves over the settings of a cost bench: with and without what it measures."""

    def draw(run: Run) -> Picture | None:
        lines: dict[str, tuple[list[float], list[float]]] = {label: ([], []) for label in labels}
        for row in run.records(name, "settings"):
            place, value = as_number(row.get(x)), as_number(row.get(y))
            if place is not None and value is not None:
                xs, ys = lines[labels[0] if row.get(flag) else labels[1]]
                xs.append(place)
                ys.append(value)
        lines = {label: points for label, points in lines.items() if points[0]}
        if not lines:
            return None
        drawn = charts.draw_curves(lines, title, *axes, from_zero=True)
        return Picture(drawn, f"{title}, {axes[1]} against {axes[0]}: {ends(lines)}.")

    return draw


def _kv(y: str, title: str, y_label: str) -> Draw:
    lines = _pair(
        "kv_bench_time",
        "new_tokens",
        "cache",
        y,
        ("cache", "no cache"),
        title,
        ("new tokens", y_label),
    )

    def draw(run: Run) -> Picture | None:
        picture = lines(run)
        context = as_number(run.param("model", "context"))
        prompt = as_number(run.param("kv_bench", "prompt_tokens"))
        if picture and context and prompt is not None:
            charts.mark_x(picture.figure, context - prompt, "context full")
        return picture

    return draw


def stage_seconds(run: Run) -> list[tuple[str, float]]:
    """Wall time of each stage that has one, in the order of the pipeline."""
    return [
        (stage, value)
        for stage in STAGES
        if (value := as_number(run.get(f"{stage}_time", "seconds")))
    ]


def _seconds(run: Run) -> Picture | None:
    spent = stage_seconds(run)
    if not spent:
        return None
    drawn = charts.draw_bars(spent, "Time of each stage", "seconds", seconds)
    return Picture(
        drawn, "Time of each stage: " + "; ".join(f"{name} {seconds(s)}" for name, s in spent) + "."
    )


def _parameters(run: Run) -> Picture | None:
    items = run.mapping("train", "parameters_by_part").items()
    known = [(name_of(part), number) for part, value in items if (number := as_number(value))]
    if not known:
        return None
    drawn = charts.draw_bars(known, "Parameters by part", "parameters", count, engineering=True)
    return Picture(
        drawn,
        "Parameters by part: " + "; ".join(f"{name} {big(value)}" for name, value in known) + ".",
    )


PICTURES: dict[str, tuple[tuple[str, ...], Draw]] = {
    "loss_tokens": (
        ("loss",),
        _lines(
            "loss", "tokens", "Loss against tokens", "tokens seen", "nats per token", faint="train"
        ),
    ),
    "loss_steps": (
        ("loss",),
        _lines("loss", "step", "Loss against updates", "updates", "nats per token", faint="train"),
    ),
    "perplexity": (
        ("perplexity",),
        _lines(
            "perplexity",
            "tokens",
            "Perplexity during training",
            "tokens seen",
            "perplexity, log scale",
            log_y=True,
            faint="train",
        ),
    ),
    "learning_rate": (
        ("learning_rate",),
        _lines("learning_rate", "step", "Learning rate", "updates", "learning rate"),
    ),
    "grad_norm": (
        ("grad_norm",),
        _lines("grad_norm", "step", "Gradient norm", "updates", "gradient norm"),
    ),
    "baselines": (("evaluate",), _baselines),
    "beam_log_prob": (
        ("beam_bench", "beam_bench_time"),
        _beams("log_prob_per_token", "log-probability per token (nats)"),
    ),
    "beam_bleu": (("beam_bench", "beam_bench_time"), _beams("bleu4", "BLEU-4")),
    "kv_speed": (
        ("kv_bench_time",),
        _kv("tokens_per_s", "Speed with and without the cache", "tokens/s"),
    ),
    "kv_memory": (("kv_bench_time",), _kv("peak_mib", "Peak memory", "MiB")),
    "accum_tokens": (
        ("accum_tokens",),
        _lines(
            "accum_tokens", "tokens", "Equal tokens", "tokens seen", "train loss, nats per token"
        ),
    ),
    "accum_updates": (
        ("accum_updates",),
        _lines("accum_updates", "update", "Equal updates", "updates", "train loss, nats per token"),
    ),
    "accum_micro_steps": (
        ("accum_micro_steps",),
        _lines(
            "accum_micro_steps",
            "micro_step",
            "Equal mini-batches",
            "mini-batches",
            "train loss, nats per token",
        ),
    ),
    "ckpt_memory": (
        ("ckpt_bench_time",),
        _pair(
            "ckpt_bench_time",
            "layers",
            "recompute",
            "peak_mib",
            ("recompute", "plain"),
            "Memory against depth",
            ("layers", "peak MiB"),
        ),
    ),
    "ckpt_time": (
        ("ckpt_bench_time",),
        _pair(
            "ckpt_bench_time",
            "layers",
            "recompute",
            "step_s",
            ("recompute", "plain"),
            "Time against depth",
            ("layers", "seconds per step"),
        ),
    ),
    "seconds": (tuple(f"{stage}_time" for stage in STAGES), _seconds),
    "parameters": (("train",), _parameters),
    "head_roles": (("roles", "ablation"), head_roles),
    "heads_width": (("heads_training",), draw_widths),
    "roles_training": (("heads_training",), draw_roles),
    "seed_losses": (("seed_curves",), seed_losses),
    "new_ngrams": (("evaluate",), new_ngrams),
    "sense_methods": (("evaluate",), _sense_methods),
    "sense_training": (("evaluate",), _sense_training),
    "pairs": (("evaluate",), draw_phenomena),
    "pairs_training": (("evaluate",), draw_training),
}


def draw_pictures(run: Run) -> dict[str, Picture]:
    """Everything on the page except the single heads, by name; what has no data is left out."""
    with rc_context(STYLE):
        drawn = {name: draw(run) for name, (_, draw) in PICTURES.items()}
        known = {name: picture for name, picture in drawn.items() if picture is not None}
        return known | dict(tendency_pictures(run))


def sentence_pictures(run: Run) -> dict[str, Picture]:
    """Each sentence's attention, all layers and heads in one picture (for plots/), by name."""
    with rc_context(STYLE):
        return {
            f"attention_{number}": Picture(
                heatmaps.draw_sentence(sentence.words, sentence.maps, prediction(sentence)),
                f"Attention over: {' '.join(sentence.words)}",
            )
            for number, sentence in enumerate(run.sentences(), start=1)
        }


def page_svgs(pictures: dict[str, Picture]) -> dict[str, str]:
    """The pictures as inline SVG, by name."""
    return {name: to_svg(picture.figure, name, picture.alt) for name, picture in pictures.items()}
