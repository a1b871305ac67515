"""What is said of a published model besides its run."""

import dataclasses

from tinylm.exchange.licences import DataLicence


@dataclasses.dataclass(frozen=True)
class Origin:
    """Where a model comes from.

    The commit, "+" behind it where the code differs from it, None outside of git; the MD5 of models/ in dvc.lock; the
    files that say how it was made and whose state no commit holds.
    """

    commit: str | None
    models_md5: str
    uncommitted: tuple[str, ...]


@dataclasses.dataclass(frozen=True)
class Publication:
    """OWNER/NAME, form of the weights (transformers | tinylm), licences, origin, and what it does without.

    `left_out`: files that are not of this run, and why; `lacks`: settings of decoding that generate() does not know.
    """

    repo: str
    format: str
    licence: str | None
    data: DataLicence
    origin: Origin
    report: bool
    left_out: tuple[str, ...]
    lacks: tuple[str, ...]
