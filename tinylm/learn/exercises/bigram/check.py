"""Oracle: the definition by brute force in fractions, and sums to 1."""

from fractions import Fraction

from tinylm.learn.expect import expect, require

SMALL = ["a", "b", "a", "b", "a", "c"]
WORDS = "the cat saw the dog and the dog saw the cat and a dog ran to the san francisco the"
LONGER = WORDS.split(" ")


def _oracle(text, w, h, discount, unigram="before", mass="types", last=False):
    pairs = [(text[i], text[i + 1]) for i in range(len(text) - 1)]
    kinds = set(pairs)
    before = Fraction(sum(pair[1] == w for pair in kinds), len(kinds))
    if unigram == "kinds":
        before = Fraction(sum(pair[1] == w for pair in pairs), len(kinds))
    if unigram == "count":
        before = Fraction(sum(pair[1] == w for pair in pairs), len(pairs))
    total = sum(pair[0] == h for pair in pairs) + (last and text[-1] == h)
    if not total:
        return float(before)
    after = sum(pair[0] == h for pair in kinds) if mass == "types" else 1
    rest = max(pairs.count((h, w)) - Fraction(discount), 0)
    return float(rest / total + Fraction(discount) * after / total * before)


def _compare(bigram, text, words, contexts, discount=0.5):
    model = bigram(list(text), discount)
    for h in contexts:
        for w in words:
            given = {"text": text, "discount": discount, "w": w, "h": h}
            count = text[:-1].count(h)
            expect(lambda *_: model(w, h), given, _oracle(text, w, h, discount), {  # noqa: B023
                "P1 counts different words before w, not how often w occurs": _oracle(
                    text, w, h, discount, unigram="count"
                ),
                "P1 counts different words before w; each pair counts once": _oracle(
                    text, w, h, discount, unigram="kinds"
                ),
                "lambda is D times the number of different words after h": _oracle(
                    text, w, h, discount, mass="one"
                ),
                "no discount, no back-off: these are plain relative frequencies": (
                    list(zip(text, text[1:])).count((h, w)) / count if count else 0.0
                ),
                "w and h are exchanged: P(w, h) is the probability of w after h": _oracle(text, h, w, discount),
                "c(h) counts pairs: the last word of the text has no follower": _oracle(
                    text, w, h, discount, last=True
                ),
                "a word that never had a follower backs off to P1": 0.0,
            })  # fmt: skip


def by_hand(bigram):
    """in "a b a b a c": P(b | a) = 1.5/3 + 1/3 * 1/3"""
    _compare(bigram, SMALL, ["b"], ["a"])


def unseen_pairs(bigram):
    """a pair that never occurred has the back-off probability"""
    _compare(bigram, SMALL, ["a", "c"], ["a", "b"])


def unseen_context(bigram):
    """a word without a follower backs off to P1"""
    _compare(bigram, SMALL, ["a", "b"], ["c", "zebra"])


def equals_brute_force(bigram):
    """equals the definition on a longer text"""
    for discount in (0.75, 0.1):
        _compare(bigram, LONGER, sorted(set(LONGER)), ["the", "dog", "san"], discount)


def sums_to_one(bigram):
    """the probabilities after each word sum to 1"""
    model = bigram(list(LONGER), 0.75)
    for h in (*sorted(set(LONGER)), "zebra"):
        total = sum(model(w, h) for w in set(LONGER))
        require(abs(total - 1) < 1e-9, f"after {h!r} they sum to {total:.4g}",
                "what the discount saves must be all that lambda gives back")  # fmt: skip
