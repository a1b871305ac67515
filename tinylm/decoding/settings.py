"""Settings of decoding."""

import dataclasses

from tinylm.config import setting


@dataclasses.dataclass(frozen=True)
class DecodeSettings:
    """Section `decode`: how the next token is chosen. Temperature 0 is greedy; length_penalty is for beams only."""

    temperature: float = setting(low=0.0, high=1e6)
    top_k: int = setting(low=0, high=1_000_000_000)
    top_p: float = setting(above=0.0, high=1.0)
    repetition_penalty: float = setting(low=1.0, high=1000.0)
    slide: str = setting(choices=("half", "one"))
    length_penalty: float = setting(low=0.0, high=10.0)
    seed: int = setting(low=0)
