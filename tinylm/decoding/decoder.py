"""How to decode with a model: the rules that all prompts and methods share."""

import dataclasses
from collections.abc import Sequence

import torch
from torch import Tensor

from tinylm.base.config import InputError
from tinylm.decoding.session import Session, Step
from tinylm.model.transformer import TinyLM


@dataclasses.dataclass(frozen=True, kw_only=True)
class Decoder:
    """A model and the rules by which it is decoded.

    eos_id: ends a text; None if the vocabulary has no <eos>. banned: ids that are never generated.
    slide: which tokens leave a full window, see `CacheSettings`. use_cache: whether keys and values
    of earlier tokens are kept. step: computes the logits, by default with the model's forward pass.
    Raises InputError if `banned` leaves no id, or has one outside the vocabulary.
    """

    model: TinyLM
    eos_id: int | None
    banned: Sequence[int]
    slide: str = "half"
    use_cache: bool = True
    step: Step | None = None

    def __post_init__(self) -> None:
        size = self.model.vocab_size
        banned = set(self.banned)
        is_outside = any(not 0 <= token < size for token in banned)
        if is_outside or len(banned) >= size:
            raise InputError(
                f"banned: expected ids from 0 to {size - 1}, but not all of them, got {sorted(banned)}"
            )

    def session(self, prompts: Sequence[Sequence[int]], new_tokens: int) -> Session:
        """The prompts as rows that grow by at most `new_tokens` tokens."""
        return Session(
            self.model,
            prompts,
            slide=self.slide,
            use_cache=self.use_cache,
            new_tokens=new_tokens,
            step=self.step,
        )

    def banned_tensor(self) -> Tensor:
        """The banned ids on the model's device, int64."""
        device = self.model.embedding.device
        return torch.tensor(list(self.banned), dtype=torch.int64, device=device)
