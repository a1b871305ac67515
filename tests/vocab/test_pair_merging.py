import random
from collections import Counter
from itertools import islice, pairwise

import pytest

from tinylm.vocab.longest_match import merged_pairs


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
