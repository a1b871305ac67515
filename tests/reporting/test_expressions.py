"""Expressions: arithmetic over recorded figures, and nothing else."""

import pytest

from tinylm.reporting.expressions import evaluate, fill, paths, places, without_places
from tinylm.reporting.seeds import BadExpression, Missing, Seeds

ROWS_1 = [{"cache": True, "n": 32, "speed": 30.0}, {"cache": False, "n": 32, "speed": 10.0}]
ROWS_2 = [{"cache": True, "n": 32, "speed": 34.0}]
NAMES = {
    "published": {"A": {"beams": [{"k": 5, "bleu": 0.25}, {"k": 10, "bleu": 0.5}], "loss": 2.5, "case": "lower"}},
    "runs": {
        "word-50k": Seeds(
            (
                {"loss": 2.0, "rows": ROWS_1, "curve": [[0, 0, 9.0], [50, 640, 4.0]], "flag": True, "name": "cpu"},
                {"loss": 3.0, "rows": ROWS_2, "curve": [[0, 0, 8.0]], "flag": True, "name": "cpu"},
            )
        )
    },
    "studies": {"rate": {"0.1": Seeds(({"loss": 4.0}, {"loss": 5.0})), "0.2": Seeds(({"loss": 3.0},)), "data": {}}},
}


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("published.A.beams[1].bleu / published.A.beams[0].bleu", 2.0),
        ('published["A"].loss - 3 * 0.5', 1.0),
        ("-published.A.loss + 1", -1.5),
        ("1 < 2 <= 2", True),
        ("1 < 2 and not 2 > 1", False),
        ("published.A.case == 'lower' or 1 > 2", True),
        ("runs.word_50k.loss * 2", 5.0),
        ("spread(runs.word_50k.loss) * spread(runs.word_50k.loss)", pytest.approx(0.5)),
        ("low(runs.word_50k.loss)", 2.0),
        ("high(runs.word_50k.loss)", 3.0),
        ("seeds(runs.word_50k)", 2),
        ("count(runs.word_50k.rows)", 2),
        ('pick(runs.word_50k.rows, "cache", True).speed', 32.0),
        ('pick(runs.word_50k.rows, "cache", False, "n", 32).speed', 10.0),
        ("at(runs.word_50k.curve, 0)", 8.5),
        ("at(runs.word_50k.curve, 50)", 4.0),
        ("last(published.A.beams).k", 10),
        ('lowest(studies.rate, "loss")', 3.0),
        ('highest(studies.rate, "loss")', 4.5),
        ('lowest(published.A.beams, "bleu")', 0.25),
        ("log(exp(2))", pytest.approx(2.0)),
        ("max(1, runs.word_50k.loss, 2)", 2.5),
        ("ceil(2.1) + floor(2.9) + abs(-1) + min(3, 4)", 9),
    ],
)
def test_values(text, value):
    found = evaluate(text, NAMES)
    assert (sum(found.values) / len(found.values) if isinstance(found, Seeds) else found) == value


@pytest.mark.parametrize(
    "text",
    [
        "__import__('os')",
        "published.__class__",
        "published.A.loss.__class__",
        "2 ** 9",
        "[1, 2]",
        "lambda: 1",
        "open('x')",
        "published.A.beams[0:1]",
        "max(key=1)",
        "'a' * 9",
        "published.A.case + 1",
        "1 if 2 else 3",
        "f'{1}'",
        "1 +",
        "1e300 * 1e300",
        " + ".join("1" * 300),
    ],
)
def test_anything_else_is_refused(text):
    with pytest.raises(BadExpression):
        evaluate(text, NAMES)


@pytest.mark.parametrize(
    "text",
    [
        "published.B.loss",
        "published.A.beams[2].k",
        "runs.gpt2_bpe.loss",
        "at(runs.word_50k.curve, 7)",
        'pick(runs.word_50k.rows, "n", 64).speed',
        'spread(studies.rate["0.2"].loss)',
        'lowest(studies.rate, "other")',
        "1 / 0",
    ],
)
def test_what_is_not_there_is_missing_and_no_value(text):
    with pytest.raises(Missing):
        evaluate(text, NAMES)


def test_templates_are_filled_with_formats():
    text = "{published.A.loss:.2f} of {published.A.beams[1].k}, {runs.word_50k.flag}, {runs.word_50k.name}, {1 - 3:.1f}"
    assert fill(text, NAMES) == "2.50 of 10, yes, cpu, −2.0"
    assert fill("{3 / 100000:g} {1000 * 5000:,}", NAMES) == "3e-5 5,000,000"
    assert fill('{listing(studies.rate, "loss")}, best {best(studies.rate, "loss")}', NAMES) == (
        "0.1: 4.500 ± 0.707, 0.2: 3.000, best 0.2"
    )


def test_a_seed_that_lacks_a_figure_is_left_out():
    assert fill('{pick(runs.word_50k.rows, "cache", False).speed:.0f}', NAMES) == "10"


def test_a_template_knows_its_expressions_and_its_own_words():
    text = "of {published.A.loss:.2f} nats, {ours.x}"
    assert places(text) == ["published.A.loss", "ours.x"]
    assert without_places(text) == "of  nats, "
    assert ("runs", "word_50k", "loss") in paths('spread(runs["word_50k"].loss) > 1')
