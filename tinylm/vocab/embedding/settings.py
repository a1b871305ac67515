"""Where the word vectors come from: section `embedding` of params.yaml."""

from dataclasses import dataclass

from tinylm.base.config import setting
from tinylm.base.hub import hub_problem

SEED = 1  # of the vectors: everything random in them


@dataclass(frozen=True, kw_only=True)
class EmbeddingSettings:
    """Section `embedding` of params.yaml. hub: instead of `path`, OWNER/NAME@REVISION."""

    source: str = setting(choices=("skipgram", "counts", "file", "random"))
    path: str = setting()
    hub: str | None = setting()
    width: int = setting(low=1, high=65536)
    std: float = setting(low=1e-6, high=100)

    def problems(self) -> list[str]:
        """Rules between the fields, each line beginning with a field's name."""
        return [] if self.hub is None else hub_problem(self.hub)
