"""Where the word vectors come from."""

from dataclasses import dataclass

from tinylm.config import setting


@dataclass(frozen=True)
class EmbeddingSettings:
    """Section `embedding` of params.yaml."""

    source: str = setting(choices=("skipgram", "file", "random"))
    path: str = setting()
    width: int = setting(low=1, high=65536)
    epochs: int = setting(low=1)
    window: int = setting(low=1)
    min_n: int = setting(low=0)
    max_n: int = setting(low=0)
    buckets: int = setting(low=1, high=100_000_000)
    lr: float = setting(above=0, high=10)
    seed: int = setting(low=0)

    def problems(self) -> list[str]:
        """Rules between the fields, each line beginning with a field's name."""
        if self.min_n > self.max_n:
            return [f"min_n = {self.min_n}; allowed: at most max_n = {self.max_n}"]
        return []
