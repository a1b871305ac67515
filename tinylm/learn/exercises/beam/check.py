"""Oracle: trees small enough for paper, exhaustive search, and the rule written a second way."""

import itertools
import math
import random

from tinylm.learn.expect import expect


def _tree(table):
    """log_probs of a dict {ids so far: probabilities}"""

    def log_probs(ids):
        row = table.get(tuple(ids), [1.0, 0.0, 0.0])  # after an impossible text
        return [math.log(p) if p else -math.inf for p in row]

    log_probs.__name__ = str(table)
    return log_probs


def _random(seed, words):
    def log_probs(ids):
        weights = [random.Random(f"{seed} {ids} {word}").random() ** 3 for word in range(words)]
        return [math.log(weight / sum(weights)) for weight in weights]

    log_probs.__name__ = f"a random model of {words} words, seed {seed}"
    return log_probs


def _sum(log_probs, ids):
    return sum(log_probs(list(ids[:i]))[word] for i, word in enumerate(ids))


def _exhaustive(log_probs, words, max_length, eos, alpha):
    texts = []
    for length in range(1, max_length + 1):
        for ids in itertools.product(range(words), repeat=length):
            ends = ids[-1] == eos
            if eos not in ids[:-1] and (ends or length == max_length):
                texts.append((list(ids), _sum(log_probs, ids) / length**alpha))
    return max(texts, key=lambda text: text[1])


def _search(log_probs, width, max_length, eos, alpha, rank_all=True, per_word=True, fill=True):
    live = {(): 0.0}
    done = []
    for length in range(1, max_length + 1):
        options = [
            (total + step, number, word, (*ids, word))
            for number, (ids, total) in enumerate(live.items())
            for word, step in enumerate(log_probs(list(ids)))
            if step > -math.inf
        ]
        options.sort(key=lambda option: (-option[0], option[1], option[2]))
        ending = [o for o in (options[:width] if rank_all else options) if o[2] == eos]
        done += [
            (list(o[3]), o[0] / (length if per_word else length - 1 or 1) ** alpha) for o in ending
        ]
        rest = [o for o in (options if fill else options[:width]) if o[2] != eos][:width]
        live = {o[3]: o[0] for o in rest}
    last = max_length if per_word else max_length - 1 or 1
    done += [(list(ids), total / last**alpha) for ids, total in live.items()]
    return max(done, key=lambda text: text[1])


def _compare(beam_search, log_probs, width, max_length, eos, alpha, expected=None):
    given = {
        "log_probs": log_probs,
        "width": width,
        "max_length": max_length,
        "eos": eos,
        "alpha": alpha,
    }
    right = _search(**given)
    assert expected is None or expected == right[0]
    greedy = _search(log_probs, 1, max_length, eos, alpha)
    expect(beam_search, given, right, {
        "only the first beam is followed, as in greedy decoding": greedy,
        "the length penalty is missing: divide the sum by length ** alpha": _search(**{**given, "alpha": 0.0}),
        "a text that ended takes the place of a live beam; K others stay live": _search(**given, fill=False),
        "an ending counts only among the first K candidates of its step": _search(**given, rank_all=False),
        "the length counts eos, too": _search(**given, per_word=False),
        "the ids are right, the score is not sum / length ** alpha": (
            right[0], _search(**{**given, "alpha": 0.0})[1]
        ),
    })  # fmt: skip


GREEDY_TRAP = {(): [0.0, 0.6, 0.4], (1,): [0.5, 0.25, 0.25], (2,): [0.9, 0.05, 0.05]}
SHORT_WINS = {(): [0.3, 0.7, 0.0], (1,): [0.1, 0.9, 0.0], (1, 1): [0.5, 0.5, 0.0]}


def width_one(beam_search):
    """width 1 is greedy decoding"""
    _compare(beam_search, _tree(GREEDY_TRAP), 1, 2, 0, 0.0, [1, 0])


def finds_more(beam_search):
    """width 2 finds the text that greedy decoding misses"""
    _compare(beam_search, _tree(GREEDY_TRAP), 2, 2, 0, 0.0, [2, 0])


def drops_late_endings(beam_search):
    """an ending that is not among the first K candidates is dropped"""
    _compare(beam_search, _tree({(): [0.4, 0.6, 0.0], (1,): [0.5, 0.3, 0.2]}), 1, 2, 0, 0.0, [1, 0])


def keeps_others_live(beam_search):
    """a text that ends does not take the place of a live beam"""
    tree = _tree({(): [0.5, 0.3, 0.2], (1,): [0.1, 0.45, 0.45], (2,): [1.0, 0.0, 0.0]})
    _compare(beam_search, tree, 2, 2, 0, 2.0, [2, 0])


def penalises_length(beam_search):
    """the score is sum / length ** alpha, with eos in the length"""
    tree = _tree({**SHORT_WINS, (1, 1, 1): [1.0, 0.0, 0.0]})
    _compare(beam_search, tree, 2, 3, 0, 0.0)
    _compare(beam_search, tree, 2, 3, 0, 1.0)


def reaches_max_length(beam_search):
    """at max_length the live beams are finished, too"""
    _compare(
        beam_search,
        _tree({(): [0.0, 0.6, 0.4], (1,): [0.0, 0.5, 0.5], (2,): [0.0, 1.0, 0.0]}),
        2,
        2,
        0,
        0.0,
    )


def wide_is_exhaustive(beam_search):
    """a beam as wide as all texts is exhaustive search"""
    for seed in range(3):
        model = _random(seed, 3)
        best = _exhaustive(model, 3, 4, 0, 0.7)
        _compare(beam_search, model, 81, 4, 0, 0.7, best[0])


def equals_the_rule(beam_search):
    """random models, narrow beams"""
    for seed in range(12):
        _compare(beam_search, _random(seed, 4), 2 + seed % 3, 5, 0, 0.6)
