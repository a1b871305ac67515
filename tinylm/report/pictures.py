"""Every picture of a run by name, and the frame that each is drawn from."""

from collections.abc import Callable
from typing import Any

import pandas as pd

from tinylm.report.charts import Labels, draw_lines, draw_points
from tinylm.report.drawing import Picture, finite, in_style, optional
from tinylm.report.heatmaps import draw_sentence
from tinylm.report.truth_charts import draw_decoding, draw_story, draw_training
from tinylm.report.values import MAP_ROWS, nearest_decoding, readable_sentences, shown_heads
from tinylm.run.finished_run import FinishedRun, Sentence

Draw = Callable[[FinishedRun], Picture | None]
TRAIN_LOSS = "train loss, nats per token"
SMOOTHED = 25  # the train loss of an accumulation setting is a mean over 1/25 of its run


def _lines(frame: pd.DataFrame, labels: Labels, **options: Any) -> Picture | None:
    """Lines, without the rows that lack a finite number; None without any row."""
    frame = finite(frame, ["x", "value"])
    return None if frame.empty else draw_lines(frame, labels, **options)


def _curves(table: str, labels: Labels, **options: Any) -> Draw:
    """Draws the train loss as a line and the few validations as points, against the tokens seen."""
    options["unconnected"] = ("held-out",)
    return lambda run: _lines(
        run.tables.frame(table).rename(columns={"tokens": "x"}), labels, **options
    )


def _accumulation(table: str, x: str, title: str, x_label: str) -> Draw:
    """Draws the train loss of each setting, smoothed: single mini-batches differ too much."""

    def draw(run: FinishedRun) -> Picture | None:
        frame = run.tables.frame(table).rename(columns={x: "x"})
        for _, of_setting in frame.groupby("series") if len(frame) else ():
            updates = max(len(of_setting) // SMOOTHED, 1)
            means = of_setting["value"].rolling(updates, min_periods=1).mean()
            frame.loc[of_setting.index, "value"] = means
        return _lines(frame, Labels(title, x_label, TRAIN_LOSS))

    return draw


def _trade_off(run: FinishedRun) -> Picture | None:
    """The quality of each decoding method against its speed; beam 1 is greedy decoding."""
    speeds = run.times.beam_bench.methods if run.times.beam_bench else {}
    methods = run.beam_bench.methods if run.beam_bench else {}
    rows = []
    for name, method in methods.items():
        if name in speeds and name != "beam 1":
            speed = speeds[name]
            row = {
                "series": name,
                "x": speed.tokens_per_s,
                "low": speed.low_tokens_per_s,
                "high": speed.high_tokens_per_s,
                "value": method.bleu4,
            }
            rows.append(row)
    labels = Labels("Quality and speed of decoding", "speed, tokens/s", "BLEU-4, 0 to 1")
    frame = finite(pd.DataFrame(rows), ["x", "low", "high", "value"])
    return None if frame.empty else draw_points(frame, labels)


def _graded_decoding(run: FinishedRun) -> Picture | None:
    """Impossible and cut words of each decoding setting, the setting nearest to the generator first."""
    rows = []
    for name, grade in nearest_decoding(run):
        if grade.impossible is not None and grade.cut is not None:
            row = {"setting": name, "let_in": grade.impossible.value, "cut": grade.cut.value}
            rows.append(row)
    return draw_decoding(pd.DataFrame(rows, columns=["setting", "let_in", "cut"]))


def _cache(column: str, labels: Labels) -> Draw:
    """Draws what the bench measured with and without the cache, from zero on."""
    names = {True: "cache", False: "no cache"}

    def draw(run: FinishedRun) -> Picture | None:
        measured = run.times.kv_bench.settings if run.times.kv_bench else []
        rows = []
        for row in measured:
            series = names[row.cache]
            rows.append({"x": row.new_tokens, "series": series, "value": getattr(row, column)})
        return _lines(pd.DataFrame(rows), labels, from_zero=True, ticks_at_points=True)

    return draw


def attention_pictures(run: FinishedRun) -> dict[str, Picture]:
    """Two heads over a sentence, and every head over each sentence, by name."""
    pictures = {}
    for index, head in enumerate(shown_heads(run), start=1):
        drawing = draw_sentence(head["words"], head["map"][None, None], titles=[[head["title"]]])
        alt = f"Attention of {head['title']}, over: {' '.join(head['words'])}"
        pictures[f"head_{index}"] = Picture(drawing, alt)
    for index, sentence in enumerate(readable_sentences(run, run.sentences), start=1):
        pictures[f"attention_{index}"] = _every_head(sentence)
    for index, sentence in enumerate(readable_sentences(run, run.own_sentences), start=1):
        pictures[f"own_sentence_{index}"] = _every_head(sentence)
    return pictures


def _every_head(sentence: Sentence) -> Picture:
    """The last rows of the maps: the last one predicts the word in the caption."""
    drawing = draw_sentence(sentence.words, sentence.maps[:, :, -MAP_ROWS:])
    return Picture(drawing, f"Attention of every head over: {' '.join(sentence.words)}")


PICTURES: dict[str, Draw] = {
    "truth_story": lambda run: draw_story(run.tables.frame("truth_story")),
    "truth_decoding": _graded_decoding,
    "truth_training": lambda run: draw_training(run.tables.frame("truth_training")),
    "loss_tokens": _curves(
        "loss",
        Labels("Loss during training", "tokens seen", "loss, nats per token"),
        height=1.9,
    ),
    "perplexity": _curves(
        "perplexity",
        Labels("Perplexity during training", "tokens seen", "perplexity"),
        log_y=True,
    ),
    "beam_trade_off": _trade_off,
    "kv_speed": _cache("tokens_per_s", Labels("Speed", "new tokens", "speed, tokens/s")),
    "kv_memory": _cache("peak_mib", Labels("Memory", "new tokens", "peak memory, MiB")),
    "accum_tokens": _accumulation("accum_tokens", "tokens", "Equal tokens", "tokens seen"),
    "accum_updates": _accumulation("accum_updates", "update", "Equal updates", "updates"),
}


def draw_pictures(run: FinishedRun) -> dict[str, Picture]:
    """Every picture by name; what has no data or cannot be drawn is left out."""
    pictures = {}
    with in_style():
        for name, draw in PICTURES.items():
            with optional(f"picture {name}"):
                if picture := draw(run):
                    pictures[name] = picture
        with optional("the pictures of attention"):
            pictures |= attention_pictures(run)
    return pictures
