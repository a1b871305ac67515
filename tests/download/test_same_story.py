"""Which stories are the same: what the coarsest tokenizer cannot tell apart; and near-copies."""

import random
import unicodedata

import pytest

from tests.download.test_rows import hostile_texts
from tinylm.download import in_order, same_story
from tinylm.download.cleaning import clean_text
from tinylm.download.same_story import bare_text, bare_words, count_near_copies
from tinylm.vocab.words import Splitter


def test_bare_text_is_what_the_coarsest_tokenizer_keeps():
    splitter = Splitter(lower_case=True, punctuation="drop")
    known = [code for code in range(0x11000) if unicodedata.category(chr(code)) != "Cn"]
    for raw in [*hostile_texts(), *map(chr, known), "ΣΑΣ Maße MASSE İstanbul"]:
        text = clean_text(raw, repair=True)
        assert bare_text(text) == "".join(splitter(text)).encode(), repr(text)


def test_vowel_signs_symbols_and_letters_count_but_not_form():
    different = ["कल", "काला", "केला", "किला", "कोला", "😀", "🙂", "Maße", "Masse", "5 €", "5 £"]
    assert len(set(map(bare_text, different))) == len(different)
    assert len(set(map(bare_text, ["The dog.", "the DOG!", "«The  dog»", "the\u00addog"]))) == 1


@pytest.mark.parametrize("workers", [1, 2])
def test_near_copies_are_those_counted_by_hand(monkeypatch, workers):
    monkeypatch.setattr(same_story, "STORIES_AT_ONCE", 3)
    monkeypatch.setattr(in_order, "INLINE_TASKS", 1)
    rng = random.Random(5)
    train = [" ".join(rng.choices("ab", k=rng.randint(0, 12))) for _ in range(30)]
    others = [" ".join(rng.choices("ab", k=rng.randint(0, 20))) for _ in range(20)]
    others += ["小猫看见一只狗在树下", "The CAT sat: on the mat, with a hat!"]
    train += ["我的小猫看见一只狗在树下睡", "the cat sat on the mat with a hat"]

    def grams(text):
        words = bare_words(text)
        return [tuple(words[i : i + 8]) for i in range(len(words) - 7)]

    known = {gram for text in train for gram in grams(text)}
    shares = []
    for text in others:
        if of_text := grams(text):
            shares.append(sum(gram in known for gram in of_text) / len(of_text))
    report = count_near_copies(train, {"evaluation": others, "held_out": []}, workers)
    counts = report["splits"]["evaluation"]
    assert counts["stories"] == len(shares)
    assert counts["near_copies"] == sum(share >= 0.7 for share in shares) >= 2
    assert report["splits"]["held_out"]["stories"] == 0
    assert len(report["warnings"]) == 1
