"""Minimal pairs in the report: what the table and pictures show, and the sentences that the intervals allow."""

from tinylm.report.blocks import Figure, Gallery, Paragraph, Table
from tinylm.report.pair_sections import judge_pairs, pairs, phenomena
from tinylm.report.pictures import PICTURES


def test_every_phenomenon_stands_beside_what_it_is_compared_with(run):
    figures, examples = (block for block in pairs(run) if isinstance(block, Table))
    rows = {row[0]: row[1:] for row in figures.rows}
    assert rows["a and an"] == (
        "grammar",
        "200",
        "78.0 % (73.0 to 83.0)",
        "48.0 %",
        "93.0 %",
        "50.0 %",
    )
    assert rows["mean"] == ("", "", "71.2 %", "48.0 %", "68.2 %", "50.0 %")
    assert "reflexive pronoun" not in rows
    assert examples.rows == (
        ("word order", "Mia saw the red ball.", "Mia saw the ball red."),
        ("a and an", "An owl.", "A owl."),
    )
    said = " ".join(str(block) for block in pairs(run) if isinstance(block, Paragraph))
    assert "Not measured, for want of words in this vocabulary: reflexive pronoun." in said


def test_what_both_texts_begin_with_is_left_out_only_where_it_is_the_same(run):
    run.found["pairs"] = [
        {"phenomenon": "a and an", "right": "A boy. He ran.", "wrong": "A girl. He ran."}
    ]
    (_, examples) = (block for block in pairs(run) if isinstance(block, Table))
    assert examples.rows == (("a and an", "A boy. He ran.", "A girl. He ran."),)


def test_the_pictures_show_each_phenomenon_and_the_training(run, drawn):
    (shown,) = [block for block in pairs(run) if isinstance(block, Gallery)]
    names = [block.name for block in shown.blocks if isinstance(block, Figure)]
    assert [name for name in names if name not in drawn] == []
    assert (
        "the same person 99 % (n-grams 50 %); word order 97 % (n-grams 98 %)" in drawn["pairs"].alt
    )
    assert "grammar from 50 % to 80 %; meaning from 50 % to 80 %" in drawn["pairs_training"].alt
    lines = drawn["pairs_training"].figure.axes[0].lines
    ends = {line.get_xdata()[-1] for line in lines if len(line.get_xdata()) > 2}
    assert ends == {run.get("train", "epochs")}  # the last moment is the end of the run


def test_sentences_follow_the_intervals(run):
    claims = [(finding.claim, finding.text) for finding in judge_pairs(run)]
    assert claims == [
        (
            True,
            "Of two sentences the model finds the right one likelier in 71.2 % of the pairs, mean over 5 phenomena "
            "(n-grams 68.2 %, an untrained model 48.0 %). Its interval lies above both 50 % and that of an untrained "
            "model in 3 of them.",
        ),
        (
            True,
            "It prefers the wrong one, below 50 % and an untrained model, in: opposites (30.0 %).",
        ),
        (False, "Whether it has learnt anything of: filler and gap (52.0 %)."),
        (True, "It is right more often than n-grams, beyond both intervals, in: the same person."),
        (
            True,
            "N-grams are right more often than it, beyond both intervals, in: a and an, opposites.",
        ),
    ]


def test_what_an_untrained_model_prefers_by_accident_is_no_knowledge(run):
    run.found["evaluate"]["pairs"]["phenomena"]["word order"]["untrained"] = {
        "value": 0.9,
        "low": 0.85,
        "high": 0.95,
    }
    assert "in 2 of them" in judge_pairs(run)[0].text
    assert "word order (97.0 %)" in next(
        f.text for f in judge_pairs(run) if f.text.startswith("Whether")
    )


def test_an_older_run_has_no_section(run):
    run.found["evaluate"].pop("pairs")
    assert pairs(run) == judge_pairs(run) == []
    assert phenomena(run) == {}
    assert [PICTURES[name][1](run) for name in ("pairs", "pairs_training")] == [None, None]
