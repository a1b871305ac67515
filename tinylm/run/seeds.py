"""Results of the runs of all seeds: data/figures/seeds.json and data/seeds/SEED.json."""

import dataclasses


@dataclasses.dataclass(frozen=True)
class SeedScore:
    """The metrics of a run that are compared between seeds; None where they are not known."""

    perplexity: float | None
    nats_per_token: float | None
    raw_bits_per_byte: float | None
    held_out_loss: float | None


@dataclasses.dataclass(frozen=True)
class Spread:
    """A metric over all seeds.

    sd: sample standard deviation. difference: a 95 % bound on the difference between two runs that
    differ only in their seed. Both are left out with one seed.
    """

    mean: float
    sd: float | None = None
    difference: float | None = None


@dataclasses.dataclass(frozen=True, kw_only=True)
class Seeds:
    """The spread of each metric that all seeds have, and the metrics of each seed."""

    n: int
    seeds: list[int]
    perplexity: Spread | None = None
    nats_per_token: Spread | None = None
    raw_bits_per_byte: Spread | None = None
    held_out_loss: Spread | None = None
    by_seed: dict[int, SeedScore]
