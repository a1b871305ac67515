"""Whether the stories make sense: the section, its pictures, and the sentences that the intervals allow."""

import re

import pytest

from tinylm.report.blocks import Figure, Gallery, Table
from tinylm.report.pictures import PICTURES
from tinylm.report.sense_sections import SHOWN, beam_senses, judge_sense, sense, sense_methods
from tinylm.report.sources import Run, read_run


def tables(run: Run) -> list[Table]:
    return [block for block in sense(run) if isinstance(block, Table)]


def words_of(run: Run, method: str, low: float, high: float) -> None:
    """Give a method of beam_bench this interval."""
    row = run.found["beam_bench"]["methods"][method]["sense"]
    row["words"] = {"value": (low + high) / 2, "low": low, "high": high}


def test_every_method_stands_with_its_interval(run):
    methods, beams, kinds, examples = tables(run)
    rows = {row[0]: row[1:] for row in methods.rows}
    assert rows["the stories' own"] == ("50", "100.0 % (93.0 to 100.0)", "none impossible")
    assert rows["as in section decode"] == ("50", "20.0 % (11.0 to 33.0)", "38.0 (34.2 to 41.8)")
    assert rows["Kneser-Ney of order 5"][-1] == "4.60 (4.14 to 5.06)"
    assert [row[0] for row in beams.rows] == list(run.found["beam_bench"]["methods"])
    assert {row[0]: row[1:4] for row in kinds.rows}["person"] == (
        "somebody else than the story has there",
        "0",
        "30",
    )
    assert len(examples.rows) == SHOWN  # of method decode alone
    assert examples.rows[0] == (
        "he",
        "person",
        "amy, she",
        "once upon a time there was a girl named amy 0",
    )


def test_the_pictures_show_each_method_and_the_training(run, drawn):
    (shown,) = [block for block in sense(run) if isinstance(block, Gallery)]
    names = [block.name for block in shown.blocks if isinstance(block, Figure)]
    assert [name for name in names if name not in drawn] == []
    assert "temperature 1 20.0; Kneser-Ney of order 5 4.60" in drawn["sense_methods"].alt
    assert "the stories' own" not in drawn["sense_methods"].alt  # no impossible word, so no bar
    assert "from 10.0 to 30.0" in drawn["sense_training"].alt
    assert len(drawn["sense_training"].figure.axes[0].collections) == 1


def test_a_corpus_that_nobody_can_judge_has_no_section(run):
    run.found["evaluate"].pop("sense")
    run.found.pop("sense")
    for row in run.found["beam_bench"]["methods"].values():
        row.pop("sense")
    assert sense(run) == judge_sense(run) == []
    assert sense_methods(run) == beam_senses(run) == {}
    assert [PICTURES[name][1](run) for name in ("sense_methods", "sense_training")] == [None, None]


def test_only_a_storybook_run_misses_the_table(run_folder, params):
    (run_folder / "data/evaluate/sense.csv").unlink()
    assert "sense" in read_run(run_folder, params).problems
    params["data"]["source"] = "local"
    assert "sense" not in read_run(run_folder, params).problems


def test_what_is_said_follows_from_the_numbers(run):
    claims = [finding.text for finding in judge_sense(run) if finding.claim]
    assert claims[0] == (
        "10 of 50 continuations could have been written by the generator, with no impossible word; 38.0 words are "
        "read for each impossible one."
    )
    assert claims[1] == (
        "The most frequent kind of impossible word is “person”: somebody else than the story has there."
    )
    kinds = run.found["evaluate"]["sense"]["methods"]["decode"]["kinds"]
    kinds["grammar"] = kinds["person"]
    assert [finding.text for finding in judge_sense(run) if finding.claim][1] == (
        "The most frequent kinds of impossible word are “person”: somebody else than the story has there; “grammar”: "
        "no story has it."
    )
    assert claims[2] == (
        "The model makes sense for longer than n-grams do, each drawn from its own distribution: 20.0 words against "
        "4.60."
    )


def test_nothing_is_said_of_overlapping_intervals(run):
    run.found["evaluate"]["sense"]["methods"]["kneser_ney"]["words"] = {
        "value": 19.0,
        "low": 15.0,
        "high": 40.0,
    }
    assert not re.search("n-grams", " ".join(finding.text for finding in judge_sense(run)))


@pytest.mark.parametrize(
    ("low", "high", "claim", "said"),
    [
        (
            1.0,
            2.0,
            True,
            "Beam search with width 5 makes sense for less long than greedy decoding (1.50 words against",
        ),
        (
            60.0,
            80.0,
            True,
            "Beam search with width 5 makes sense for longer than greedy decoding (70.0 words against",
        ),
        (
            20.0,
            80.0,
            False,
            "Whether beam search with width 5 makes more sense than greedy decoding: the intervals",
        ),
    ],
)
def test_what_beam_search_does_to_sense(run, low, high, claim, said):
    words_of(run, "beam 5", low, high)
    found = [finding for finding in judge_sense(run) if "width 5 " in finding.text]
    assert [(finding.claim, finding.text.startswith(said)) for finding in found] == [(claim, True)]


def test_a_run_without_an_impossible_word_says_so(run):
    own = run.found["evaluate"]["sense"]["methods"]["decode"]
    own |= {"words": None, "possible": {"value": 1.0, "low": 0.93, "high": 1.0}}
    first = judge_sense(run)[0].text
    assert (
        first
        == "50 of 50 continuations could have been written by the generator, with no impossible word."
    )
