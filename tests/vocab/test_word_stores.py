"""The fast path of words against the plain one, byte for byte."""

import functools
import json
import random

import numpy as np
import pytest

from tests.support.pairs import pairs
from tinylm.base.config import InputError
from tinylm.download import stories
from tinylm.download.stories import SPLITS, read_stories, story_blocks, texts_of
from tinylm.kernels.text import counting
from tinylm.vocab import encoding, word_blocks, word_counts
from tinylm.vocab import encoding as word_stores
from tinylm.vocab.settings import PUNCTUATIONS, VocabSettings
from tinylm.vocab.token_store import write_store
from tinylm.vocab.words import build_tokenizer, count_words

HOSTILE = [
    *map(chr, range(128)),
    *"ÄéİıßΣςσǅﬀ\u0130\u0301\u0338\u0345\u201c\u2019\u2026\u037e\u1fef\u212a\uff1c\u00a0\u2028\u0085\u202f\ufeff\u00ad",
    *(
        "<eos>", "<EOS>", "\ud800", "\udc00", "😀", "中文", "it's", "rock'n'roll", "red-haired", "O\u2019Neil", "  ",
        "\n\n"
    ),
    *("a" * 100, "b" * 101, "é" * 60, "中" * 250, "x" * 90 + "." + "y" * 90),
]  # fmt: skip
RULES = [(lower_case, punctuation) for lower_case in (True, False) for punctuation in PUNCTUATIONS]


def settings(lower_case=True, punctuation="drop", min_count=1, max_size=None, tokenizer="words"):
    return VocabSettings(
        tokenizer=tokenizer,
        lower_case=lower_case,
        punctuation=punctuation,
        min_count=min_count,
        max_size=max_size,
    )


def plant(folder, texts):
    """The texts as the train split, and some of them as the other two."""
    folder.mkdir()
    for split, own in zip(SPLITS, (texts, texts[::7], texts[3::7]), strict=True):
        rows = b"".join(json.dumps({"text": text}).encode() + b"\n" for text in own)
        (folder / f"{split}.jsonl").write_bytes(rows)
    return folder


def hostile_texts(count):
    chooser = random.Random(3)
    return [
        *HOSTILE,
        *(" ".join(chooser.choices(HOSTILE, k=chooser.randint(0, 25))) for _ in range(count)),
    ]


@pytest.fixture(scope="module")
def hostile(tmp_path_factory):
    return plant(tmp_path_factory.mktemp("hostile") / "stories", hostile_texts(400))


def plainly(folder, source, chosen):
    """(tokenizer, what was seen) by the plain path, which writes its stores into the folder."""
    texts = {split: [row["text"] for row in read_stories(source, split)] for split in SPLITS}
    counts = count_words(texts["train"], chosen)
    tokenizer = build_tokenizer(counts, chosen)
    for split in SPLITS:
        write_store(folder, split, map(tokenizer.encode_story, texts[split]), len(tokenizer))
    return tokenizer, {
        "words_seen": len(counts),
        "words_seen_once": sum(count == 1 for count in counts.values()),
    }


def content(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


@pytest.fixture(params=["compiled", "tables"])
def way(request, monkeypatch):
    """Both ways of splitting blocks."""
    if request.param == "compiled" and not counting.LIBRARY.is_at_hand():
        pytest.skip("no C++ compiler")
    monkeypatch.setattr(word_stores, "MANY", 1 if request.param == "compiled" else 10**9)


@pytest.mark.parametrize(
    ("limits", "lower_case", "punctuation"),
    pairs([(1, None), (2, None), (1, 40), (3, 1)], [True, False], PUNCTUATIONS),
)
def test_vocabulary_and_bytes_are_those_of_the_plain_path(
    tmp_path, monkeypatch, hostile, lower_case, punctuation, limits, way
):
    for module, name, value in (
        (stories, "BLOCK", 5000),
        (word_counts, "MERGED_WORDS", 600),
        (word_counts, "SLACK", 9),
        (word_blocks, "KEPT_PIECES", 20),
    ):
        monkeypatch.setattr(module, name, value)
    chosen = settings(lower_case, punctuation, *limits)
    assert len(story_blocks(hostile, "train")) > 3
    tokenizer, seen = word_stores.write_word_stores(chosen, hostile, tmp_path / "fast", 1)
    plain, seen_plainly = plainly(tmp_path / "plain", hostile, chosen)
    assert tokenizer.tokens == plain.tokens
    assert seen == seen_plainly
    assert content(tmp_path / "fast") == content(tmp_path / "plain")


@pytest.mark.parametrize("tokenizer", ["words", "bpe", "longest_match"])
def test_any_number_of_processes_writes_the_same_bytes(tmp_path, monkeypatch, tokenizer):
    chooser = random.Random(5)
    texts = [
        " ".join(chooser.choices(["a", "bad", "Cat's", "naïve", "dog.", "end"], k=40))
        for _ in range(120)
    ]
    source = plant(tmp_path / "stories", texts)
    monkeypatch.setattr(stories, "BLOCK", 4000)
    chosen = settings(tokenizer=tokenizer, max_size=300)
    assert len(story_blocks(source, "train")) > 4
    made = [
        encoding.write_stores(chosen, source, tmp_path / f"{workers}", workers)
        for workers in (1, 2)
    ]
    assert made[0][0].tokens == made[1][0].tokens
    assert made[0][1] == made[1][1]
    assert content(tmp_path / "1") == content(tmp_path / "2")


def test_a_block_of_more_words_than_16_bits_can_number(tmp_path, way):
    source = plant(
        tmp_path / "stories", [" ".join(f"w{number}" for number in range(70_000)), "w1 w2 w1"]
    )
    chosen = settings()
    tokenizer, seen = word_stores.write_word_stores(chosen, source, tmp_path / "fast", 1)
    assert seen["words_seen"] == 70_000
    assert tokenizer.tokens == plainly(tmp_path / "plain", source, chosen)[0].tokens
    assert content(tmp_path / "fast") == content(tmp_path / "plain")


def test_blocks_are_whole_lines_and_hold_every_story_once(tmp_path, monkeypatch):
    texts = ["x" * length for length in (0, 1, 50, 3, 400, 2, 2, 100)]
    source = plant(tmp_path / "stories", texts)
    for size in (1, 13, 14, 100, 10_000):
        monkeypatch.setattr(stories, "BLOCK", size)
        blocks = story_blocks(source, "train")
        assert [text for block in blocks for text in texts_of(block)] == texts
        assert sum(map(len, blocks)) == (source / "train.jsonl").stat().st_size


def test_a_damaged_line_of_a_block_is_named(tmp_path, monkeypatch, way):
    source = plant(tmp_path / "stories", ["one", "two", "three", "four"])
    lines = (source / "train.jsonl").read_bytes().splitlines(keepends=True)
    (source / "train.jsonl").write_bytes(b"".join([*lines[:2], b'{"txt": 1}\n', lines[3]]))
    monkeypatch.setattr(stories, "BLOCK", 20)
    with pytest.raises(InputError, match=r"train\.jsonl, line 3: not a story"):
        word_stores.write_word_stores(settings(), source, tmp_path / "fast", 1)
    assert not (tmp_path / "fast" / "train.ids").exists()


@pytest.mark.parametrize("texts", [["...", "!"], ["one one two", "..."]])
def test_no_word_left_says_the_same_on_both_paths(tmp_path, texts, way):
    source = plant(tmp_path / "stories", texts)
    messages = []
    for run in (
        lambda: word_stores.write_word_stores(settings(min_count=9), source, tmp_path / "fast", 1),
        lambda: build_tokenizer(count_words(texts, settings()), settings(min_count=9)),
    ):
        with pytest.raises(InputError) as caught:
            run()
        messages.append(str(caught.value))
    assert messages[0] == messages[1]


@pytest.mark.parametrize(("lower_case", "punctuation"), RULES)
def test_compiled_code_makes_the_same_blocks(lower_case, punctuation):
    if not counting.LIBRARY.is_at_hand():
        pytest.skip("no C++ compiler")
    plain = word_blocks.BlockSplitter(word_stores.Splitter(lower_case, punctuation))
    compiled = word_blocks.CompiledSplitter(word_stores.Splitter(lower_case, punctuation))
    many = [" ".join(f"w{number}" for number in range(70_000))]
    for texts in (hostile_texts(600), [""], ["a"], many, ["a A a"], ['\\n \\ " \n"x"', '"}', "\\"]):
        for line in (json.dumps, functools.partial(json.dumps, ensure_ascii=False)):
            if line is not json.dumps:
                texts = [text.encode("utf-8", "replace").decode() for text in texts]
            lines = b"".join(line({"text": text}).encode() + b"\n" for text in texts)
            one, two = plain(texts), compiled(lines, lambda line: json.loads(line)["text"])
            known = {
                word: count
                for word, count in zip(one.words.to_pylist(), one.counts, strict=True)
                if count
            }
            assert dict(zip(two.words.to_pylist(), two.counts, strict=True)) == known
            words = [block.words.take(block.numbers).to_pylist() for block in (one, two)]
            assert words[0] == words[1]
            assert two.borders.tolist() == one.borders.tolist()
            assert two.numbers.dtype == (np.uint32 if texts == many else np.uint16)


def test_lines_of_another_layout_are_read_too():
    compiled = word_blocks.CompiledSplitter(word_stores.Splitter(True, "drop"))
    lines = b'{"text": "One two."}\n{"text": "two", "log_prob": -1.5}\n{"text":"three"}\n{"a": 1, "text": "one"}'
    block = compiled(lines, lambda line: json.loads(line)["text"])
    assert b"".join(block.words.take(block.numbers).to_pylist()).split() == (
        b"\xff one two \xfe \xff two \xfe \xff three \xfe \xff one \xfe".split()
    )


def test_numbers_of_a_block_are_places_of_its_words():
    split = word_blocks.BlockSplitter(word_stores.Splitter(True, "drop"))
    block = split(["One two, two.", "", "two  three"])
    words = block.words.to_pylist()
    shown = [words[number].strip() for number in block.numbers.tolist()]
    first, last = word_blocks.SOS.strip(), word_blocks.EOS.strip()
    assert shown == [
        first,
        b"one",
        b"two",
        b"two",
        last,
        first,
        last,
        first,
        b"two",
        b"three",
        last,
    ]
    assert dict(zip(words, block.counts.tolist(), strict=True))[b"two "] == 3
    parts = [word_blocks.part_of(word) for word in words]
    assert parts == sorted(parts)
    borders = np.searchsorted(parts, range(word_blocks.PARTS + 1))
    assert block.borders.tolist() == borders.tolist()
    assert word_blocks.part_of(words[-1]) == word_blocks.PARTS
