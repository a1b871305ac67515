"""Settings of decoding."""

import dataclasses

from tinylm.base.config import setting

FALLBACK_TOP_P = 0.9  # the nucleus of a row whose top_k tokens hold less than fallback_mass


@dataclasses.dataclass(frozen=True, kw_only=True)
class DecodeSettings:
    """Section `decode`: how the next token is drawn. The defaults sample the model's distribution.

    Temperature 0 is greedy. `filters.choose` applies them. repetition_window: only a row's
    latest N tokens, with the prompt's, are penalised; null: all.
    """

    temperature: float = setting(1.0, low=0.0, high=1e6)
    top_k: int = setting(0, low=0, high=1_000_000_000)
    top_p: float = setting(1.0, above=0.0, high=1.0)
    min_p: float = setting(0.0, low=0.0, high=1.0)
    eta: float = setting(0.0, low=0.0, high=0.5)
    fallback_mass: float = setting(0.0, low=0.0, high=1.0)
    repetition_penalty: float = setting(1.0, low=1.0, high=1000.0)
    repetition_window: int | None = setting(None, low=1, high=1_000_000)
    seed: int = setting(1, low=0)

    def greedy(self) -> "DecodeSettings":
        """These settings for greedy decoding, without a repetition penalty."""
        return dataclasses.replace(self, temperature=0.0, repetition_penalty=1.0)

    def in_words(self) -> str:
        """A phrase that describes the settings in effect."""
        parts = ["greedy"]
        if self.temperature:
            parts = [f"sampled at temperature {self.temperature:g}"]
            if self.top_k:
                parts.append(f"top-k {self.top_k}")
            if self.top_k and self.fallback_mass:
                parts.append(
                    f"nucleus {FALLBACK_TOP_P:g} where these hold less than {self.fallback_mass:g}"
                )
            if self.top_p < 1.0:
                parts.append(f"top-p {self.top_p:g}")
            if self.min_p:
                parts.append(f"min-p {self.min_p:g}")
            if self.eta:
                parts.append(f"eta {self.eta:g}")
        if self.repetition_penalty != 1.0:
            reach = f" over {self.repetition_window} tokens" if self.repetition_window else ""
            parts.append(f"repetition penalty {self.repetition_penalty:g}{reach}")
        return ", ".join(parts)


@dataclasses.dataclass(frozen=True, kw_only=True)
class BeamSettings:
    """Settings of beam search.

    width: the beams of a prompt. length_penalty: alpha in the score, log_prob / length ** alpha.
    n_best: how many hypotheses are returned for each prompt.
    """

    width: int
    length_penalty: float = 0.0
    n_best: int = 1


@dataclasses.dataclass(frozen=True, kw_only=True)
class CacheSettings:
    """Section `cache`.

    slide: which tokens leave the window once a text is longer than the context. half: the older
    half, and the cache is filled again; one: the oldest token.
    """

    slide: str = setting("half", choices=("half", "one"))
