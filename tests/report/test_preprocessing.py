"""The section on preprocessing: this run's counts, the rules of its settings, and no count that nobody made."""

import copy

import pytest

from tinylm.report.preprocessing import NOT_COUNTED, preprocessing
from tinylm.report.sources import Run

DOWNLOAD = {
    "source": "hub",
    "evaluation_split": "validation",
    "splits": {
        name: {"stories": n} for name, n in (("train", 1960), ("held_out", 40), ("evaluation", 50))
    },
    "dropped": {"empty": 3, "in_evaluation": 17, "over_limit": 5},
}
VOCAB = {
    "size": 1204,
    "tokens": {"train": 190000, "held_out": 4000, "evaluation": 5000},
    "unknown_share": {"train": 0.001, "held_out": 0.002, "evaluation": 0.025},
    "sequence_length": {"mean": 94.2, "median": 90.0, "largest": 181},
}


def _rows(params, download=DOWNLOAD, vocab=VOCAB, **changes):
    chosen = copy.deepcopy(params)
    for name, value in changes.items():
        section, _, key = name.partition("__")
        chosen[section][key] = value
    _, table = preprocessing(Run(chosen, {"download": download, "vocab": vocab}, {}))
    return {step: (rule, found) for step, rule, found in table.rows}


def test_every_step_has_its_rule_and_this_runs_count(params):
    rows = _rows(params)
    assert rows["empty stories"][1] == "3 dropped"
    assert rows["duplicates"][1] == "17 dropped"
    assert rows["surplus"][1] == "5 dropped"
    assert rows["splits"][1] == "stories: 1,960 train, 40 held out, 50 evaluation"
    assert "evaluation is the data's own split, validation" in rows["splits"][0]
    assert rows["tokens"][1] == "190,000 in train, 1,204 ids"
    assert rows["unknown words"][1] == "0.1 % of train, 2.5 % of evaluation"
    assert rows["special tokens"][1] == "3,920 around 1,960 train stories"
    assert rows["rows"][1] == "stories of 94.2 tokens (mean), 181 at most"
    assert "past 192 tokens" in rows["rows"][0]
    assert "the filling is no target" in rows["padding and mask"][0]
    assert {rows[step][1] for step in ("normal form", "quote repair", "line ends")} == {NOT_COUNTED}


def test_the_rules_follow_the_settings(params):
    assert _rows(params, data__repair_quotes=False)["quote repair"][1] == "off"
    assert "punctuation is deleted" in _rows(params)["tokens"][0]
    kept = _rows(params, vocab__punctuation="keep", vocab__lower_case=False)["tokens"][0]
    assert kept.startswith("Case is kept; each punctuation mark becomes a word")
    few = _rows(params, vocab__min_count=3, vocab__max_size=1000)["unknown words"][0]
    assert "fewer than 3 times become <unk>; the 1,000 most frequent" in few
    tokens = _rows(params, data__held_out="tokens")["splits"]
    assert tokens[1] == "tokens: 190,000 train, 4,000 held out, 5,000 evaluation"
    assert "last 2.0 %" in tokens[0]


@pytest.mark.parametrize(
    ("tokenizer", "said", "specials"),
    [
        ("bpe", "pieces learnt from train", "3,920 around"),
        ("gpt2", "GPT-2's", "3,920 around"),
        ("longest_match", "longest known piece", "0"),
    ],
)
def test_every_tokenizer(params, tokenizer, said, specials):
    rows = _rows(params, vocab__tokenizer=tokenizer)
    assert said in rows["tokens"][0]
    assert rows["special tokens"][1].startswith(specials)
    assert "unknown words" not in rows


@pytest.mark.parametrize(
    ("layout", "said"),
    [("stream", "One short window per epoch"), ("windows", "Every window is full")],
)
def test_every_layout(params, layout, said):
    rows = _rows(params, train__layout=layout)
    assert said in rows["padding and mask"][0]
    assert "one stream" in rows["rows"][0]


def test_what_an_earlier_run_did_not_count_is_left_out(params):
    bare = {"source": "storybook", "splits": {"train": {"stories": 9}}}
    rows = _rows(params, download=bare, vocab={})
    assert "duplicates" not in rows
    assert "tokens" not in rows
    assert rows["splits"][1] == "stories: 9 train"
    assert preprocessing(Run(params, {}, {})) == []
