"""Every picture of a run by name, and the frame that each is drawn from."""

from collections.abc import Callable
from typing import Any

import pandas as pd

from tinylm.report import heatmaps
from tinylm.report.charts import draw_lines
from tinylm.report.drawing import Picture, in_style
from tinylm.report.sources import ReportData, Sentence
from tinylm.report.truth_charts import draw_story, draw_training
from tinylm.report.wording import prediction

Draw = Callable[[ReportData], Picture | None]
TRAIN_LOSS = "train loss, nats per token"
SMOOTHED = 25  # the train loss of an accumulation setting is a mean over 1/25 of its run


def _lines(frame: pd.DataFrame, *labels: str, **options: Any) -> Picture | None:
    """Lines, without the rows that lack a number; None without any row."""
    if frame.empty or "value" not in frame:
        return None
    frame = frame.dropna(subset=["x", "value"])
    return None if frame.empty else draw_lines(frame, *labels, **options)


def _curves(table: str, *labels: str, **options: Any) -> Draw:
    """Draws the series of a table against the tokens seen."""
    return lambda run: _lines(run.frame(table).rename(columns={"tokens": "x"}), *labels, **options)


def _accumulation(table: str, x: str, *labels: str) -> Draw:
    """Draws the train loss of each setting, smoothed: single mini-batches differ too much."""

    def draw(run: ReportData) -> Picture | None:
        frame = run.frame(table).rename(columns={x: "x"})
        for _, of_setting in frame.groupby("series") if len(frame) else ():
            updates = max(len(of_setting) // SMOOTHED, 1)
            means = of_setting["value"].rolling(updates, min_periods=1).mean()
            frame.loc[of_setting.index, "value"] = means
        return _lines(frame, *labels, TRAIN_LOSS)

    return draw


def _trade_off(run: ReportData) -> Picture | None:
    """The quality of each decoding method against its speed."""
    speeds = run.value("beam_bench_time.methods") or {}
    rows = [
        {"x": speeds[name]["tokens_per_s"], "series": name, "value": method["bleu4"]}
        for name, method in (run.value("beam_bench.methods") or {}).items()
        if name in speeds
    ]
    labels = ("Quality and speed of decoding", "speed, tokens/s", "BLEU-4, 0 to 1")
    return _lines(pd.DataFrame(rows), *labels, from_zero=True)


def _switched(bench: str, x: str, switch: str, column: str, *labels: str) -> Draw:
    """Draws what a bench measured with and without something, from zero on."""
    names = {True: switch, False: f"no {switch}"}

    def draw(run: ReportData) -> Picture | None:
        rows = [
            {"x": row[x], "series": names[row[switch]], "value": row[column]}
            for row in run.value(f"{bench}.settings") or []
        ]
        return _lines(pd.DataFrame(rows), *labels, from_zero=True)

    return draw


def attention_pictures(run: ReportData) -> dict[str, Picture]:
    """Attention of every head over each sentence, by name."""
    pictures = {}
    for index, sentence in enumerate(run.sentences(), start=1):
        pictures[f"attention_{index}"] = _sentence(sentence)
    for index, sentence in enumerate(run.sentences("own_sentences"), start=1):
        pictures[f"own_sentence_{index}"] = _sentence(sentence)
    return pictures


def _sentence(sentence: Sentence) -> Picture:
    drawing = heatmaps.draw_sentence(sentence.words, sentence.maps, prediction(sentence))
    return Picture(drawing, f"Attention of every head over: {' '.join(sentence.words)}")


PICTURES: dict[str, Draw] = {
    "truth_story": lambda run: draw_story(run.frame("truth_story")),
    "truth_training": lambda run: draw_training(run.frame("truth_training")),
    "loss_tokens": _curves("loss", "Loss during training", "tokens seen", "loss, nats per token"),
    "perplexity": _curves(
        "perplexity", "Perplexity during training", "tokens seen", "perplexity", log_y=True
    ),
    "beam_trade_off": _trade_off,
    "kv_speed": _switched(
        "kv_bench_time", "new_tokens", "cache", "tokens_per_s",
        "Speed with and without the cache", "new tokens", "speed, tokens/s",
    ),
    "kv_memory": _switched(
        "kv_bench_time", "new_tokens", "cache", "peak_mib",
        "Memory with and without the cache", "new tokens", "peak memory, MiB",
    ),
    "accum_tokens": _accumulation("accum_tokens", "tokens", "Equal tokens", "tokens seen"),
    "accum_updates": _accumulation("accum_updates", "update", "Equal updates", "updates"),
    "accum_micro_steps": _accumulation(
        "accum_micro_steps", "micro_step", "Equal mini-batches", "mini-batches"
    ),
}  # fmt: skip


def draw_pictures(run: ReportData) -> dict[str, Picture]:
    """Every picture by name; what has no data, or damaged data, is left out."""
    pictures = {}
    with in_style():
        for name, draw in PICTURES.items():
            try:
                picture = draw(run)
            except (LookupError, TypeError, ValueError):
                picture = None
            if picture is not None:
                pictures[name] = picture
        return pictures | attention_pictures(run)
