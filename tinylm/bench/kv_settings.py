"""Section `kv_bench`. Light: params.yaml is checked without torch."""

import dataclasses

from tinylm.base.config import setting


@dataclasses.dataclass(frozen=True, kw_only=True)
class KvBenchSettings:
    """Section `kv_bench`."""

    batch: int = setting(low=1, high=100_000)
    prompt_tokens: int = setting(low=1, high=100_000)
    lengths: tuple[int, ...] = setting(low=2, high=100_000, length=1)
    repeats: int = setting(low=1, high=1000)
