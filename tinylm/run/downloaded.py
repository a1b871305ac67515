"""Results of stage download: data/figures/download.json."""

import dataclasses


@dataclasses.dataclass(frozen=True)
class SplitCounts:
    """The stories of a split.

    log_prob_nats: the generator's log-probability of all its stories; only stories told here have one.
    """

    stories: int
    words: int
    log_prob_nats: float | None = None


@dataclasses.dataclass(frozen=True)
class Corpus:
    """What wrote the stories, as in `Downloaded`: all that judging a text by its generator needs."""

    source: str
    path: str | None = None
    world: str | None = None


@dataclasses.dataclass(frozen=True, kw_only=True)
class Downloaded:
    """Where the stories come from, and which rows are in no split.

    source: storybook, world, local or hub. seed: of the storybook or a world. path: of a world or
    a local source. world: changes with the world's files. hub_id, revision: of a source on the hub.
    evaluation_split: where the evaluation stories come from, in words.
    files: by role, train or evaluation. not_read: the other files, with the reason for each.
    capital_names: files whose names would name a split if they were in lower case.
    dropped: stories in no split, by reason. read_first: by role, the number of stories at which the
    settings ended the reading.
    """

    source: str
    seed: int | None = None
    path: str | None = None
    world: str | None = None
    hub_id: str | None = None
    revision: str | None = None
    evaluation_split: str
    files: dict[str, list[str]] | None = None
    not_read: dict[str, str] | None = None
    capital_names: list[str] | None = None
    splits: dict[str, SplitCounts]
    dropped: dict[str, int]
    read_first: dict[str, int] | None = None
