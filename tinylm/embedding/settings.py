"""Where the word vectors come from: section `embedding` of params.yaml."""

from dataclasses import dataclass

from tinylm.base.config import setting

COUNTED_WINDOW = 100  # counting takes time and memory in proportion


@dataclass(frozen=True, kw_only=True)
class EmbeddingSettings:
    """Section `embedding` of params.yaml."""

    source: str = setting(choices=("skipgram", "counts", "file", "random"))
    path: str = setting()
    hub_id: str | None = setting()
    hub_revision: str | None = setting()
    width: int = setting(low=1, high=65536)
    epochs: int = setting(low=1)
    window: int = setting(low=1, high=1000)
    min_n: int = setting(low=0)
    max_n: int = setting(low=0)
    buckets: int = setting(low=1, high=100_000_000)
    lr: float = setting(above=0, high=10)
    std: float = setting(low=1e-6, high=100)
    seed: int = setting(low=0)

    def problems(self) -> list[str]:
        """Rules between the fields, each line beginning with a field's name."""
        problems = []
        if self.min_n > self.max_n:
            problems.append(f"min_n: expected at most max_n = {self.max_n}, got {self.min_n}")
        if self.source == "counts" and self.window > COUNTED_WINDOW:
            problems.append(
                f"window: expected at most {COUNTED_WINDOW} with source: counts, got {self.window}"
            )
        if self.hub_id == "":
            problems.append("hub_id: expected a repository of the hub or null, got ''")
        elif self.source == "file" and self.hub_id is not None and not self.hub_revision:
            problems.append("hub_revision is empty; needed with hub_id: a commit of its repository")
        return problems
