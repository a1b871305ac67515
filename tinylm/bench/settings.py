"""Settings of the benches and seeds, and the length of the benches' prompts.

Imports no torch, so `tinylm check` reads params.yaml fast.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tinylm.base.config import read_section, setting

PROMPT_TOKENS = 5  # length of each prompt


@dataclass(frozen=True, kw_only=True)
class BeamBenchSettings:
    """Section `beam_bench`.

    cache: decode with the KV cache. stop_at_eos: end timed texts at <eos>. length_penalty: alpha
    in beam search's score, log_prob / length ** alpha.
    """

    widths: tuple[int, ...] = setting(low=1, high=100_000, length=1)
    prompts: int = setting(low=1, high=100_000)
    new_tokens: int = setting(low=1, high=100_000)
    cache: bool = setting()
    stop_at_eos: bool = setting()
    length_penalty: float = setting(low=0.0, high=10.0)


@dataclass(frozen=True, kw_only=True)
class KvBenchSettings:
    """Section `kv_bench`."""

    batch: int = setting(low=1, high=100_000)
    lengths: tuple[int, ...] = setting(low=2, high=100_000, length=1)


@dataclass(frozen=True, kw_only=True)
class AccumSettings:
    """Section `accum_sweep`."""

    settings: tuple[int, ...] = setting(low=1, high=100_000, length=1)
    batch_size: int = setting(low=1, high=1_000_000)
    stories: int | None = setting(low=1)
    tokens: int = setting(low=1)

    def problems(self) -> list[str]:
        """Rules between fields: each setting divides the largest, so all end at the same token."""
        largest = max(self.settings)
        if any(largest % number for number in self.settings):
            expected = f"divisors of the largest, {largest}"
            return [f"settings: expected {expected}, got {list(self.settings)}"]
        return []


@dataclass(frozen=True, kw_only=True)
class CkptBenchSettings:
    """Section `ckpt_bench`."""

    updates: int = setting(low=1, high=100_000)
    batch_size: int = setting(low=1, high=1_000_000)


@dataclass(frozen=True, kw_only=True)
class SeedSettings:
    """Section `seeds`: the seeds that are trained in addition to `train.seed`."""

    more: tuple[int, ...] = setting(low=0)

    def problems(self) -> list[str]:
        """Rules between the fields."""
        if len(set(self.more)) < len(self.more):
            return [f"more: expected different seeds, got {list(self.more)}"]
        return []


def length_penalty(params: Mapping[str, Any]) -> float:
    """The length penalty of every beam search, from section beam_bench."""
    return read_section(params, "beam_bench", BeamBenchSettings).length_penalty
