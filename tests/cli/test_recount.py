"""tinylm record --check: what was counted of the sources' material is counted again."""

import math
from pathlib import Path

import pytest

from tinylm.base.config import InputError
from tinylm.cli import main, recount
from tinylm.host.command import CommandFailed
from tinylm.vocab.settings import VocabSettings

ROOT = Path(__file__).parents[2]
SHAKESPEARE = ROOT.parent / "shared/tinyshakespeare/input.txt"
SAMPLES = (
    "reference,continuation,perplexity\n"
    "the dog ran home and slept all day,the dog ran,2.5\n"
    "a cat sat there,a bird sat there,3.5\n"
)


@pytest.mark.parametrize(
    ("word", "pieces"),
    [("abc", 2), ("ab", 1), ("bcbc", 2), ("zz", 2), ("a", 1), ("", 0)],
)
def test_the_earliest_merge_goes_first_wherever_it_stands(word, pieces):
    assert recount.pieces_in_merge_order(word, {"bc": 0, "ab": 1, "abbc": 2}) == pieces


def test_words_in_capitals_have_merges_only_where_these_are_counted():
    """Eight characters and the merges bc, a + bc."""
    vocab = VocabSettings(tokenizer="longest_match", max_size=10, min_count=1)
    found = recount.windows(["xbc xbc abc abc", "abc ABC"], vocab, context=1)
    assert (
        found["merge_order_windows_as_written"] == found["merge_order_windows"] + 2
    )  # ABC keeps its three letters
    assert found["windows"] == found["merge_order_windows_as_written"]


def test_samples_are_scored_against_whole_and_cut_references():
    found = recount.rescored([("a b c d e f g h", "a b c d", 2.0), ("x y", "x z", 4.0)])
    assert found["sample_perplexity"] == 3.0
    assert found["unigram_precision"] == pytest.approx(5 / 6)
    assert found["bleu_cut"][0] == pytest.approx(5 / 6)  # no reference is longer than its text
    assert found["bleu"][0] == pytest.approx(5 / 6 * math.exp(1 - 10 / 6))


@pytest.mark.parametrize(
    ("content", "named"),
    [
        ("reference,continuation\na,b\n", "line 2"),
        ("reference,continuation,perplexity\na,b,much\n", "much"),
        ("reference,continuation,perplexity\n", "no row"),
        (None, "No such file"),
    ],
)
def test_a_file_of_samples_that_cannot_be_read_is_one_line(tmp_path, content, named):
    path = tmp_path / "samples.csv"
    if content is not None:
        path.write_text(content, encoding="utf-8")
    with pytest.raises(InputError, match=named) as caught:
        recount.read_samples(path)
    assert "\n" not in str(caught.value)


def _alone(monkeypatch, **systems):
    """published.yaml with these systems' `checked`; the others have no material here."""

    def absent(_):
        raise InputError("not here")

    monkeypatch.setattr(recount, "_stories_on_the_hub", absent)
    monkeypatch.setattr(recount, "_shakespeare", absent)
    known = {name: {"preset": "p", "data": {}, "checked": {}} for name in "ABE"}
    monkeypatch.setattr(recount, "published", lambda: known | {name: known[name] | {"checked": checked}
                                                              for name, checked in systems.items()})  # fmt: skip


def test_what_is_as_printed_passes_and_what_is_not_fails_with_its_name(
    tmp_path, monkeypatch, capsys
):
    path = tmp_path / "samples.csv"
    path.write_text(SAMPLES, encoding="utf-8")
    _alone(monkeypatch, B={"sample_perplexity": 3.0, "unigram_precision": 0.86})
    assert main(["record", "--check", "--samples", str(path)]) == 0
    assert "B: unigram_precision 0.86, in published.yaml 0.86" in capsys.readouterr().out
    _alone(monkeypatch, B={"sample_perplexity": 3.1})
    with pytest.raises(CommandFailed, match=r"B\.sample_perplexity"):
        list(recount.recount(str(path)))


def test_what_is_not_at_hand_is_named(monkeypatch):
    _alone(monkeypatch, A={"stories": 5}, B={"bleu": [0.1]})
    lines = list(recount.recount())
    assert lines[0] == "A: not counted again: stories (not here)"
    assert "--samples FILE" in lines[1]
    assert main(["record", "--samples", "x.csv"]) == 2


@pytest.mark.skipif(not SHAKESPEARE.exists(), reason="Tiny Shakespeare is not here")
def test_the_published_windows_and_ours_in_merge_order(monkeypatch):
    monkeypatch.chdir(ROOT)
    monkeypatch.setattr(recount, "_stories_on_the_hub", lambda _: {"stories": 2119719})
    assert [line for line in recount.recount() if line.startswith("E: ")] == [
        "E: windows 423593, in published.yaml 423593",
        "E: merge_order_windows 420649, in published.yaml 420649",
        "E: merge_order_windows_as_written 424627, in published.yaml 424627",
    ]
