"""Every picture of a run by name: what it is drawn from, the figure, and its alt text."""

import dataclasses
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
from matplotlib import rc_context

from tinylm.report import charts, heatmaps
from tinylm.report.charts import Curves
from tinylm.report.drawing import STYLE, Picture
from tinylm.report.heads import Head, heads, roles_by_epoch, widths_by_epoch
from tinylm.report.sources import STAGES, Checkpoint, Run, Sentence, Tree, as_number, long_series
from tinylm.report.wording import (
    big,
    interval,
    loss,
    name_of,
    number,
    prediction,
    seconds,
    share,
)

Draw = Callable[[Run], Picture | None]


# ---------------------------------------------------------------- curves of a table


@dataclasses.dataclass(frozen=True)
class CurvesOf:
    """Draws the curves of a long CSV by its column `series`; `faint`: the curve that is thin."""

    table: str
    x: str
    title: str
    x_label: str
    y_label: str
    log_y: bool = False
    faint: str = ""

    def __call__(self, run: Run) -> Picture | None:
        lines = long_series(run.rows(self.table), self.x)
        bands = seed_band(run, self.x) if self.table == "loss" else {}
        options = {"log_y": self.log_y, "faint": self.faint, "bands": bands}
        return curves_picture(lines, self.title, self.x_label, self.y_label, **options)


def curves_picture(
    lines: Curves, title: str, x_label: str, y_label: str, **options: Any
) -> Picture | None:
    """Curves with where each begins and ends as alt text; None without any."""
    if not lines:
        return None
    drawn = charts.draw_curves(lines, title, x_label, y_label, **options)
    ends = "; ".join(
        f"{name} from {number(ys[0])} to {number(ys[-1])}" for name, (_, ys) in lines.items()
    )
    return Picture(drawn, f"{title}, {y_label} against {x_label}: {ends}.")


def seed_band(run: Run, x: str) -> charts.Bands:
    """Lowest and highest held-out loss of all seeds against x; empty with one seed."""
    lines = long_series(run.rows("seed_curves"), x)
    if not {"lowest", "highest"} <= lines.keys():
        return {}
    return {"held-out": (*lines["lowest"], lines["highest"][1])}


def seed_losses(run: Run) -> Picture | None:
    """Held-out loss of each seed against tokens; nothing with one seed."""
    curves = long_series(run.rows("seed_curves"), "tokens")
    lines = {name: line for name, line in curves.items() if name.startswith("seed ")}
    if len(lines) < 2:
        return None
    return curves_picture(lines, "Held-out loss of each seed", "tokens seen", "nats per token")


# ---------------------------------------------------------------- what the model predicts and writes


def baseline_rows(run: Run) -> list[tuple[str, dict[str, Any]]]:
    """Baselines and model by name, each target scored once, from knowing nothing to knowing the generator."""
    baselines = run.mapping("evaluate", "baselines")
    order = baselines.kneser_ney.order
    rows = [
        ("uniform", baselines.uniform),
        ("unigram", baselines.unigram),
        (f"Kneser-Ney of order {order}" if order else "Kneser-Ney", baselines.kneser_ney),
        ("this model", run.scored_once()),
        ("the generator's floor", baselines.floor),
    ]
    return [(name, row) for name, row in rows if row]


def sense_methods(run: Run) -> dict[str, Any]:
    """The metrics of each way to continue the prompts by its name, the stories' own first."""
    names = {
        "references": "the stories' own",
        "decode": "as in section decode",
    }
    methods = run.mapping("evaluate", "sense", "methods").items()
    return {names.get(name, name): row for name, row in methods if row}


def _bars(
    rows: Iterable[tuple[str, Any]],
    title: str,
    x_label: str,
    written: Callable[[Any], str],
    **options: Any,
) -> Picture | None:
    values = [(name, as_number(value)) for name, value in rows]
    bars = [(name, value) for name, value in values if value]
    if not bars:
        return None
    drawn = charts.draw_bars(bars, title, x_label, written, **options)
    words = "; ".join(f"{name} {written(value)}" for name, value in bars)
    return Picture(drawn, f"{title}: {words}.")


def _baselines(run: Run) -> Picture | None:
    rows = [(name, row.get("perplexity")) for name, row in baseline_rows(run)]
    title = "Perplexity on evaluation (lower is better)"
    options = {"log_x": True, "strong": "this model"}
    return _bars(rows, title, "perplexity, log scale", number, **options)


def _sense_methods(run: Run) -> Picture | None:
    rows = [(name, (row.words or {}).get("value")) for name, row in sense_methods(run).items()]
    return _bars(rows, "Words per error", "words", number, strong="as in section decode")


def _seconds(run: Run) -> Picture | None:
    return _bars(stage_seconds(run), "Time of each stage", "seconds", seconds)


def _parameters(run: Run) -> Picture | None:
    parts = run.mapping("train", "parameters_by_part").items()
    rows = [(name_of(name), value) for name, value in parts]
    return _bars(rows, "Parameters by part", "parameters", big, engineering=True)


def stage_seconds(run: Run) -> list[tuple[str, float]]:
    """Wall time of each stage that has one, in the order of the pipeline."""
    times = [(stage, as_number(run.get(f"{stage}_time", "seconds"))) for stage in STAGES]
    return [(stage, value) for stage, value in times if value]


def _with_bands(
    rows: Iterable[tuple[Any, Any]], scale: float = 1.0
) -> tuple[tuple[list[float], list[float]], tuple[list[float], list[float], list[float]]]:
    """A line and its band of (x, {"value", "low", "high"}); rows without a number are left out."""
    xs, ys, lows, highs = [], [], [], []
    for x, value in rows:
        x, span = as_number(x), interval(value)
        if x is not None and span is not None:
            xs.append(x)
            ys.append(scale * value["value"])
            lows.append(scale * span[0])
            highs.append(scale * span[1])
    return (xs, ys), (xs, lows, highs)


def _new_ngrams(run: Run) -> Picture | None:
    memorised = run.tree("evaluate").memorised
    lines, bands = {}, {}
    for key, name in (("continuations", "continuations"), ("references", "the stories' own")):
        line, band = _with_bands(memorised[key].new.items(), scale=100)
        if line[0]:
            lines[name] = line
            bands[name] = band
    options: dict[str, Any] = {"from_zero": True, "bands": bands}
    title = "n-grams not in the training split"
    return curves_picture(lines, title, "words (n)", "% of all n-grams", **options)


def _sense_training(run: Run) -> Picture | None:
    rows = run.tree("evaluate").sense.training or []
    line, band = _with_bands((run.epochs_of(row.get("epochs")), row.words) for row in rows)
    lines = {"samples": line} if line[0] else {}
    options: dict[str, Any] = {"from_zero": True, "bands": {"samples": band}, "counted_x": False}
    return curves_picture(lines, "Words per error", "epochs", "words", **options)


def _pairs(run: Run) -> Picture | None:
    rows = []
    for name, row in run.tree("evaluate").pairs.phenomena.items():
        span = interval(row.model)
        if span is not None:
            ngrams = as_number((row.kneser_ney or {}).get("value"))
            rows.append((name, row.model.value, *span, ngrams))
    if not rows:
        return None
    title = "Pairs whose right sentence is likelier"
    words = "; ".join(f"{row[0]} {share(row[1], 0)} (n-grams {share(row[4], 0)})" for row in rows)
    drawn = charts.draw_intervals(rows, title, "share of pairs", ("model", "n-grams"), chance=0.5)
    return Picture(drawn, f"{title}: {words}.")


def _pairs_training(run: Run) -> Picture | None:
    """The mean share of right pairs of either group, against epochs."""
    pairs = run.tree("evaluate").pairs
    lines: dict[str, tuple[list[float], list[float]]] = {}
    for row in pairs.training or []:
        groups: dict[str, list[float]] = {}
        for name, result in row.phenomena.items():
            value = as_number((result or {}).get("value"))
            if value is not None:
                groups.setdefault(pairs.phenomena[name].about or "other", []).append(value)
        for group, values in groups.items():
            xs, ys = lines.setdefault(group, ([], []))
            xs.append(run.epochs_of(row.epochs) or 0.0)
            ys.append(sum(values) / len(values))
    title = "Pairs whose right sentence is likelier, during training"
    return curves_picture(lines, title, "epochs", "share of pairs", counted_x=False)


# ---------------------------------------------------------------- what things cost


@dataclasses.dataclass(frozen=True)
class TradeOff:
    """Draws the quality of each decoding method against its speed."""

    quality: str
    y_label: str

    def __call__(self, run: Run) -> Picture | None:
        speeds = run.table("beam_bench_time", "methods")
        points = []
        for method, row in run.table("beam_bench", "methods").items():
            x = as_number(speeds.get(method, Tree()).get("tokens_per_s"))
            y = as_number(row.get(self.quality))
            if x is not None and y is not None:
                points.append((method, x, y))
        if not points:
            return None
        title = f"{self.y_label[0].upper()}{self.y_label[1:]} against speed"
        words = "; ".join(f"{name} {number(y)} at {number(x)} tokens/s" for name, x, y in points)
        drawn = charts.draw_points(points, title, "tokens/s", self.y_label)
        return Picture(drawn, f"{title}: {words}.")


@dataclasses.dataclass(frozen=True)
class WithAndWithout:
    """Draws a bench's settings as two curves: with and without what it measures."""

    table: str
    x: str
    switch: str
    y: str
    labels: tuple[str, str]
    title: str
    x_label: str
    y_label: str

    def __call__(self, run: Run) -> Picture | None:
        lines: dict[str, tuple[list[float], list[float]]] = {}
        for row in run.records(self.table, "settings"):
            x, y = as_number(row.get(self.x)), as_number(row.get(self.y))
            if x is not None and y is not None:
                label = self.labels[0] if row.get(self.switch) else self.labels[1]
                xs, ys = lines.setdefault(label, ([], []))
                xs.append(x)
                ys.append(y)
        picture = curves_picture(lines, self.title, self.x_label, self.y_label, from_zero=True)
        context = as_number(run.param("model", "context"))
        prompt = as_number(run.param("kv_bench", "prompt_tokens"))
        if picture and self.switch == "cache" and context and prompt is not None:
            charts.mark_x(picture.figure, context - prompt, "context full")
        return picture


# ---------------------------------------------------------------- heads


def _head_roles(run: Run) -> Picture | None:
    """Each head's role and what the model loses without it."""
    measured = heads(run)
    if not measured:
        return None
    shape = max(head.layer for head in measured), max(head.head for head in measured)
    values = np.full(shape, np.nan)
    texts = np.full(shape, "", dtype=object)
    for head in measured:
        position = head.layer - 1, head.head - 1
        values[position] = np.nan if head.increase is None else head.increase
        texts[position] = f"{head.name()}\n{loss(head.increase)}".strip()
    title = "Loss added by ablating a head, nats per token"
    words = "; ".join(_in_words(head) for head in measured)
    return Picture(heatmaps.draw_matrix(values, texts, title), f"{title}: {words}.")


def _in_words(head: Head) -> str:
    name = head.name() or "no role"
    return f"layer {head.layer}, head {head.head} ({name}) {loss(head.increase)}"


def _widths(run: Run) -> Picture | None:
    title, y_label = "Effective width of attention", "tokens, mean over heads"
    return curves_picture(widths_by_epoch(run), title, "epochs", y_label, counted_x=False)


def _roles(run: Run) -> Picture | None:
    title, y_label = "Best head of each role", "score above its baseline"
    return curves_picture(roles_by_epoch(run), title, "epochs", y_label, counted_x=False)


def attention_pictures(run: Run) -> dict[str, Picture]:
    """Every head of the drawn sentences and of the user's, and of each layer over training, by name."""
    pictures = {}
    for position, sentence in enumerate(run.sentences(), start=1):
        pictures[f"attention_{position}"] = _sentence(sentence)
    for position, (sentence, checkpoints) in enumerate(run.own_sentences(), start=1):
        name = f"own_sentence_{position}"
        pictures[name] = _sentence(sentence)
        pictures |= _over_training(name, checkpoints)
    return pictures | _over_training("attention", run.checkpoints())


def _sentence(sentence: Sentence) -> Picture:
    drawn = heatmaps.draw_sentence(sentence.words, sentence.maps, prediction(sentence))
    return Picture(drawn, f"Attention of every head over: {' '.join(sentence.words)}")


def _over_training(name: str, checkpoints: Sequence[Checkpoint]) -> dict[str, Picture]:
    """For each layer one picture: a row for each head, from early to late in training."""
    if not checkpoints:
        return {}
    words = checkpoints[0].words
    pictures = {}
    for layer in range(checkpoints[0].maps.shape[0]):
        maps = np.stack([checkpoint.maps[layer] for checkpoint in checkpoints], axis=1)
        titles = [
            [f"head {head + 1}, epoch {checkpoint.epochs:g}" for checkpoint in checkpoints]
            for head in range(len(maps))
        ]
        drawn = heatmaps.draw_sentence(words, maps, titles=titles)
        alt = f"Attention of layer {layer + 1} during training over: {' '.join(words)}"
        pictures[f"{name}_training_{layer + 1}"] = Picture(drawn, alt)
    return pictures


def _accumulation(name: str, x: str, title: str, x_label: str) -> CurvesOf:
    return CurvesOf(name, x, title, x_label, "train loss, nats per token")


def _kv(y: str, title: str, y_label: str) -> WithAndWithout:
    labels = "cache", "no cache"
    return WithAndWithout(
        "kv_bench_time", "new_tokens", "cache", y, labels, title, "new tokens", y_label
    )


def _ckpt(y: str, title: str, y_label: str) -> WithAndWithout:
    labels = "recompute", "plain"
    return WithAndWithout(
        "ckpt_bench_time", "layers", "recompute", y, labels, title, "layers", y_label
    )


PICTURES: dict[str, Draw] = {
    "loss_tokens": CurvesOf(
        "loss", "tokens", "Loss against tokens", "tokens seen", "nats per token", faint="train"
    ),
    "loss_steps": CurvesOf(
        "loss", "step", "Loss against updates", "updates", "nats per token", faint="train"
    ),
    "perplexity": CurvesOf(
        "perplexity",
        "tokens",
        "Perplexity during training",
        "tokens seen",
        "perplexity",
        True,
        "train",
    ),
    "learning_rate": CurvesOf("learning_rate", "step", "Learning rate", "updates", "learning rate"),
    "grad_norm": CurvesOf("grad_norm", "step", "Gradient norm", "updates", "gradient norm"),
    "baselines": _baselines,
    "seed_losses": seed_losses,
    "new_ngrams": _new_ngrams,
    "sense_methods": _sense_methods,
    "sense_training": _sense_training,
    "pairs": _pairs,
    "pairs_training": _pairs_training,
    "beam_log_prob": TradeOff("log_prob_per_token", "log-probability per token (nats)"),
    "beam_bleu": TradeOff("bleu4", "BLEU-4"),
    "kv_speed": _kv("tokens_per_s", "Speed with and without the cache", "tokens/s"),
    "kv_memory": _kv("peak_mib", "Peak memory", "MiB"),
    "accum_tokens": _accumulation("accum_tokens", "tokens", "Equal tokens", "tokens seen"),
    "accum_updates": _accumulation("accum_updates", "update", "Equal updates", "updates"),
    "accum_micro_steps": _accumulation(
        "accum_micro_steps", "micro_step", "Equal mini-batches", "mini-batches"
    ),
    "ckpt_memory": _ckpt("peak_mib", "Memory against depth", "peak MiB"),
    "ckpt_time": _ckpt("step_s", "Time against depth", "seconds per step"),
    "seconds": _seconds,
    "parameters": _parameters,
    "head_roles": _head_roles,
    "heads_width": _widths,
    "roles_training": _roles,
}


def draw_pictures(run: Run) -> dict[str, Picture]:
    """Every picture by name; what has no data is left out."""
    with rc_context(STYLE):
        drawn = {name: draw(run) for name, draw in PICTURES.items()}
        pictures = {name: picture for name, picture in drawn.items() if picture is not None}
        return pictures | attention_pictures(run)
