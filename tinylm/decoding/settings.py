"""Settings of decoding."""

import dataclasses

from tinylm.base.config import setting


@dataclasses.dataclass(frozen=True, kw_only=True)
class DecodeSettings:
    """Section `decode`: how the next token is chosen. The defaults sample the model's distribution.

    Temperature 0 is greedy; length_penalty is for beams only. `sampling.choose` defines the filters.
    repetition_window: only a row's latest N tokens, with the prompt's, are penalised; null: all.
    """

    temperature: float = setting(1.0, low=0.0, high=1e6)
    temperature_end: float | None = setting(None, low=0.0, high=1e6)
    top_k: int = setting(0, low=0, high=1_000_000_000)
    top_p: float = setting(1.0, above=0.0, high=1.0)
    fallback_mass: float = setting(0.0, low=0.0, high=1.0)
    fallback_top_p: float = setting(0.9, above=0.0, high=1.0)
    repetition_penalty: float = setting(1.0, low=1.0, high=1000.0)
    repetition_window: int | None = setting(None, low=1, high=1_000_000)
    slide: str = setting("half", choices=("half", "one"))
    length_penalty: float = setting(0.0, low=0.0, high=10.0)
    seed: int = setting(1, low=0)
    step: str = setting("plain", choices=("plain", "compiled", "auto"))

    def temperature_at(self, step: int, steps: int) -> float:
        """Temperature of new token number `step`, counted from 0, of at most `steps`.

        T + (T_end - T) * i / (n - 1) for i = step and n = steps: from T at the first token to T_end
        at the n-th. Always T if there is no T_end or n = 1.
        """
        if self.temperature_end is None or steps < 2:
            return self.temperature
        share = step / (steps - 1)
        return (1.0 - share) * self.temperature + share * self.temperature_end

    def greedy(self) -> "DecodeSettings":
        """These settings for greedy decoding, without a repetition penalty."""
        return dataclasses.replace(
            self, temperature=0.0, temperature_end=None, repetition_penalty=1.0
        )

    def in_words(self) -> str:
        """A phrase that describes the settings in effect."""
        parts = ["greedy"]
        if self.temperature or self.temperature_end:
            end = "" if self.temperature_end is None else f" going to {self.temperature_end:g}"
            parts = [f"sampled at temperature {self.temperature:g}{end}"]
            if self.top_k:
                parts.append(f"top-k {self.top_k}")
            if self.top_k and self.fallback_mass:
                parts.append(
                    f"nucleus {self.fallback_top_p:g} where these hold less than {self.fallback_mass:g}"
                )
            if self.top_p < 1.0:
                parts.append(f"top-p {self.top_p:g}")
        if self.repetition_penalty != 1.0:
            reach = f" over {self.repetition_window} tokens" if self.repetition_window else ""
            parts.append(f"repetition penalty {self.repetition_penalty:g}{reach}")
        return ", ".join(parts)
