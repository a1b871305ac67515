"""Results of the benches: beam_bench, kv_bench, accum_sweep and ckpt_bench.

A time or speed is the median over the trials; low_* and high_* are the smallest and largest of them.
"""

import dataclasses

from tinylm.run.interval import Interval
from tinylm.run.result_files import StageTimes


@dataclasses.dataclass(frozen=True)
class NotMeasured:
    """What a bench could not measure, and why."""

    setting: str
    figure: str
    reason: str


@dataclasses.dataclass(frozen=True, kw_only=True)
class Profile:
    """The share of the time that each kind of operation takes, or why it was not measured."""

    shares: dict[str, float] | None = None
    error: str | None = None


@dataclasses.dataclass(frozen=True, kw_only=True)
class MethodQuality:
    """The texts of one decoding method.

    bleu4: against the stories' own continuations. log_prob_per_token: in nats, under the model.
    possible: the share of `judged` further texts that the generator could have written.
    """

    bleu4: float
    log_prob_per_token: float | None
    distinct2: float
    repeated_4grams: float
    possible: Interval | None = None
    judged: int | None = None


@dataclasses.dataclass(frozen=True)
class Beams:
    """data/figures/beam_bench.json: sampling, greedy, and beams by their name, such as "beam 5"."""

    prompts: int
    new_tokens: int
    methods: dict[str, MethodQuality]


@dataclasses.dataclass(frozen=True, kw_only=True)
class MethodSpeed:
    """The speed of one method: one prompt at a time, then (batch_*) all at once."""

    tokens_per_s: float
    low_tokens_per_s: float
    high_tokens_per_s: float
    s_per_prompt: float
    low_s_per_prompt: float
    high_s_per_prompt: float
    batch_tokens_per_s: float
    low_batch_tokens_per_s: float
    high_batch_tokens_per_s: float


@dataclasses.dataclass(frozen=True, kw_only=True)
class BeamTimes(StageTimes):
    """data/times/beam_bench.json."""

    methods: dict[str, MethodSpeed]
    not_measured: list[NotMeasured]
    trials: int


@dataclasses.dataclass(frozen=True)
class Tie:
    """Two next words whose logits differ by no more than rounding, so that they may swap ranks."""

    new_tokens: int
    prompt: int
    position: int
    gap_nats: float


@dataclasses.dataclass(frozen=True)
class Cache:
    """data/figures/kv_bench.json.

    same_ids: whether decoding with and without the cache gave the same tokens; None if no length
    could be measured both ways. compared: those lengths.
    """

    batch: int
    prompt_tokens: int
    same_ids: bool | None
    compared: list[int]
    ties: list[Tie]


@dataclasses.dataclass(frozen=True, kw_only=True)
class CacheSpeed:
    """Decoding to one length with or without the cache. rest_s_per_token: after the first token."""

    new_tokens: int
    cache: bool
    tokens_per_s: float
    low_tokens_per_s: float
    high_tokens_per_s: float
    first_token_s: float
    low_first_token_s: float
    high_first_token_s: float
    rest_s_per_token: float | None
    low_rest_s_per_token: float | None
    high_rest_s_per_token: float | None
    peak_mib: float | None


@dataclasses.dataclass(frozen=True, kw_only=True)
class CacheTimes(StageTimes):
    """data/times/kv_bench.json."""

    settings: list[CacheSpeed]
    profile: Profile
    not_measured: list[NotMeasured]
    trials: int

    def of_longest(self) -> tuple[CacheSpeed | None, CacheSpeed | None]:
        """The rows of the longest texts, with and without the cache; None for a way that was not measured."""
        longest = max((speed.new_tokens for speed in self.settings), default=None)
        by_cache = {row.cache: row for row in self.settings if row.new_tokens == longest}
        return by_cache.get(True), by_cache.get(False)


@dataclasses.dataclass(frozen=True)
class AccumulatedRun:
    """A short training with one number of mini-batches per update; losses in nats per token."""

    updates: int
    held_out_loss_at_equal_tokens: float | None
    held_out_loss_at_equal_updates: float | None
    bleu: float | None = None


@dataclasses.dataclass(frozen=True)
class Accumulated:
    """data/figures/accum_sweep.json.

    settings: a run for each number of mini-batches. row_tokens: the most tokens in a row.
    gradient_difference: between one batch and the same rows in mini-batches, relative to the largest entry.
    """

    budget_tokens: int
    equal_updates: int
    settings: dict[int, AccumulatedRun]
    row_tokens: int
    gradient_difference: float | None


@dataclasses.dataclass(frozen=True)
class AccumulationSpeed:
    """The cost of training with one number of mini-batches."""

    tokens_per_s: float
    update_s: float
    epoch_s: float
    peak_mib: float | None


@dataclasses.dataclass(frozen=True, kw_only=True)
class AccumulationTimes(StageTimes):
    """data/times/accum_sweep.json."""

    settings: dict[int, AccumulationSpeed]
    not_measured: list[NotMeasured]


@dataclasses.dataclass(frozen=True)
class Recomputed:
    """data/figures/ckpt_bench.json: whether gradient checkpointing left the training unchanged.

    None if only one of the two runs could be measured.
    """

    same_losses: bool | None = None
    same_weights: bool | None = None


@dataclasses.dataclass(frozen=True, kw_only=True)
class RecomputeSpeed:
    """The cost of training with or without gradient checkpointing."""

    recompute: bool
    tokens_per_s: float
    low_tokens_per_s: float
    high_tokens_per_s: float
    update_s: float
    low_update_s: float
    high_update_s: float
    epoch_s: float
    low_epoch_s: float
    high_epoch_s: float
    peak_mib: float | None


@dataclasses.dataclass(frozen=True, kw_only=True)
class RecomputeTimes(StageTimes):
    """data/times/ckpt_bench.json."""

    settings: list[RecomputeSpeed]
    profile: Profile
    not_measured: list[NotMeasured]
    trials: int
