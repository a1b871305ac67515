"""What it costs to tell a raw text from its words: the price of all that a word tokenizer drops.

Words are the language model's to pay, with the spelling of unknown ones (`bits_per_byte`). Their shapes and the gaps
between them (`raw_text`) are paid for here, in the order gap, shape, gap ..., each given all words of its story and the
shapes and gaps before it: the decoder has read the words. So P(words) P(shapes and gaps | words) is the probability
with which a raw text is described, and over all texts these sum to at most one (to less, since several descriptions
give the same text and only one is used). Everything is counted on train stories alone.
"""

import functools
from collections.abc import Callable, Iterable, Sequence

import numpy as np

from tinylm.evaluate.bits_per_byte import Spelling
from tinylm.evaluate.raw_text import Described, describer
from tinylm.vocab.tokenizer import Tokenizer

FITTED = 20_000  # train stories that are counted, the first ones
_WORD_BITS, _SYMBOL_BITS = (
    20,
    16,
)  # of the numbers below; a text that finds no number counts as never seen
_LONGEST = 11  # words since the last sentence's end: counted up to here
_QUOTES = {'"': -1, "\u201c": 1, "\u201d": 0}  # -1: opens and closes alternately


class SideModel:
    """Prices of shapes and gaps. Raises nothing: every text has a finite price."""

    def __init__(self, train: Iterable[str], split: Callable[[str], list[str]]):
        """split: text to words, as `WordTokenizer.split`."""
        self._describe = describer(split)
        self._words, self._gaps, self._shapes = (
            _Names(_WORD_BITS),
            _Names(_SYMBOL_BITS),
            _Names(_SYMBOL_BITS),
        )
        stories = [self._describe(text) for text in train]
        for story in stories:
            self._words.learn(story.words)
            self._gaps.learn(story.gaps)
            self._shapes.learn(story.shapes)
        gaps, shapes = self._numbers(stories)
        self._gap_model, self._shape_model = (
            BackOff(found[:, 0], found[:, 1:].T) for found in (gaps, shapes)
        )
        spellings = Spelling(self._gaps.ids), Spelling(self._shapes.ids)
        self._spelt_gap, self._spelt_shape = (
            functools.cache(spelling.nats) for spelling in spellings
        )

    def nats(self, text: str) -> float:
        """-ln P(shapes and gaps | words) of one text."""
        story = self._describe(text)
        gaps, shapes = self._numbers([story])
        total = 0.0
        for numbers, texts, model, spelt in (
            (gaps, story.gaps, self._gap_model, self._spelt_gap),
            (shapes, story.shapes, self._shape_model, self._spelt_shape),
        ):
            base = -np.array(list(map(spelt, texts)))
            total -= float(model.log_probs(numbers[:, 0], numbers[:, 1:].T, base).sum())
        return total

    def _numbers(self, stories: Iterable[Described]) -> tuple[np.ndarray, np.ndarray]:
        """For each gap and for each shape a row: its own number, then its contexts from coarse to fine."""
        gaps, shapes = [], []
        for story in stories:
            words = [
                0,
                *self._words.known(story.words),
                0,
                0,
            ]  # 0 stands for an unknown word and for the ends, too
            gap_ids, shape_ids = self._gaps.known(story.gaps), self._shapes.known(story.shapes)
            quoted = since = 0
            for i, gap in enumerate(story.gaps):
                left, right, after = words[i : i + 3]
                place = since << 1 | quoted
                near = place << _WORD_BITS
                pair = (quoted << _WORD_BITS | right) << _WORD_BITS
                gaps.append(
                    (
                        gap_ids[i],
                        0,
                        quoted,
                        place,
                        near | left,
                        near | right,
                        pair | after,
                        pair | left,
                    )
                )
                ended = any(character in ".!?\n" for character in gap)
                since = 0 if ended else min(since + 1, _LONGEST)
                for mark in filter(_QUOTES.__contains__, gap):
                    quoted = 1 - quoted if _QUOTES[mark] < 0 else _QUOTES[mark]
                if i < len(shape_ids):
                    opens = int(i == 0 or ended or not _QUOTES.keys().isdisjoint(gap))
                    word = opens << _WORD_BITS | right
                    shapes.append((shape_ids[i], 0, opens, word, gap_ids[i] << _WORD_BITS | right))
        return np.array(gaps, dtype=np.int64).reshape(-1, 8), np.array(
            shapes, dtype=np.int64
        ).reshape(-1, 5)


def dropped_nats(
    tokenizer: Tokenizer, train: Iterable[str], texts: Sequence[str]
) -> np.ndarray | None:
    """Nats (S,) for what the tokenizer drops of each text: none if it keeps all; None if that has no price.

    Priced is what words drop. Of tokens that spell bytes, lower case and joined lines are not.
    """
    if all(tokenizer.normalise(text) == text for text in texts) and tokenizer.lossless:
        return np.zeros(len(texts))
    if tokenizer.kind != "words":
        return None
    model = SideModel(
        (text for _, text in zip(range(FITTED), train, strict=False)), tokenizer.split
    )
    return np.array([model.nats(text) for text in texts])


class _Names:
    """Texts as numbers from 1, in the order in which they were first seen; any other text is 0."""

    def __init__(self, bits: int):
        self.ids: dict[str, int] = {}
        self._most = (1 << bits) - 1

    def learn(self, texts: Iterable[str]) -> None:
        for text in texts:
            if len(self.ids) < self._most:
                self.ids.setdefault(text, len(self.ids) + 1)

    def known(self, texts: Iterable[str]) -> list[int]:
        return [self.ids.get(text, 0) for text in texts]


class BackOff:
    """P(symbol | contexts), interpolated from coarse to fine (Witten and Bell 1991; Chen and Goodman 1998, 2.5).

    P_k(x) = (n(c_k, x) + t(c_k) P_{k-1}(x)) / (n(c_k) + t(c_k)): n counts, t different symbols seen after context c_k;
    a context never seen changes nothing. P_0 comes with each question. symbols (N,) are 1 to 2^16 - 1, 0 for one that
    was never seen; each of contexts (N,) is below 2^47.
    """

    def __init__(self, symbols: np.ndarray, contexts: Iterable[np.ndarray]):
        self._levels = []
        seen = symbols > 0
        for context in contexts:
            keys, counts = np.unique(
                context[seen] << _SYMBOL_BITS | symbols[seen], return_counts=True
            )
            found, first = np.unique(keys >> _SYMBOL_BITS, return_index=True)
            totals = np.diff(np.concatenate(([0], np.cumsum(counts)))[np.append(first, len(keys))])
            self._levels.append((keys, counts, found, totals, np.diff(np.append(first, len(keys)))))

    def log_probs(
        self, symbols: np.ndarray, contexts: Iterable[np.ndarray], base: np.ndarray
    ) -> np.ndarray:
        """Natural logarithms (N,), from those of P_0: base (N,)."""
        logs = base
        for context, (keys, counts, found, totals, kinds) in zip(
            contexts, self._levels, strict=True
        ):
            pair = _look_up(keys, counts, context << _SYMBOL_BITS | symbols)
            total, kind = _look_up(found, totals, context), _look_up(found, kinds, context)
            with np.errstate(
                divide="ignore", invalid="ignore"
            ):  # in logarithms: a long text's price is no normal number
                mixed = np.logaddexp(np.log(pair), np.log(kind) + logs) - np.log(total + kind)
            logs = np.where(total > 0, mixed, logs)
        return logs


def _look_up(keys: np.ndarray, values: np.ndarray, wanted: np.ndarray) -> np.ndarray:
    """The values of the wanted keys, 0 where a key is missing; `keys` are sorted."""
    if not len(keys):
        return np.zeros(len(wanted), dtype=np.int64)
    at = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
    return np.where(keys[at] == wanted, values[at], 0)
