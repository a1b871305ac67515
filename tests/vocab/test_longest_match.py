"""The notebook's tokenizer, compared with a slow one by its rule and with the published counts."""

import re
from collections import Counter
from itertools import pairwise
from pathlib import Path

import pytest

from studies.records import published
from tinylm.base.config import InputError
from tinylm.download.readers import read_file
from tinylm.text.cleaning import clean_text
from tinylm.vocab.longest_match import merged_pairs, train_longest_match
from tinylm.vocab.settings import VocabSettings

SHAKESPEARE = Path(__file__).resolve().parents[3] / "shared" / "tinyshakespeare" / "input.txt"
PLAY = [
    "The KING is come to the hall, the king is here.\nWe'll see the KINGDOM; what's the King to us?",
    "THE HALL! The tall hall\n\nthe kingly king, kind and kin:  thick thanks to thee.  ",
    "X XX, the taller the better; the best is all.\nNO",
]
WORD = re.compile(r"'(?:s|t|re|ve|m|ll|d)| ?[A-Za-z]+| ?[0-9]+| ?[^\sA-Za-z0-9]+|\s+(?!\S)|\s+")


def settings(max_size, min_count=1):
    return VocabSettings(tokenizer="longest_match", min_count=min_count, max_size=max_size)


def slow_words(text):
    """GPT-2's pattern on ASCII, each line alone."""
    return [word.replace(" ", "Ġ") for line in text.split("\n") for word in WORD.findall(line)]


def slow_merges(counts, min_count):
    """All pairs counted anew in the words' order for each merge; the first of the most frequent."""
    words = [(list(word), times) for word, times in counts.items()]
    while True:
        pairs = Counter()
        for pieces, times in words:
            for pair in pairwise(pieces):
                pairs[pair] += times
        if not pairs or max(pairs.values()) < min_count:
            return
        best = max(pairs, key=pairs.get)
        yield "".join(best)
        for pieces, _ in words:
            at = 0
            while at < len(pieces) - 1:
                if (pieces[at], pieces[at + 1]) == best:
                    pieces[at : at + 2] = ["".join(best)]
                at += 1


def slow_ids(words, vocabulary):
    pattern = re.compile("|".join(re.escape(token) for token in reversed(vocabulary)))
    return [vocabulary.index(token) for word in words for token in pattern.findall(word)]


def capitalised(word):
    return word.capitalize() if word.isupper() else word


def play_counts():
    return Counter(capitalised(word) for text in PLAY for word in slow_words(text))


@pytest.mark.parametrize("min_count", [1, 3])
def test_merges_are_those_of_counting_anew(min_count):
    counts = play_counts()
    assert list(merged_pairs(counts, min_count)) == list(slow_merges(counts, min_count))
    assert list(merged_pairs({}, 1)) == []


@pytest.mark.parametrize("size", [50, 60, 75, 90])
def test_the_rule_equals_a_slow_one(size):
    tokenizer = train_longest_match(PLAY, settings(size))
    letters = {*"".join(PLAY).replace("\n", "").replace(" ", "Ġ"), *"".join(play_counts())}
    merges = list(slow_merges(play_counts(), 1))[: size - len(letters)]
    vocabulary = sorted(sorted(letters | set(merges)), key=len)
    assert tokenizer.tokens == vocabulary
    for text in PLAY:
        words = slow_words(text)
        assert tokenizer.encode_story(text) == slow_ids(words, vocabulary)
        assert tokenizer.encode(text) == tokenizer.encode_story(text)
        assert tokenizer.decode(tokenizer.encode_story(text)) == text.replace("\n", "")


def test_other_characters_are_refused_in_stories_and_left_out_of_prompts():
    tokenizer = train_longest_match(PLAY, settings(70))
    with pytest.raises(InputError, match=r"vocab\.tokenizer"):
        tokenizer.encode_story("the caké")
    with pytest.warns(UserWarning, match="é7"):
        ids = tokenizer.encode("the caké7 king")
    assert tokenizer.decode(ids) == "the cak king"
    assert tokenizer.encode("the\r\nking\u2028s") == tokenizer.encode_story("the\nking\ns")


def test_other_scripts_round_trip_where_they_were_trained_on():
    texts = ["naïve café, ÉTÉ été", "日本語 ÀÉ \u0644\u064e", r"a \\ b \\ c"]  # bytes like capitals
    tokenizer = train_longest_match(texts, settings(90))
    assert [tokenizer.decode(tokenizer.encode_story(text)) for text in texts] == texts
    assert [tokenizer.decode(tokenizer.encode(text)) for text in texts] == texts
    assert r"Ġ\\" in tokenizer.tokens


def test_a_size_below_the_number_of_characters_is_refused():
    with pytest.raises(InputError, match=r"vocab\.max_size"):
        train_longest_match(PLAY, settings(9))
    with pytest.raises(InputError, match=r"vocab\.max_size"):
        train_longest_match([], settings(9))


@pytest.mark.skipif(not SHAKESPEARE.exists(), reason="no ../shared/tinyshakespeare")
def test_the_published_counts_of_tiny_shakespeare():
    blocks = (clean_text(block, False).split("\n")[1:] for block in read_file(SHAKESPEARE, "text"))
    stories = ["\n".join(lines) for lines in blocks if lines]
    tokenizer = train_longest_match(stories, settings(500))
    assert sum(len(token) == 1 for token in tokenizer.tokens) == 65
    assert sum(len(tokenizer.encode_story(story)) for story in stories) - 50 == 423_593
    for example in published()["shakespeare-bpe"]["data"]["examples"]:
        assert tokenizer.encode(example["text"].replace("Ġ", " ")) == example["ids"]
