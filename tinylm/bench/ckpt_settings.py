"""Section `ckpt_bench`. Light: params.yaml is checked without torch."""

import dataclasses

from tinylm.base.config import setting


@dataclasses.dataclass(frozen=True, kw_only=True)
class CkptBenchSettings:
    """Section `ckpt_bench`."""

    depths: tuple[int, ...] = setting(low=1, high=1000, length=1)
    batch_size: int = setting(low=1, high=1_000_000)
    repeats: int = setting(low=1, high=1000)
