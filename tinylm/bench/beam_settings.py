"""Section `beam_bench`. Light: params.yaml is checked without torch."""

import dataclasses

from tinylm.base.config import setting


@dataclasses.dataclass(frozen=True, kw_only=True)
class BeamBenchSettings:
    """Section `beam_bench`. cache: decode with it; stop_at_eos: of the timed runs, texts are always ended by <eos>."""

    widths: tuple[int, ...] = setting(low=1, high=100_000, length=1)
    prompts: int = setting(low=1, high=100_000)
    prompt_tokens: int = setting(low=1, high=100_000)
    new_tokens: int = setting(low=1, high=100_000)
    cache: bool = setting()
    stop_at_eos: bool = setting()
    repeats: int = setting(low=1, high=1000)
