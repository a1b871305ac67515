"""Repeatedly joins the most frequent pair of neighbours (Sennrich et al. 2016); of equal pairs, the first seen."""

import heapq
from collections import defaultdict
from collections.abc import Iterator, Mapping
from itertools import pairwise

Pair = tuple[str, str]


class _Words:
    """The words in pieces, with every pair's count and the words that contain it."""

    def __init__(self, counts: Mapping[str, int]):
        self.pieces = [list(word) for word in counts]
        self.times = list(counts.values())
        self.count: dict[Pair, int] = defaultdict(int)
        self.places: dict[Pair, set[int]] = defaultdict(set)
        for word in range(len(self.pieces)):
            self._note(word, +1)

    def _note(self, word: int, sign: int) -> set[Pair]:
        """Add or subtract the pairs of one word; returns them."""
        pieces = self.pieces[word]
        pairs = list(pairwise(pieces))
        for pair in pairs:
            self.count[pair] += sign * self.times[word]
            if sign > 0:
                self.places[pair].add(word)
            else:
                self.places[pair].discard(word)
        return set(pairs)

    def join(self, pair: Pair) -> set[Pair]:
        """Join the pair wherever it occurs, from the left; returns the pairs whose counts have changed."""
        changed: set[Pair] = set()
        for word in list(self.places[pair]):
            changed |= self._note(word, -1)
            old, new = self.pieces[word], []
            at = 0
            while at < len(old):
                width = 2 if tuple(old[at : at + 2]) == pair else 1
                new.append("".join(old[at : at + width]))
                at += width
            self.pieces[word] = new
            changed |= self._note(word, +1)
        return changed

    def first_place(self, pair: Pair) -> tuple[int, int]:
        """(word, place in it) where the pair occurs first."""
        word = min(self.places[pair])
        pieces = self.pieces[word]
        return word, next(at for at, here in enumerate(pairwise(pieces)) if here == pair)


def merged_pairs(counts: Mapping[str, int], min_count: int) -> Iterator[str]:
    """The joined pairs in the order of their joining, most frequent first, until none occurs `min_count` times.

    `counts`: how often each word occurs, in the order in which they were seen. Of equally frequent pairs, the one that
    occurs first in these words, as joined so far, is taken.
    """
    words = _Words(counts)
    heap = [(-count, pair) for pair, count in words.count.items()]
    heapq.heapify(heap)
    while heap:
        most = -heap[0][0]
        if most < min_count:
            return
        tied: set[Pair] = set()
        while heap and -heap[0][0] == most:  # an entry is out of date if the count has changed since
            _, pair = heapq.heappop(heap)
            if words.count[pair] == most:
                tied.add(pair)
        if tied:
            best = min(tied, key=words.first_place) if len(tied) > 1 else tied.pop()
            yield "".join(best)
            for pair in words.join(best) | tied:
                if words.count[pair]:
                    heapq.heappush(heap, (-words.count[pair], pair))
