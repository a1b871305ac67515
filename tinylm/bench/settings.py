"""Sections of params.yaml that the benches read. Light: the file is checked without torch."""

from dataclasses import dataclass

from tinylm.base.config import setting


@dataclass(frozen=True, kw_only=True)
class BeamBenchSettings:
    """Section `beam_bench`. cache: decode with it; stop_at_eos: of the timed runs, texts are always ended by <eos>."""

    widths: tuple[int, ...] = setting(low=1, high=100_000, length=1)
    prompts: int = setting(low=1, high=100_000)
    prompt_tokens: int = setting(low=1, high=100_000)
    new_tokens: int = setting(low=1, high=100_000)
    cache: bool = setting()
    stop_at_eos: bool = setting()
    repeats: int = setting(low=1, high=1000)


@dataclass(frozen=True, kw_only=True)
class KvBenchSettings:
    """Section `kv_bench`."""

    batch: int = setting(low=1, high=100_000)
    prompt_tokens: int = setting(low=1, high=100_000)
    lengths: tuple[int, ...] = setting(low=2, high=100_000, length=1)
    repeats: int = setting(low=1, high=1000)


@dataclass(frozen=True, kw_only=True)
class AccumSettings:
    """Section `accum_sweep`."""

    settings: tuple[int, ...] = setting(low=1, high=100_000, length=1)
    batch_size: int = setting(low=1, high=1_000_000)
    tokens: int = setting(low=1)
    held_out_batches: int = setting(low=1, high=1_000_000)

    def problems(self) -> list[str]:
        """Rules between the fields: only divisors of the largest setting end at the same token as it does."""
        largest = max(self.settings)
        if any(largest % number for number in self.settings):
            return [f"settings = {list(self.settings)}; allowed: numbers that divide the largest, {largest}"]
        return []


@dataclass(frozen=True, kw_only=True)
class CkptBenchSettings:
    """Section `ckpt_bench`."""

    depths: tuple[int, ...] = setting(low=1, high=1000, length=1)
    batch_size: int = setting(low=1, high=1_000_000)
    repeats: int = setting(low=1, high=1000)


@dataclass(frozen=True, kw_only=True)
class SeedSettings:
    """Section `seeds`: those trained beside `train.seed`."""

    more: tuple[int, ...] = setting(low=0)

    def problems(self) -> list[str]:
        """Rules between the fields."""
        if len(set(self.more)) < len(self.more):
            return [f"more = {list(self.more)}; allowed: all different"]
        return []
