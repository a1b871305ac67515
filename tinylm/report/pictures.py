"""Every picture of a run by name, and the frame that each is drawn from."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pandas as pd

from tinylm.report import heatmaps
from tinylm.report.charts import draw_lines
from tinylm.report.drawing import Picture, in_style
from tinylm.report.sources import Run, Sentence, Tree
from tinylm.report.wording import prediction

Draw = Callable[[Run], Picture | None]


def _lines(frame: pd.DataFrame, *labels: str, **options: Any) -> Picture | None:
    """Lines, without the rows that lack a number; None without any row."""
    if frame.empty or "value" not in frame:
        return None
    frame = frame.dropna(subset=["x", "value"])
    return None if frame.empty else draw_lines(frame, *labels, **options)


def _curves(table: str, x: str, *labels: str, **options: Any) -> Draw:
    """Draws the series of a table against its column x."""
    return lambda run: _lines(run.frame(table).rename(columns={x: "x"}), *labels, **options)


def _seed_losses(run: Run) -> Picture | None:
    frame = run.frame("seed_curves").rename(columns={"tokens": "x"})
    if frame.empty or run.tree("seeds").n == 1:
        return None
    seeds = frame[frame["series"].str.startswith("seed ")]
    return _lines(seeds, "Held-out loss of each seed", "tokens seen", "nats per token")


def baselines(run: Run) -> dict[str, Tree]:
    """Baselines and model by name, from knowing nothing to knowing the generator."""
    measured = run.tree("evaluate").baselines
    rows = {
        "uniform": measured.uniform,
        "unigram": measured.unigram,
        f"Kneser-Ney of order {measured.kneser_ney.order}": measured.kneser_ney,
        "this model": run.scored_once(),
        "the generator's floor": measured.floor,
    }
    return {name: row for name, row in rows.items() if row}


def _epochs(run: Run, value: float | None) -> float:
    """The epochs of a checkpoint; None is the end of training."""
    return run.tree("train").epochs if value is None else value


def _sense_training(run: Run) -> Picture | None:
    rows = [
        {"x": _epochs(run, row.epochs), "series": "samples", **row.words}
        for row in run.tree("evaluate").sense.training or []
        if row.words
    ]
    labels = ("Words per error", "epochs", "words")
    return _lines(pd.DataFrame(rows), *labels, from_zero=True, counted_x=False)


def _trade_off(quality: str, y_label: str) -> Draw:
    """Draws the quality of each decoding method against its speed."""

    def draw(run: Run) -> Picture | None:
        speeds = run.tree("beam_bench_time").methods
        rows = [
            {"x": speeds[name].tokens_per_s or np.nan, "series": name, "value": method[quality]}
            for name, method in run.tree("beam_bench").methods.items()
        ]
        return _lines(pd.DataFrame(rows), f"{y_label} against speed", "tokens/s", y_label)

    return draw


def _switched(bench: str, x: str, switch: str, column: str, *labels: str) -> Draw:
    """Draws what a bench measured with and without something, from zero on."""
    names = {True: switch, False: f"no {switch}"}

    def draw(run: Run) -> Picture | None:
        rows = [
            {"x": row[x], "series": names[row[switch]], "value": row[column]}
            for row in run.tree(bench).settings or []
        ]
        return _lines(pd.DataFrame(rows), *labels, from_zero=True)

    return draw


def attention_pictures(run: Run) -> dict[str, Picture]:
    """Attention of every head over each sentence, and of each layer over training, by name."""
    pictures = _over_training("attention", run.sentences("attention_training"))
    for index, sentence in enumerate(run.sentences(), start=1):
        pictures[f"attention_{index}"] = _sentence(sentence)
    for index, (sentence, checkpoints) in enumerate(run.sentences("own_sentences"), start=1):
        name = f"own_sentence_{index}"
        pictures[name] = _sentence(sentence)
        pictures |= _over_training(name, checkpoints)
    return pictures


def _sentence(sentence: Sentence) -> Picture:
    drawing = heatmaps.draw_sentence(sentence.words, sentence.maps, prediction(sentence))
    return Picture(drawing, f"Attention of every head over: {' '.join(sentence.words)}")


def _over_training(name: str, checkpoints: Sequence[Sentence]) -> dict[str, Picture]:
    """For each layer one picture: a row for each head, from early to late in training."""
    if not checkpoints:
        return {}
    words = checkpoints[0].words
    by_epoch = np.stack([checkpoint.maps for checkpoint in checkpoints], axis=2)
    pictures = {}
    for layer, maps in enumerate(by_epoch, start=1):
        titles = []
        for head in range(1, len(maps) + 1):
            titles.append([f"head {head}, epoch {one.epochs:g}" for one in checkpoints])
        drawing = heatmaps.draw_sentence(words, maps, titles=titles)
        alt = f"Attention of layer {layer} during training over: {' '.join(words)}"
        pictures[f"{name}_training_{layer}"] = Picture(drawing, alt)
    return pictures


_TRAIN_LOSS = "train loss, nats per token"
PICTURES: dict[str, Draw] = {
    "loss_tokens": _curves(
        "loss", "tokens", "Loss against tokens", "tokens seen", "nats per token", faint="train"
    ),
    "perplexity": _curves(
        "perplexity", "tokens", "Perplexity during training", "tokens seen", "perplexity",
        log_y=True, faint="train",
    ),
    "learning_rate": _curves("learning_rate", "step", "Learning rate", "updates", "learning rate"),
    "grad_norm": _curves("grad_norm", "step", "Gradient norm", "updates", "gradient norm"),
    "seed_losses": _seed_losses,
    "sense_training": _sense_training,
    "beam_log_prob": _trade_off("log_prob_per_token", "Log-probability per token (nats)"),
    "beam_bleu": _trade_off("bleu4", "BLEU-4"),
    "kv_speed": _switched(
        "kv_bench_time", "new_tokens", "cache", "tokens_per_s",
        "Speed with and without the cache", "new tokens", "tokens/s",
    ),
    "kv_memory": _switched(
        "kv_bench_time", "new_tokens", "cache", "peak_mib", "Peak memory", "new tokens", "MiB"
    ),
    "accum_tokens": _curves("accum_tokens", "tokens", "Equal tokens", "tokens seen", _TRAIN_LOSS),
    "accum_updates": _curves("accum_updates", "update", "Equal updates", "updates", _TRAIN_LOSS),
    "accum_micro_steps": _curves(
        "accum_micro_steps", "micro_step", "Equal mini-batches", "mini-batches", _TRAIN_LOSS
    ),
    "ckpt_memory": _switched(
        "ckpt_bench_time", "layers", "recompute", "peak_mib",
        "Memory against depth", "layers", "peak MiB",
    ),
    "ckpt_time": _switched(
        "ckpt_bench_time", "layers", "recompute", "step_s",
        "Time against depth", "layers", "seconds per step",
    ),
}  # fmt: skip


def draw_pictures(run: Run) -> dict[str, Picture]:
    """Every picture by name; what has no data is left out."""
    with in_style():
        drawn = {name: draw(run) for name, draw in PICTURES.items()}
        pictures = {name: picture for name, picture in drawn.items() if picture is not None}
        return pictures | attention_pictures(run)
