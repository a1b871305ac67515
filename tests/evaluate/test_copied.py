import random
from pathlib import Path

import pytest

from tinylm.evaluate import copied as module
from tinylm.evaluate.copied import NEAR, ORDERS, Copied, copied

TINYSTORIES = Path(__file__).parents[3] / "shared/tinystories/data"


def grams(words: list[str], n: int) -> list[tuple[str, ...]]:
    return [tuple(words[i : i + n]) for i in range(len(words) - n + 1)]


def by_hand(text: list[str], stories: list[list[str]]) -> Copied:
    """The same, word by word: every n-gram of the text looked for in every story."""

    def holder(gram: tuple[str, ...]) -> int | None:
        return next(
            (number for number, story in enumerate(stories) if gram in grams(story, len(gram))),
            None,
        )

    longest = max(
        (n for n in range(1, len(text) + 1) if any(holder(g) is not None for g in grams(text, n))),
        default=0,
    )
    run = next((g for g in grams(text, longest) if holder(g) is not None), ()) if longest else ()
    near = set(grams(text, NEAR))
    shared = [len(near & set(grams(story, NEAR))) for story in stories]
    most = max(shared, default=0)
    return Copied(
        len(text),
        longest,
        " ".join(run),
        holder(run) if run else None,
        {n: (sum(holder(g) is None for g in grams(text, n)), len(grams(text, n))) for n in ORDERS},
        shared.index(most) if most else None,
        most / len(near) if most else 0.0,
    )


@pytest.mark.parametrize(("seed", "chunk"), enumerate([1, 17, 1 << 20] * 12))
def test_equals_the_search_by_hand(seed, chunk, monkeypatch):
    monkeypatch.setattr(module, "CHUNK_WORDS", chunk)
    rng = random.Random(seed)
    words = "abcdefg"[: rng.randint(1, 7)]
    stories = [rng.choices(words, k=rng.randint(0, 25)) for _ in range(rng.randint(0, 9))]
    texts = [rng.choices(words + "xy", k=rng.randint(0, 20)) for _ in range(5)]
    texts += [story[2:14] for story in stories[:3]]  # copies
    assert copied(texts, iter(stories)) == [by_hand(text, stories) for text in texts]


def test_a_run_crosses_neither_stories_nor_texts():
    (first, second) = copied(
        [["a", "b", "c"], ["d", "e"]], [["a", "b"], ["c", "d", "e"], ["b", "c"]]
    )
    assert (first.longest, first.run, first.run_story) == (2, "a b", 0)
    assert (second.longest, second.run_story, second.new[1], second.new[2]) == (
        2,
        1,
        (0, 2),
        (0, 1),
    )
    assert first.new[3] == (1, 1)
    assert second.new[3] == (0, 0)  # the text has no three words


def test_a_whole_story_is_found_and_a_changed_word_parts_it():
    story = [
        "the",
        "small",
        "dog",
        "ran",
        "to",
        "the",
        "river",
        "and",
        "saw",
        "a",
        "big",
        "red",
        "fish",
        "there",
    ]
    changed = [*story[:6], "lake", *story[7:]]
    whole, parted = copied([story, changed], [["the", "cat"], story, story])
    assert (whole.longest, whole.run_story, whole.nearest, whole.overlap) == (len(story), 1, 1, 1.0)
    assert all(new == 0 for new, _ in whole.new.values())
    assert (parted.longest, parted.run) == (7, "and saw a big red fish there")
    assert parted.nearest == 1
    assert parted.overlap == pytest.approx(7 / 11)  # of 11 different 4-grams the lake is in 4
    assert parted.new[1] == (1, 14)


def test_nothing_to_compare_with():
    (text,) = copied([["a", "b", "c", "d", "e"]], [])
    assert (text.longest, text.run, text.run_story, text.nearest, text.overlap) == (
        0,
        "",
        None,
        None,
        0.0,
    )
    assert text.new[2] == (4, 4)
    assert copied([], [["a"]]) == []
    assert copied([[]], [["a"]])[0].words == 0


@pytest.mark.skipif(not TINYSTORIES.exists(), reason="needs ../shared/tinystories")
def test_real_stories_equal_the_search_by_hand():
    pyarrow = pytest.importorskip("pyarrow.parquet")
    read = {
        split: pyarrow.read_table(next(TINYSTORIES.glob(f"{split}-*")))["text"].to_pylist()
        for split in ("train", "validation")
    }
    stories = [text.lower().split() for text in read["train"][:60]]
    texts = [text.lower().split()[:60] for text in read["validation"][:4]] + [stories[7][3:50]]
    assert copied(texts, stories) == [by_hand(text, stories) for text in texts]
