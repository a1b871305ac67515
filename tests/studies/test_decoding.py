"""The study that chooses the default decoding: its table and rule by their definitions, and a run that it grades."""

import re

import hypothesis.strategies as st
import numpy as np
import pandas as pd
import pytest
from hypothesis import assume, given, settings

from studies import decoding
from studies.decoding import CANDIDATES, MEASURES, chosen, grades_of, in_order_of_distance
from studies.records import FOLDER
from tests.support.folders import write_stories
from tests.support.small import random_model, words_of
from tinylm.evaluate.graded_decoding import sums_of_stories
from tinylm.evaluate.truth import ComparedStory, read_words, true_tokens
from tinylm.model.checkpoint import save_model
from tinylm.params.presets.write import preset_text
from tinylm.storybook.corpus import generate
from tinylm.storybook.language import END

RUNS = [(width, layers, seed) for width, layers in ((8, 1), (16, 2)) for seed in (1, 2, 3)]
T_975_OF_5 = 2.570582  # of Student's distribution with 5 degrees of freedom
NAMES = list(CANDIDATES)[::4]
FAR = st.lists(st.floats(0.05, 0.5), min_size=len(RUNS), max_size=len(RUNS))


def grades(distances):
    rows = []
    for name, values in distances.items():
        for (width, layers, seed), value in zip(RUNS, values, strict=True):
            place = {"width": width, "layers": layers, "seed": seed, "setting": name}
            rows.append({**place, **dict.fromkeys(MEASURES, value)})
    return pd.DataFrame(rows)


@settings(max_examples=40)
@given(st.fixed_dictionaries(dict.fromkeys(NAMES, FAR)))
def test_the_simplest_setting_that_is_not_worse_than_the_nearest_is_chosen(distances):
    table = in_order_of_distance(grades(distances))
    nearest = min(distances, key=lambda name: np.mean(distances[name]))
    assert table["total_variation"].iloc[0] == pytest.approx(np.mean(distances[nearest]))
    as_near = []
    for name, values in distances.items():
        apart = np.subtract(values, distances[table.index[0]])
        bound = T_975_OF_5 * apart.std(ddof=1) / len(apart) ** 0.5
        low, high = apart.mean() - bound, apart.mean() + bound
        if name != table.index[0]:
            assert table.loc[name, ["low", "high"]].tolist() == pytest.approx([low, high], abs=1e-6)
            assume(abs(low) > 1e-6)
            if low > 0:
                continue
        as_near.append(name)
    assert chosen(table) == min(as_near, key=NAMES.index)


def test_a_run_is_graded_on_its_held_out_stories(tmp_path, monkeypatch):
    stories = [story.text for story in generate(6, 6, 2)[1]]
    write_stories(tmp_path / "data/stories/held_out.jsonl", stories)
    tokenizer = words_of(stories)
    tokenizer.save(tmp_path / "data/vocab/tokenizer.json")
    model = random_model(len(tokenizer), 16, context=200)
    save_model(tmp_path / "models", model, layout="stories")
    (tmp_path / "params.yaml").write_text(preset_text("storybook"), encoding="utf-8")
    monkeypatch.setattr(decoding, "STORIES", 2)
    rows = pd.DataFrame(grades_of(tmp_path)).set_index("setting")
    assert list(rows.index) == list(CANDIDATES)
    graded = [
        ComparedStory(
            0, np.array(tokenizer.encode_story(text)), positions, true_tokens(tokenizer, positions)
        )
        for text in stories[:2]
        for positions in [read_words([*tokenizer.split(text), END])[:-1]]
    ]
    for name, chosen_settings in CANDIDATES.items():
        (sums,) = sums_of_stories(model, tokenizer, graded, {name: chosen_settings}).values()
        for measure in MEASURES:
            expected = sums[measure].sum() / sums["words"].sum()
            assert rows.loc[name, measure] == pytest.approx(expected, abs=1e-5)


def test_the_page_has_the_numbers_of_the_record():
    """Each row of the page's table, and the choice."""
    record = pd.read_csv(FOLDER / "decoding.csv")
    table = in_order_of_distance(record)
    assert chosen(table) == "sampled at temperature 1, min-p 0.1"
    sizes = 100 * record.pivot_table(index="setting", columns="width", values="total_variation")
    page = (FOLDER / "README.md").read_text(encoding="utf-8").split("## The default decoding")[1]
    rows = re.findall(
        r"^\| \W*((?:temperature|greedy)[^|*(]*?)(?:\*\*| \(.*\))? \| (.*) \|$", page, re.M
    )
    assert len(rows) == 9
    for name, cells in rows:
        setting = name if name == "greedy" else f"sampled at {name}"
        *shares, difference = cells.split(" | ")
        assert shares == [f"{share:.1f} %" for share in sizes.loc[setting]]
        row = 100 * table.loc[setting, ["difference", "low", "high"]]
        expected = "{:.1f} ({:.1f} to {:.1f})".format(*row).replace("-", "−").replace("−0.0", "0.0")
        assert difference in ("0", expected)
        assert (difference == "0") == (setting == table.index[0])
