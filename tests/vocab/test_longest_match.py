import json
import random
import re
from collections import Counter
from itertools import islice, pairwise
from pathlib import Path

import pytest

from tinylm.base.config import InputError
from tinylm.download.cleaning import clean_text
from tinylm.download.readers import read_file
from tinylm.vocab import longest_match
from tinylm.vocab.longest_match import LongestMatchTokenizer, merged_pairs, train_longest_match
from tinylm.vocab.settings import VocabSettings
from tinylm.vocab.tokenizer import open_tokenizer

SHAKESPEARE = Path(__file__).resolve().parents[3] / "shared" / "tinyshakespeare" / "input.txt"
PLAY = [
    "The KING is come to the hall, the king is here.\nWe'll see the KINGDOM; what's the King to us?",
    "THE HALL! The tall hall\n\nthe kingly king, kind and kin:  thick thanks to thee.  ",
    "X XX, the taller the better; the best is all.\nNO",
]
WORD = re.compile(r"'(?:s|t|re|ve|m|ll|d)| ?[A-Za-z]+| ?[0-9]+| ?[^\sA-Za-z0-9]+|\s+(?!\S)|\s+")


def settings(max_size, min_count=1):
    return VocabSettings(
        tokenizer="longest_match",
        lower_case=False,
        punctuation="keep",
        min_count=min_count,
        max_size=max_size,
    )


def slow_words(text):
    """GPT-2's pattern on ASCII, each line alone."""
    return [word.replace(" ", "Ġ") for line in text.split("\n") for word in WORD.findall(line)]


def slow_vocabulary(texts, size):
    words = [word for text in texts for word in slow_words(text)]
    counts = Counter(word.capitalize() if word.isupper() else word for word in words)
    pieces = {word: list(word) for word in counts}
    vocabulary = set("".join([*words, *counts]))
    while len(vocabulary) < size:
        pairs = {}
        for word, times in counts.items():
            for left, right in zip(pieces[word], pieces[word][1:]):
                pairs[left, right] = pairs.get((left, right), 0) + times
        best = max(pairs, key=pairs.get)  # of equal ones the first that went in
        vocabulary.add("".join(best))
        for word, old in pieces.items():
            joined = "\n".join(old)
            pattern = rf"(?<![^\n]){re.escape(best[0])}\n{re.escape(best[1])}(?![^\n])"
            pieces[word] = re.sub(pattern, "".join(best), joined).split("\n")
    return sorted(sorted(vocabulary), key=len)


def slow_ids(words, vocabulary):
    pattern = re.compile("|".join(re.escape(token) for token in reversed(vocabulary)))
    return [vocabulary.index(token) for word in words for token in pattern.findall(word)]


@pytest.mark.parametrize("size", [50, 60, 75, 90])
def test_the_rule_equals_a_slow_one(size):
    own = train_longest_match(PLAY, settings(size))
    vocabulary = slow_vocabulary(PLAY, size)
    assert own.tokens == vocabulary
    assert len(own) == size
    for text in PLAY:
        assert own.encode_story(text) == slow_ids(slow_words(text), vocabulary)
        small = [
            word.capitalize() if word.strip("Ġ") and word.isupper() else word
            for word in slow_words(text)
        ]
        assert own.encode(text) == slow_ids(small, vocabulary)
    blocks = [index for text in PLAY for index in own.encode_story(text)]
    assert own.encode_story("\n".join(PLAY)) == blocks


def test_longest_match_is_not_merge_order():
    own = LongestMatchTokenizer(
        sorted([*"abcd", "ab", "bc", "bcd"], key=lambda token: (len(token), token))
    )
    assert own.split("abcd") == ["ab", "c", "d"]
    assert own.split("bcda") == ["bcd", "a"]


def test_capitals_are_small_in_prompts_and_stay_in_stories():
    own = train_longest_match(PLAY, settings(60))
    assert own.encode("the KING") == own.encode("the king") != own.encode_story("the KING")
    assert own.encode("KING") == own.encode(
        "King"
    )  # without its space the first letter is the word's own
    assert own.encode("I X") == own.encode_story("I x")
    assert own.decode(own.encode("the KINGDOM  ")) == "the kingdom  "


def test_a_capital_whose_small_letter_is_unknown_stays():
    own = LongestMatchTokenizer(["K", "Q", "k", "Ġ"])
    assert own.split(" KQ KK") == ["Ġ", "K", "Q", "Ġ", "k", "k"]


def test_decoding_gives_the_lines_joined():
    own = train_longest_match(PLAY, settings(70))
    assert own.lossless
    for text in PLAY:
        assert own.decode(own.encode_story(text)) == own.normalise(text) == text.replace("\n", "")


def test_it_has_no_special_token():
    own = train_longest_match(PLAY, settings(70))
    assert (own.sos_id, own.eos_id, own.unk_id, own.pad_id) == (None, None, None, 0)
    assert own.specials == set()
    assert own.unknown_words("ÄÖ") == []
    word = own.split(" the king")[0]
    assert (word, own.word_of(own.tokens.index(word))) == ("Ġthe", "the")


def test_other_characters_are_refused_in_stories_and_left_out_of_prompts():
    own = train_longest_match(PLAY, settings(70))
    with pytest.raises(
        InputError, match=r"no token spells 'é', in the text that begins 'the caké'.*the \d\d char"
    ):
        own.encode_story("the caké")
    with pytest.warns(UserWarning, match="characters outside the vocabulary are left out: é 7"):
        ids = own.encode("the caké7 king")
    assert own.decode(ids) == "the cak king"
    assert own.encode("the\r\nking\u2028s") == own.encode_story("the\nking\ns")


def test_other_scripts_round_trip_where_they_were_trained_on():
    texts = ["naïve café, ÉTÉ été", "日本語 ÀÉ"]
    own = train_longest_match(texts, settings(60))
    assert [own.decode(own.encode_story(text)) for text in texts] == texts
    assert [own.decode(own.encode(text)) for text in texts] == texts


def test_long_texts_and_full_memories(monkeypatch):
    own = train_longest_match(PLAY, settings(70))
    word = "king" * 30_000
    assert own.encode(word) == own.encode("king") * 30_000
    monkeypatch.setattr(longest_match, "CACHE_WORDS", 20)
    many = " ".join("ak"[number % 2] * (number % 50 + 1) for number in range(500))
    assert own.decode(own.encode(many)) == many
    assert len(own._cache) <= 20


def test_sizes():
    words = [word for text in PLAY for word in slow_words(text)]
    least = len(set("".join([*words, *(word.capitalize() for word in words if word.isupper())])))
    assert len(train_longest_match(PLAY, settings(least))) == least
    with pytest.raises(InputError, match=rf"max_size = {least - 1}; .*their"):
        train_longest_match(PLAY, settings(least - 1))
    with pytest.raises(InputError, match="stories with text"):
        train_longest_match([], settings(9))
    frequent = train_longest_match(PLAY, settings(500, min_count=5))
    assert least < len(frequent) < len(train_longest_match(PLAY, settings(500, min_count=2))) < 500


def test_saved_and_opened(tmp_path):
    own = train_longest_match([*PLAY, 'é"\\'], settings(80))
    own.save(tmp_path / "tokenizer.json")
    loaded = open_tokenizer(tmp_path / "tokenizer.json")
    assert (loaded.tokens, loaded.kind) == (own.tokens, "longest_match")
    assert loaded.encode_story(PLAY[0]) == own.encode_story(PLAY[0])


@pytest.mark.parametrize(
    "tokens", [None, [], ["a", 1], ["", "a"], ["a", "ab"], ["a", "日"], ["b", "a"], ["a", "a"]]
)
def test_a_changed_file_is_refused(tmp_path, tokens):
    path = tmp_path / "tokenizer.json"
    path.write_text(json.dumps({"type": "longest_match", "tokens": tokens}), "utf-8")
    with pytest.raises(InputError, match=r"tokenizer\.json: "):
        open_tokenizer(path)


@pytest.mark.skipif(not SHAKESPEARE.exists(), reason="no ../shared/tinyshakespeare")
def test_the_published_figures_of_tiny_shakespeare():
    blocks = (clean_text(block, False).split("\n")[1:] for block in read_file(SHAKESPEARE, "text"))
    stories = ["\n".join(lines) for lines in blocks if lines]
    own = train_longest_match(stories, settings(500))
    assert len(own) == 500
    assert sum(len(token) == 1 for token in own.tokens) == 65
    windows = sum(len(own.encode_story(story)) for story in stories) - 50
    assert (windows, int(0.8 * windows), windows - int(0.8 * windows)) == (423_593, 338_874, 84_719)
    assert own.encode("Hello world!") == [71, 131, 51, 430, 128, 0]
    assert own.encode(" proceed") == [416, 92, 99]


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


@pytest.mark.parametrize(("seed", "min_count"), enumerate([1, 3] * 8))
def test_merges_are_those_of_counting_anew(seed, min_count):
    chooser = random.Random(seed)
    words = [
        "".join(chooser.choices("abc"[: chooser.randint(1, 3)], k=chooser.randint(1, 9)))
        for _ in range(40)
    ]
    counts = Counter(words)
    assert list(merged_pairs(counts, min_count)) == list(slow_merges(counts, min_count))


def test_the_first_seen_of_equally_frequent_pairs_wins():
    assert list(islice(merged_pairs({"zy": 2, "ab": 2, "c": 9}, 1), 2)) == ["zy", "ab"]
    assert next(merged_pairs({"xzy": 2, "ab": 2}, 1)) == "xz"
    assert next(merged_pairs({"xzy": 2, "ab": 3}, 1)) == "ab"


def test_nothing_to_merge():
    assert list(merged_pairs({}, 1)) == list(merged_pairs({"a": 5}, 1)) == []
