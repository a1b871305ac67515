"""Every picture of a run by name, and the frame that each is drawn from."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
import pandas as pd
from matplotlib import rc_context

from tinylm.report import heatmaps
from tinylm.report.charts import draw_bars, draw_lines, draw_points
from tinylm.report.drawing import STYLE, Picture
from tinylm.report.heads import heads, roles_by_epoch, widths_by_epoch
from tinylm.report.sources import STAGES, Checkpoint, Run, Sentence, Tree, as_number
from tinylm.report.wording import big, loss, name_of, number, prediction, seconds

Draw = Callable[[Run], Picture | None]


# ---------------------------------------------------------------- what the model predicts and writes


def _series(run: Run, table: str, x: str) -> pd.DataFrame:
    """A long CSV as a frame of x, series and value."""
    frame = pd.DataFrame(run.rows(table), columns=[x, "series", "value"])
    return frame.rename(columns={x: "x"})


def _lines(frame: pd.DataFrame, *labels: str, **options: Any) -> Picture | None:
    """Lines, without the rows that lack a number; None without any row."""
    if frame.empty:
        return None
    numbers = frame.columns.drop("series")
    frame[numbers] = frame[numbers].apply(pd.to_numeric, errors="coerce")
    frame = frame.dropna(subset=["x", "value"])
    return None if frame.empty else draw_lines(frame, *labels, **options)


def _bars(
    rows: Iterable[tuple[str, Any]],
    title: str,
    x_label: str,
    written: Callable[[Any], str],
    **options: Any,
) -> Picture | None:
    """Bars of names and numbers, or of names and {"value", "low", "high"}; others are left out."""
    measured = [_interval_row(row) | {"name": name} for name, row in rows]
    frame = pd.DataFrame(measured, columns=["name", "value", "low", "high", "other"])
    frame = frame.set_index("name").dropna(subset="value").dropna(axis="columns", how="all")
    return None if frame.empty else draw_bars(frame, title, x_label, written, **options)


def _interval_row(value: Any) -> dict[str, float | None]:
    if isinstance(value, dict):
        return {key: as_number(value.get(key)) for key in ("value", "low", "high", "other")}
    return {"value": as_number(value)}


def _percent(share: dict[str, float]) -> dict[str, float]:
    return {end: 100 * share[end] for end in ("value", "low", "high")}


def _curves(table: str, x: str, *labels: str, **options: Any) -> Draw:
    """Draws the series of a long CSV against its column x."""
    return lambda run: _lines(_series(run, table, x), *labels, **options)


def _loss(x: str, title: str, x_label: str) -> Draw:
    """Draws the losses, with a band of the held-out losses of all seeds."""

    def draw(run: Run) -> Picture | None:
        frame = _series(run, "loss", x)
        seeds = _series(run, "seed_curves", x)
        seeds = seeds.pivot(index="x", columns="series", values="value")
        if {"lowest", "highest"} <= set(seeds):
            ends = seeds.rename(columns={"lowest": "low", "highest": "high"})[["low", "high"]]
            frame = frame.merge(ends.reset_index().assign(series="held-out"), how="left")
        return _lines(frame, title, x_label, "nats per token", faint="train")

    return draw


def _seed_losses(run: Run) -> Picture | None:
    frame = _series(run, "seed_curves", "tokens")
    frame = frame[frame["series"].str.startswith("seed ")].copy()
    if frame["series"].nunique() < 2:
        return None
    return _lines(frame, "Held-out loss of each seed", "tokens seen", "nats per token")


def baselines(run: Run) -> dict[str, Tree]:
    """Baselines and model by name, each target scored once, from knowing nothing to knowing the generator."""
    measured = run.tree("evaluate").baselines
    order = measured.kneser_ney.order
    rows = {
        "uniform": measured.uniform,
        "unigram": measured.unigram,
        f"Kneser-Ney of order {order}" if order else "Kneser-Ney": measured.kneser_ney,
        "this model": run.scored_once(),
        "the generator's floor": measured.floor,
    }
    return {name: row for name, row in rows.items() if row}


def _baselines(run: Run) -> Picture | None:
    rows = [(name, row.perplexity) for name, row in baselines(run).items()]
    title = "Perplexity on evaluation (lower is better)"
    return _bars(rows, title, "perplexity, log scale", number, log_x=True, strong="this model")


def sense_methods(run: Run) -> dict[str, Tree]:
    """The metrics of each way to continue the prompts by its name, the stories' own first."""
    names = {
        "references": "the stories' own",
        "decode": "as in section decode",
    }
    methods = run.tree("evaluate").sense.methods.items()
    return {names.get(name, name): row for name, row in methods if row}


def _sense_methods(run: Run) -> Picture | None:
    rows = [(name, row.words) for name, row in sense_methods(run).items()]
    return _bars(rows, "Words per error", "words", number, strong="as in section decode")


def _sense_training(run: Run) -> Picture | None:
    rows = [
        {"x": run.epochs_of(row.epochs), "series": "samples", **row.words}
        for row in run.tree("evaluate").sense.training or []
        if row.words
    ]
    labels = ("Words per error", "epochs", "words")
    return _lines(pd.DataFrame(rows), *labels, from_zero=True, counted_x=False)


def _new_ngrams(run: Run) -> Picture | None:
    memorised = run.tree("evaluate").memorised
    rows = []
    for key, series in (("continuations", "continuations"), ("references", "the stories' own")):
        for n, new in memorised[key].new.items():
            rows.append({"x": int(n), "series": series, **_percent(new)})
    labels = ("n-grams not in the training split", "words (n)", "% of all n-grams")
    return _lines(pd.DataFrame(rows), *labels, from_zero=True)


def _pairs(run: Run) -> Picture | None:
    rows = []
    for name, row in run.tree("evaluate").pairs.phenomena.items():
        if row.model:
            percent = _percent(row.model)
            if row.kneser_ney:
                percent["other"] = 100 * row.kneser_ney.value
            rows.append((name, percent))
    title = "Pairs whose right sentence is likelier"
    return _bars(rows, title, "% of pairs", "{:.0f} %".format, chance=50)


def _pairs_training(run: Run) -> Picture | None:
    pairs = run.tree("evaluate").pairs
    rows = []
    for checkpoint in pairs.training or []:
        epochs = run.epochs_of(checkpoint.epochs)
        for name, result in checkpoint.phenomena.items():
            if result:
                about = pairs.phenomena[name].about
                rows.append({"x": epochs, "series": about, "value": result.value})
    frame = pd.DataFrame(rows, columns=["x", "series", "value"])
    means = frame.groupby(["series", "x"], as_index=False).mean()
    title = "Pairs whose right sentence is likelier, during training"
    return _lines(means, title, "epochs", "share of pairs", counted_x=False)


# ---------------------------------------------------------------- what things cost


def stage_seconds(run: Run) -> dict[str, float]:
    """Wall time of each stage that has one, in the order of the pipeline."""
    times = {stage: as_number(run.get(f"{stage}_time", "seconds")) for stage in STAGES}
    return {stage: value for stage, value in times.items() if value}


def _seconds(run: Run) -> Picture | None:
    return _bars(stage_seconds(run).items(), "Time of each stage", "seconds", seconds)


def _parameters(run: Run) -> Picture | None:
    parts = run.tree("train").parameters_by_part.items()
    rows = [(name_of(part), parameters or None) for part, parameters in parts]
    return _bars(rows, "Parameters by part", "parameters", big)


def _trade_off(quality: str, y_label: str) -> Draw:
    """Draws the quality of each decoding method against its speed."""

    def draw(run: Run) -> Picture | None:
        methods = pd.DataFrame.from_dict(run.tree("beam_bench").methods, orient="index")
        speeds = pd.DataFrame.from_dict(run.tree("beam_bench_time").methods, orient="index")
        if methods.empty or speeds.empty:
            return None
        frame = pd.DataFrame({"x": speeds["tokens_per_s"], "y": methods[quality]}).dropna()
        frame = frame.reindex([name for name in methods.index if name in frame.index])
        return draw_points(frame, f"{y_label} against speed", "tokens/s", y_label)

    return draw


def _kv(column: str, title: str, y_label: str) -> Draw:
    """Draws decoding with and without the cache against the number of new tokens."""

    def draw(run: Run) -> Picture | None:
        frame = _switched(run, "kv_bench_time", "new_tokens", {True: "cache", False: "no cache"})
        context = as_number(run.param("model", "context"))
        prompt = as_number(run.param("kv_bench", "prompt_tokens"))
        mark = None
        if context is not None and prompt is not None:
            mark = (context - prompt, "context full")
        return _measured(frame, column, title, "new tokens", y_label, mark=mark)

    return draw


def _ckpt(column: str, title: str, y_label: str) -> Draw:
    """Draws a training step with and without recomputation against depth."""

    def draw(run: Run) -> Picture | None:
        frame = _switched(run, "ckpt_bench_time", "layers", {True: "recompute", False: "plain"})
        return _measured(frame, column, title, "layers", y_label)

    return draw


def _switched(run: Run, bench: str, x: str, names: dict[bool, str]) -> pd.DataFrame:
    """A bench's settings, named by whether what it measures was on."""
    frame = pd.DataFrame(run.get(bench, "settings"))
    switch = "cache" if "cache" in frame else "recompute"
    if frame.empty:
        return frame
    return frame.assign(x=frame[x], series=frame[switch].map(names))


def _measured(frame: pd.DataFrame, column: str, *labels: str, **options: Any) -> Picture | None:
    if column not in frame:
        return None
    lines = frame.rename(columns={column: "value"})[["x", "series", "value"]]
    return _lines(lines, *labels, from_zero=True, **options)


# ---------------------------------------------------------------- heads


def _head_roles(run: Run) -> Picture | None:
    """Each head's role and what the model loses without it."""
    measured = heads(run)
    if not measured:
        return None
    shape = (max(head.layer for head in measured), max(head.head for head in measured))
    values = np.full(shape, np.nan)
    texts = np.full(shape, "", dtype=object)
    words = []
    for head in measured:
        cell = (head.layer - 1, head.head - 1)
        values[cell] = np.nan if head.increase is None else head.increase
        texts[cell] = f"{head.name()}\n{loss(head.increase)}".strip()
        name = head.name() or "no role"
        words.append(f"layer {head.layer}, head {head.head} ({name}) {loss(head.increase)}")
    title = "Loss added by ablating a head, nats per token"
    return Picture(heatmaps.draw_matrix(values, texts, title), f"{title}: {'; '.join(words)}.")


def _widths(run: Run) -> Picture | None:
    labels = ("Effective width of attention", "epochs", "tokens, mean over heads")
    return _lines(widths_by_epoch(run), *labels, counted_x=False)


def _roles(run: Run) -> Picture | None:
    labels = ("Best head of each role", "epochs", "score above its baseline")
    return _lines(roles_by_epoch(run), *labels, counted_x=False)


def attention_pictures(run: Run) -> dict[str, Picture]:
    """Every head of the drawn sentences and of the user's, and of each layer over training, by name."""
    pictures = {}
    for index, sentence in enumerate(run.sentences(), start=1):
        pictures[f"attention_{index}"] = _sentence(sentence)
    for index, (sentence, checkpoints) in enumerate(run.own_sentences(), start=1):
        name = f"own_sentence_{index}"
        pictures[name] = _sentence(sentence)
        pictures |= _over_training(name, checkpoints)
    return pictures | _over_training("attention", run.checkpoints())


def _sentence(sentence: Sentence) -> Picture:
    drawing = heatmaps.draw_sentence(sentence.words, sentence.maps, prediction(sentence))
    return Picture(drawing, f"Attention of every head over: {' '.join(sentence.words)}")


def _over_training(name: str, checkpoints: Sequence[Checkpoint]) -> dict[str, Picture]:
    """For each layer one picture: a row for each head, from early to late in training."""
    if not checkpoints:
        return {}
    words = checkpoints[0].words
    by_epoch = np.stack([checkpoint.maps for checkpoint in checkpoints], axis=2)
    pictures = {}
    for layer, maps in enumerate(by_epoch, start=1):
        titles = [
            [f"head {head}, epoch {checkpoint.epochs:g}" for checkpoint in checkpoints]
            for head in range(1, len(maps) + 1)
        ]
        drawing = heatmaps.draw_sentence(words, maps, titles=titles)
        alt = f"Attention of layer {layer} during training over: {' '.join(words)}"
        pictures[f"{name}_training_{layer}"] = Picture(drawing, alt)
    return pictures


_TRAIN_LOSS = "train loss, nats per token"
PICTURES: dict[str, Draw] = {
    "loss_tokens": _loss("tokens", "Loss against tokens", "tokens seen"),
    "loss_steps": _loss("step", "Loss against updates", "updates"),
    "perplexity": _curves(
        "perplexity", "tokens", "Perplexity during training", "tokens seen", "perplexity",
        log_y=True, faint="train",
    ),
    "learning_rate": _curves("learning_rate", "step", "Learning rate", "updates", "learning rate"),
    "grad_norm": _curves("grad_norm", "step", "Gradient norm", "updates", "gradient norm"),
    "baselines": _baselines,
    "seed_losses": _seed_losses,
    "new_ngrams": _new_ngrams,
    "sense_methods": _sense_methods,
    "sense_training": _sense_training,
    "pairs": _pairs,
    "pairs_training": _pairs_training,
    "beam_log_prob": _trade_off("log_prob_per_token", "Log-probability per token (nats)"),
    "beam_bleu": _trade_off("bleu4", "BLEU-4"),
    "kv_speed": _kv("tokens_per_s", "Speed with and without the cache", "tokens/s"),
    "kv_memory": _kv("peak_mib", "Peak memory", "MiB"),
    "accum_tokens": _curves("accum_tokens", "tokens", "Equal tokens", "tokens seen", _TRAIN_LOSS),
    "accum_updates": _curves("accum_updates", "update", "Equal updates", "updates", _TRAIN_LOSS),
    "accum_micro_steps": _curves(
        "accum_micro_steps", "micro_step", "Equal mini-batches", "mini-batches", _TRAIN_LOSS
    ),
    "ckpt_memory": _ckpt("peak_mib", "Memory against depth", "peak MiB"),
    "ckpt_time": _ckpt("step_s", "Time against depth", "seconds per step"),
    "seconds": _seconds,
    "parameters": _parameters,
    "head_roles": _head_roles,
    "heads_width": _widths,
    "roles_training": _roles,
}  # fmt: skip


def draw_pictures(run: Run) -> dict[str, Picture]:
    """Every picture by name; what has no data is left out."""
    with rc_context(STYLE):
        drawn = {name: draw(run) for name, draw in PICTURES.items()}
        pictures = {name: picture for name, picture in drawn.items() if picture is not None}
        return pictures | attention_pictures(run)
