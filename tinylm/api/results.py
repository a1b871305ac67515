"""What `LanguageModel` returns: texts, next words, attention. A notebook shows each of them."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from tinylm.base.config import InputError
from tinylm.base.printable import visible

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_BAR = 30  # characters of a probability of 1


class Text(str):
    """A prompt and its continuation: a string with its tokens.

    prompt_ids, new_ids: token ids of the prompt, with what opens a text, and of the continuation.
    finished: whether the continuation ended with <eos>, which is then one of new_ids.
    log_probs, log_prob: of each new token and of all, in nats, under the model's own distribution,
    before temperature and filters; None unless requested.
    score: by which beam search ranked it; None of a sample.
    """

    prompt_ids: list[int]
    new_ids: list[int]
    finished: bool
    log_probs: list[float] | None = None
    score: float | None = None

    @property
    def log_prob(self) -> float | None:
        return None if self.log_probs is None else sum(self.log_probs)


class NextWord(NamedTuple):
    """A token that may come next and its probability, before temperature and filters."""

    word: str
    probability: float


class NextWords(tuple[NextWord, ...]):
    """The likeliest next tokens, likeliest first; shown with a bar for each."""

    @property
    def rest(self) -> float:
        """Probability of all other tokens."""
        return max(0.0, 1.0 - sum(word.probability for word in self))

    def __repr__(self) -> str:
        width = max((len(visible(word)) for word, _ in self), default=0)
        rows = []
        for word, p in self:
            bar = "#" * round(_BAR * p)
            rows.append(f"{visible(word):{width}}  {p:7.2%}  {bar}".rstrip())
        return "\n".join([*rows, f"{'(others)':{width}}  {self.rest:7.2%}"])


@dataclasses.dataclass(frozen=True, repr=False)
class Attention:
    """What each head attends to in a text.

    words: the T tokens. weights (layers, heads, T, T) float32: row q of a head is what token q
    attends to, and adds up to 1. next: the likeliest token after the last one.
    """

    words: list[str]
    weights: np.ndarray
    next: NextWord

    def __repr__(self) -> str:
        layers, heads = self.weights.shape[:2]
        shape = f"{layers} layers of {heads} heads over {len(self.words)} tokens"
        return f"Attention of {shape}; next: {self.next.word!r}"

    def plot(self, layer: int | None = None) -> Figure:
        """Heat maps, one for each head, of one layer if given (counted from 1).

        Raises InputError for a layer that is not there.
        """
        from tinylm.report.drawing import in_style
        from tinylm.report.heatmaps import draw_sentence

        count, heads = self.weights.shape[:2]
        if layer is not None and not 1 <= layer <= count:
            raise InputError(f"layer: expected a number from 1 to {count}, got {layer}")
        layers = range(count) if layer is None else [layer - 1]
        after = f"next: {visible(self.next.word)} ({self.next.probability:.0%})"
        titles = []
        for row in layers:
            titles.append([f"layer {row + 1}, head {head + 1}" for head in range(heads)])
        with in_style():
            drawing = draw_sentence(self.words, self.weights[list(layers)], after, titles)
        return drawing

    def _repr_png_(self) -> bytes:
        from tinylm.report.drawing import to_png

        return to_png(self.plot())
