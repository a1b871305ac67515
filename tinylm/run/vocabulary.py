"""Results of stage vocab: data/figures/vocab.json."""

import dataclasses


@dataclasses.dataclass(frozen=True)
class StoryLengths:
    """The number of words in a train story."""

    mean: float
    median: float
    largest: int


@dataclasses.dataclass(frozen=True, kw_only=True)
class HeldOutCut:
    """How held-out text is taken from the train text: by hash of stories, or the last tokens.

    The other fields describe a cut in tokens: the total number of tokens, the position of the cut,
    the number of tokens that both sides share, and notes on what crosses the cut.
    """

    by: str
    stream_tokens: int | None = None
    cut: int | None = None
    overlap: int | None = None
    notes: list[str] | None = None


@dataclasses.dataclass(frozen=True, kw_only=True)
class EmbeddingSource:
    """Where the word vectors come from.

    read: the share of the train tokens that they were made from. composed: words whose vectors are
    made of their n-grams. words: ids that are text. covered: how many of them have a vector;
    coverage: their share. std: the standard deviation of the whole matrix.
    """

    source: str
    width: int
    read: float | None = None
    composed: int | None = None
    words: int
    covered: int | None = None
    coverage: float | None = None
    std: float


@dataclasses.dataclass(frozen=True, kw_only=True)
class Vocabulary:
    """The vocabulary and what it covers. The keys of dicts are splits.

    size: the number of ids. words_seen, words_seen_once: different words of the train split; only
    for tokenizer words. tokens: the number in each split. unknown_share, coverage: the shares of
    its words outside and inside the vocabulary.
    """

    size: int
    words_seen: int | None = None
    words_seen_once: int | None = None
    tokens: dict[str, int]
    unknown_share: dict[str, float]
    coverage: dict[str, float]
    sequence_length: StoryLengths
    split: HeldOutCut
    embedding: EmbeddingSource
