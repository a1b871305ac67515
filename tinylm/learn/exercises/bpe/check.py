"""Oracle: brute force on strings, in which each id is a character, and merges worked out by hand."""

import random

from tinylm.learn.expect import expect


def _merge(text, pair, new):
    return text.replace(chr(pair[0]) + chr(pair[1]), chr(new))


def _learn(words, count):
    spelt = ["".join(map(chr, word.encode())) for word in words]
    merges = []
    while len(merges) < count:
        pairs = [(ord(a), ord(b)) for word in spelt for a, b in zip(word, word[1:])]
        best = min(pairs, key=lambda pair: (-pairs.count(pair), pair), default=None)
        if best is None or pairs.count(best) < 2:
            break
        spelt = [_merge(word, best, 256 + len(merges)) for word in spelt]
        merges.append(best)
    return merges


def _apply(word, merges):
    text = "".join(map(chr, word.encode()))
    for number, pair in enumerate(merges):
        text = _merge(text, pair, 256 + number)
    return list(map(ord, text))


def first_merge(learn_merges):
    """the first merge is the most frequent pair"""
    expect(learn_merges, {"words": ["ab", "abc", "bc", "ab"], "count": 1}, [(97, 98)],
           {"each word counts as often as it occurs": [(98, 99)]})  # fmt: skip


def equal_counts(learn_merges):
    """of equal counts, the smaller pair is merged first"""
    given = {"words": ["xy", "xy", "ab", "ab"], "count": 2}
    expect(learn_merges, given, [(97, 98), (120, 121)], {
        "each word counts as often as it occurs": [],
        "of equal counts, take the smaller pair; Counter.most_common keeps the first": [(120, 121), (97, 98)]
    })  # fmt: skip


def within_words(learn_merges):
    """pairs do not cross words"""
    given = {"words": ["ca", "b", "a", "b", "ca"], "count": 1}
    expect(learn_merges, given, [(99, 97)], {
        "the end of a word and the beginning of the next are no pair": [(97, 98)],
        "each word counts as often as it occurs": [],
    })  # fmt: skip


def later_merges(learn_merges):
    """later merges use the new ids"""
    given = {"words": ["abab", "abab", "abc"], "count": 2}
    expect(learn_merges, given, [(97, 98), (256, 256)], {
        "the first merge becomes id 256": [(97, 98), (257, 257)],
        "count the pairs again after each merge, with the new ids": [(97, 98), (98, 97)],
    })  # fmt: skip


def ends(learn_merges):
    """it ends when no pair occurs twice"""
    expect(learn_merges, {"words": ["ab", "ab", "c"], "count": 9}, [(97, 98)],
           {"a pair that occurs once is merged": [(97, 98), (97, 98)]})  # fmt: skip
    expect(learn_merges, {"words": ["ab", "cd"], "count": 9}, [],
           {"a pair that occurs once is merged": [(97, 98), (99, 100)]})  # fmt: skip
    expect(learn_merges, {"words": [], "count": 3}, [])


def applies(apply_merges):
    """apply_merges goes from left to right, in the order of the merges"""
    expect(apply_merges, {"word": "aaa", "merges": [(97, 97)]}, [256, 97],
           {"replace from left to right": [97, 256], "a byte cannot be in two pairs": [256, 256]})  # fmt: skip
    merges = [(98, 99), (97, 98)]
    expect(apply_merges, {"word": "abc", "merges": merges}, [97, 256],
           {"apply the merges in the order in which they were learnt": [257, 99]})  # fmt: skip
    expect(apply_merges, {"word": "abab", "merges": [(97, 98), (256, 256)]}, [257])


def spells_bytes(apply_merges):
    """letters outside ASCII are several bytes"""
    expect(apply_merges, {"word": "é", "merges": []}, [195, 169],
           {"encode the word as UTF-8; ord gives code points": [233]})  # fmt: skip


def equals_brute_force(learn_merges, apply_merges):
    """both equal a brute-force search on random words"""
    generator = random.Random(1)
    for length in (2, 3, 5, 8):
        words = ["".join(generator.choices("abc", k=length)) for _ in range(length)]
        merges = _learn(words, 6)
        expect(learn_merges, {"words": words, "count": 6}, merges)
        for word in words:
            expect(apply_merges, {"word": word, "merges": merges}, _apply(word, merges))
