"""Results of stage evaluate: data/figures/evaluate.json.

Losses are in nats per token, None where they are not finite: the model has diverged.
"""

import dataclasses

from tinylm.run.interval import Interval
from tinylm.run.result_files import KEY


@dataclasses.dataclass(frozen=True)
class Loss:
    """A loss over some tokens; perplexity is exp(nats_per_token)."""

    perplexity: float | None
    nats_per_token: float | None
    tokens: int


@dataclasses.dataclass(frozen=True)
class LossWithInterval:
    """A loss with its interval, low and high."""

    perplexity: float | None
    perplexity_interval: list[float | None]
    nats_per_token: float | None
    tokens: int


@dataclasses.dataclass(frozen=True, kw_only=True)
class KneserNeyLoss(Loss):
    """The loss of the n-grams.

    counted_tokens: how many of the train_tokens were counted. difference: the model's nats per token minus theirs.
    """

    order: int
    counted_tokens: int
    train_tokens: int
    difference: Interval


@dataclasses.dataclass(frozen=True)
class Baselines:
    """What the model is compared with. floor: the generator itself, if the text has one."""

    uniform: Loss
    unigram: Loss
    kneser_ney: KneserNeyLoss
    floor: Loss | None = None


@dataclasses.dataclass(frozen=True)
class WordMeasures:
    """Sums over some words, divided by the number of all words; see `tinylm.evaluate.truth`."""

    words: int
    true: Interval
    model: Interval
    excess: Interval
    kl: Interval
    impossible: Interval


@dataclasses.dataclass(frozen=True, kw_only=True)
class Divergence:
    """The model's distance from the generator of the stories, in nats per word.

    unknown_nats: of all stories together. left_out: why they cannot be compared; then the rest is None.
    """

    left_out: str | None = None
    stories: int | None = None
    words: int | None = None
    unknown_nats: float | None = None
    true: Interval | None = None
    model: Interval | None = None
    excess: Interval | None = None
    kl: Interval | None = None
    impossible: Interval | None = None
    unseen_mass: float | None = None
    kinds: dict[str, WordMeasures] | None = None

    def above_floor(self) -> dict[str, float | None]:
        """The divergence of all words and of each kind, as metrics; empty if it was left out."""
        if self.kl is None:
            return {}
        metrics = {"above_floor": self.kl.value}
        for kind, measures in (self.kinds or {}).items():
            metrics[f"above_floor_{kind}"] = measures.kl.value
        return metrics


@dataclasses.dataclass(frozen=True, kw_only=True)
class Samples:
    """Continuations by the model, and the stories' own (reference).

    protocol: how they were made, in sentences. count: samples; finished: those that ended by
    themselves. hypothesis_tokens, reference_tokens: words that BLEU counts.
    """

    protocol: str
    count: int
    finished: int
    sentence_bleu: Interval
    hypothesis_tokens: int
    reference_tokens: int
    continuation_perplexity: Interval
    reference_perplexity: Interval
    bleu1: Interval
    bleu2: Interval
    bleu3: Interval
    bleu4: Interval
    distinct1: float
    distinct2: float
    distinct3: float
    repeated_4grams: float
    reference_distinct1: float
    reference_distinct2: float
    reference_distinct3: float
    reference_repeated_4grams: float


@dataclasses.dataclass(frozen=True)
class Nearness:
    """The share of 4-grams that the nearest train story has. count: texts that have a 4-gram."""

    count: int
    nearest: Interval | None = None


@dataclasses.dataclass(frozen=True)
class Memorised:
    """Nearness of the model's continuations, and of the stories' own."""

    continuations: Nearness
    references: Nearness


@dataclasses.dataclass(frozen=True)
class Plausibility:
    """Whether the generator could have written the samples.

    texts: samples that were read. possible: the share without an impossible word. words: the number
    read for each impossible one; None without any. kinds: impossible words by kind.
    """

    texts: int
    possible: Interval | None
    words: Interval | None
    kinds: dict[str, int]


GENERATOR = "the generator"  # its own stories, in the last row of the grades of decoding


@dataclasses.dataclass(frozen=True, kw_only=True)
class FreeTexts:
    """Texts from an empty prompt, judged by the generator.

    words: how many are written for each impossible one; None without an impossible word.
    excess_nats: the generator's surprise per word before the first impossible one, minus that at the same positions of its
    own stories. Below 0, the texts keep to likelier words than the generator does.
    names: how many different names the heroes have; None in a world that names none.
    distinct: different sequences of four words / all of them.
    """

    texts: int
    words: Interval | None
    excess_nats: Interval | None
    names: int | None
    distinct: float


@dataclasses.dataclass(frozen=True, kw_only=True)
class DecodingGrade:
    """How far a decoding setting is from the generator.

    The first four are per word of the generator's stories; None for beam search, which draws no word.

    total_variation: half the sum of |true probability - probability of being drawn| over all words.
    impossible: the probability of drawing a word that the generator never writes there.
    cut: the true probability of words that are never drawn.
    difference: of total_variation from sampling without filters at temperature 1, on the same stories.
    """

    total_variation: Interval | None = None
    impossible: Interval | None = None
    cut: Interval | None = None
    difference: Interval | None = None
    free: FreeTexts


@dataclasses.dataclass(frozen=True)
class AblationOfHeads:
    """stories: how many the loss is measured on, with each head switched off in turn."""

    stories: int


@dataclasses.dataclass(frozen=True)
class Heads:
    """margin: by which a score must exceed its baseline. not_measured: the reason, by role."""

    margin: float
    not_measured: dict[str, str]
    ablation: AblationOfHeads


@dataclasses.dataclass(frozen=True, kw_only=True)
class SplitLoss(LossWithInterval):
    """The model's loss on the evaluation split.

    protocol: which targets are scored, in words.
    stories, different_stories: evaluated, and different texts among them.
    raw_bits_per_byte: None unless the tokens hold all of the text.
    scored_once: in layout "windows" the loss with each target scored once, as the baselines are.
    """

    protocol: str
    stories: int
    different_stories: int
    warnings: list[str]
    unknown_share: float
    raw_bits_per_byte: float | None
    raw_bytes: int
    scored_once: LossWithInterval | None = dataclasses.field(default=None, metadata={KEY: "once"})


@dataclasses.dataclass(frozen=True, kw_only=True)
class Evaluated(SplitLoss):
    """The model on the evaluation split. sense: plausibility of the samples, if it can be judged.

    decoding: the grade of each decoding setting, if the true probabilities are known.
    """

    baselines: Baselines
    truth: Divergence
    samples: Samples
    memorised: Memorised
    sense: Plausibility | None = None
    heads: Heads
    decoding: dict[str, DecodingGrade] | None = None

    def metrics(self) -> dict[str, float | None]:
        """The row of `dvc metrics show`; what is None is left out there."""
        return {
            "perplexity": self.perplexity,
            "samples_perplexity": self.samples.continuation_perplexity.value,
            "samples_bleu": self.samples.sentence_bleu.value,
            **self.truth.above_floor(),
        }
