"""Pictures of a report, read back from what matplotlib draws: their numbers are those of the tables, under the right names."""

import html
import itertools
import re
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from matplotlib.axes import Axes
from matplotlib.text import Text

from tests.drawn.drawing import DrawnRun
from tests.drawn.plain_files import Run, differs
from tests.drawn.properties import holds
from tests.drawn.running import in_folder
from tinylm.report.drawing import Picture
from tinylm.report.pictures import draw_pictures
from tinylm.report.wording import number, token_label
from tinylm.run.finished_run import read_run

Points = dict[str, np.ndarray]  # (x, y) of each series, (n, 2)
# The table in plots/, the column across, and what the axes are called.
CURVES = {
    "loss_tokens": ("loss", "tokens", "tokens seen", "loss, nats per token"),
    "perplexity": ("perplexity", "tokens", "tokens seen", "perplexity"),
    "accum_tokens": ("accum_tokens", "tokens", "tokens seen", "train loss, nats per token"),
    "accum_updates": ("accum_updates", "update", "updates", "train loss, nats per token"),
}
CACHE = {
    "kv_speed": ("tokens_per_s", "speed, tokens/s"),
    "kv_memory": ("peak_mib", "peak memory, MiB"),
}
KEPT_OUT = ("beam 1",)  # greedy decoding under another name
SMOOTHED = ("accum_tokens", "accum_updates")
ROWS = 12  # of an attention map


def finite(table: pd.DataFrame, columns: list[str]) -> pd.DataFrame:
    return table[np.isfinite(table[columns].to_numpy(dtype=float)).all(1)]


def table_of_truth(run: Run, name: str) -> pd.DataFrame:
    """A table of stage evaluate; empty if the generator judges nothing, as judged.py checks."""
    is_there = (run.folder / f"data/evaluate/{name}.csv").exists()
    return run.table(f"data/evaluate/{name}") if is_there else pd.DataFrame()


def series_of(table: pd.DataFrame, x: str, value: str = "value") -> Points:
    """The finite points of each series."""
    if table.empty:
        return {}
    rows = finite(table, [x, value])
    names = rows["series"].unique()
    return {name: rows.loc[rows["series"] == name, [x, value]].to_numpy(float) for name in names}


def smoothed(points: np.ndarray) -> np.ndarray:
    """Each value is the mean of the last rows, a 25th of all, up to its own."""
    window = max(len(points) // 25, 1)
    values = [points[max(0, end - window) : end, 1].mean() for end in range(1, len(points) + 1)]
    return np.column_stack([points[:, 0], values])


def check_points(name: str, drawn: Points, wanted: Points) -> None:
    assert list(drawn) == list(wanted), f"{name}: expected {list(wanted)}, drawn {list(drawn)}"
    for series, points in wanted.items():
        problem = differs(f"{name}, {series}", drawn[series], points)
        assert not problem, problem


def lines_of(axes: Axes) -> Points:
    return {str(line.get_label()): np.asarray(line.get_xydata(), float) for line in axes.lines}


def bars_of(axes: Axes) -> dict[str, list[tuple[str, float]]]:
    """(what stands at its left, length) of each bar, by the name in the legend."""
    rows = [label.get_text() for label in axes.get_yticklabels()]
    return {
        bars.get_label(): [(row, bar.get_width()) for row, bar in zip(rows, bars, strict=True)]
        for bars in axes.containers
    }


@holds("finished")
def pictures_draw_the_tables(drawn: DrawnRun, folder: Path) -> None:
    """Every line, point, bar, area and map; a picture without finite numbers is left out."""
    run = Run(folder)
    with in_folder(folder):
        pictures = draw_pictures(read_run(".", run.params))
    page = (folder / "report/index.html").read_text("utf-8")
    said = [html.unescape(text) for text in re.findall(r'<svg[^>]* aria-label="([^"]*)"', page)]
    further = Counter(said) - Counter(picture.alt for picture in pictures.values())
    assert further.total() == len(said) - len(pictures), "a picture lacks its alternative text"
    assert further.total() == len(run.params["report"]["sentences"])
    check_curves(run, pictures)
    check_cache(run, pictures)
    check_trade_off(run, pictures)
    check_truth(run, pictures)
    check_maps(run, pictures)


def check_curves(run: Run, pictures: dict[str, Picture]) -> None:
    for name, (table, x, *labels) in CURVES.items():
        wanted = series_of(run.table(f"plots/{table}"), x)
        if name in SMOOTHED:
            wanted = {series: smoothed(points) for series, points in wanted.items()}
        axes = axes_of(name, pictures, bool(wanted))
        if axes is not None:
            check_points(name, lines_of(axes), wanted)
            for series, points in wanted.items():
                first, last = points[[0, -1], 1]
                assert f"{series} from {number(first)} to {number(last)}" in pictures[name].alt
            assert [axes.get_xlabel(), axes.get_ylabel()] == labels
            assert (axes.get_yscale() == "log") == (name == "perplexity"), name
            unconnected = [
                line.get_label() for line in axes.lines if line.get_linestyle() == "None"
            ]
            assert unconnected == [series for series in wanted if series == "held-out"], name


def axes_of(name: str, pictures: dict[str, Picture], is_drawn: bool) -> Axes | None:
    """The axes of a picture, or None if it is rightly left out."""
    assert (name in pictures) == is_drawn, f"{name}: {'missing' if is_drawn else 'drawn'}"
    return pictures[name].drawing.axes[0] if is_drawn else None


def check_cache(run: Run, pictures: dict[str, Picture]) -> None:
    measured = pd.DataFrame(run.json("data/times/kv_bench")["settings"])
    if not measured.empty:
        measured["series"] = measured["cache"].map({True: "cache", False: "no cache"})
    for name, (column, label) in CACHE.items():
        wanted = series_of(measured, "new_tokens", column)
        axes = axes_of(name, pictures, bool(wanted))
        if axes is not None:
            check_points(name, lines_of(axes), wanted)
            assert (axes.get_xlabel(), axes.get_ylabel()) == ("new tokens", label)
            assert axes.get_ylim()[0] == 0


def check_trade_off(run: Run, pictures: dict[str, Picture]) -> None:
    name = "beam_trade_off"
    speeds = run.json("data/times/beam_bench")["methods"]
    wanted = {}
    for method, quality in run.json("data/figures/beam_bench")["methods"].items():
        speed = speeds[method]["tokens_per_s"]
        is_known = all(value is not None for value in (quality["bleu4"], speed))
        if method not in KEPT_OUT and is_known:
            wanted[method] = np.array([[speed, quality["bleu4"]]])
    axes = axes_of(name, pictures, bool(wanted))
    if axes is None:
        return
    found = {}
    for bars in axes.containers:
        found[bars.get_label()] = np.asarray(bars.lines[0].get_xydata(), float)
        method = speeds[bars.get_label()]
        ends = bars.lines[2][0].get_segments()[0][:, 0].tolist()
        assert ends == pytest.approx([method["low_tokens_per_s"], method["high_tokens_per_s"]])
    check_points(name, found, wanted)


def check_truth(run: Run, pictures: dict[str, Picture]) -> None:
    if run.world is None:
        assert not [name for name in pictures if name.startswith("truth")]
        return
    story = table_of_truth(run, "truth_story")
    if not story.empty:
        story = finite(story[:18], ["true", "model"])
    axes = axes_of("truth_story", pictures, len(story) > 0)
    if axes is not None:
        wanted = {
            label: list(zip(story["word"], story[column]))
            for label, column in (("generator", "true"), ("model", "model"))
        }
        assert bars_of(axes) == wanted
    check_divergence(run, pictures)
    check_decoding(run, pictures)


def check_divergence(run: Run, pictures: dict[str, Picture]) -> None:
    """The areas of all kinds together end at the sum of the kinds."""
    table = table_of_truth(run, "truth_training")
    wanted = {} if table.empty else series_of(table, "tokens")
    tokens = {seen for points in wanted.values() for seen in points[:, 0]}
    tokens -= {0}  # of weights that no update made better; a logarithmic axis has no place for it
    whole = [
        seen for seen in sorted(tokens) if all(seen in points[:, 0] for points in wanted.values())
    ]
    axes = axes_of("truth_training", pictures, len(whole) > 1)
    if axes is None:
        return
    assert axes.get_xscale() == "log"
    kinds = list(table["series"].unique())
    assert [area.get_label() for area in axes.collections] == kinds
    top = np.zeros(len(whole))
    for area, kind in zip(axes.collections, kinds, strict=True):
        value = dict(wanted[kind])
        top = top + [value[number] for number in whole]
        edges = pd.DataFrame(area.get_paths()[0].vertices).groupby(0)[1].max()
        problem = differs(f"truth_training, {kind}", edges.loc[whole], top)
        assert not problem, problem


def check_decoding(run: Run, pictures: dict[str, Picture]) -> None:
    """Two bars for each setting that samples, in percent; the setting nearest to the generator is on top."""
    grades = run.json("data/figures/evaluate").get("decoding") or {}
    sampled = [
        name
        for name, grade in grades.items()
        if grade.get("impossible") and name != "the generator"
    ]
    sampled.sort(key=lambda name: grades[name]["total_variation"]["value"])
    wanted: dict[str, list[tuple[str, float]]] = {}
    for key, label in (("impossible", "impossible words"), ("cut", "true words cut away")):
        if sampled:
            wanted[label] = [(name, 100 * grades[name][key]["value"]) for name in sampled]
    axes = axes_of("truth_decoding", pictures, bool(wanted))
    if axes is not None:
        assert bars_of(axes) == wanted


def check_maps(run: Run, pictures: dict[str, Picture]) -> None:
    """Every head over each sentence, and single heads over the first one, under their titles."""
    arrays: Any = np.load(run.folder / "data/evaluate/attention.npz")
    sentences = [
        (arrays[f"words_{place}"].tolist(), arrays[f"maps_{place}"])
        for place in range(1, len(arrays) // 4 + 1)
    ]
    if run.params["vocab"]["tokenizer"] != "words":  # subwords are shown as in the lab
        sentences = [
            ([word.replace("Ġ", "·").replace("Ċ", "↵") for word in words], maps)
            for words, maps in sentences
        ]
    for place, (words, maps) in enumerate(sentences, start=1):
        layers, heads = maps.shape[:2]
        axes = axes_of(f"attention_{place}", pictures, is_drawn=True)
        assert axes is not None
        every_head = list(itertools.product(range(layers), range(heads)))
        assert maps_of(axes, words, maps) == every_head, f"attention_{place}"
    for name in ("head_1", "head_2"):
        if name in pictures:
            ((layer, head),) = maps_of(pictures[name].drawing.axes[0], *sentences[0])
            title = f"layer {layer + 1}, head {head + 1}"
            assert pictures[name].alt.startswith(f"Attention of {title}"), name


def maps_of(axes: Axes, words: list[str], maps: np.ndarray) -> list[tuple[int, int]]:
    """(layer, head) of each map, as its title says; AssertionError unless it has the weights of this head."""
    places = []
    extents = set()
    for text, image in zip(axes.texts, axes.images, strict=True):
        layer, head = (int(number) - 1 for number in re.findall(r"\d+", text.get_text())[:2])
        weights = maps[layer, head, -ROWS:]
        problem = differs(text.get_text(), image.get_array(), weights)
        assert not problem, problem
        left, right, bottom, top = image.get_extent()
        assert text.get_position() == (left, pytest.approx(top - 0.05)), "a title of another map"
        check_words(axes.get_xticks(), axes.get_xticklabels(), (left, right), words)
        rows = words[len(words) - len(weights) :]
        check_words(axes.get_yticks(), axes.get_yticklabels(), (top, bottom), rows)
        extents.add((left, top))
        places.append((layer, head))
    assert len(extents) == len(places), "a map covers another one"
    return places


def check_words(
    ticks: Sequence[float], labels: Sequence[Text], side: tuple[float, float], words: list[str]
) -> None:
    """Labels along the side of a map are the words there, the last one among them."""
    start, end = side
    named = {}
    for tick, label in zip(ticks, labels, strict=True):
        if start < tick < end:
            named[int((tick - start) / (end - start) * len(words))] = label.get_text()
    assert named == {place: token_label(words[place]) for place in named}
    assert len(words) - 1 in named, "the last word has no label"
