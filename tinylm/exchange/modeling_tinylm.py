"""TinyLM for the library `transformers`; shipped with an export, see `remote_code.py`.

The model itself is in transformer.py. There is no cache of keys and values here: `generate()`
computes the whole text for every new token.
"""

from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F
from transformers import GenerationMixin, PreTrainedModel
from transformers.modeling_outputs import CausalLMOutput

from tinylm.exchange.configuration_tinylm import TinyLMConfig
from tinylm.model.settings import ModelSettings
from tinylm.model.transformer import TinyLM


class TinyLMForCausalLM(PreTrainedModel, GenerationMixin):
    """TinyLM with the inputs and outputs of transformers."""

    config_class = TinyLMConfig

    def __init__(self, config: TinyLMConfig) -> None:
        super().__init__(config)
        settings = ModelSettings(**config.model)
        self.tinylm = TinyLM(settings, torch.randn(config.vocab_size, config.width))
        # from_pretrained fills only what is in the file, so tables of positions are saved too
        for module in self.tinylm.modules():
            module._non_persistent_buffers_set.clear()
        self.post_init()

    def _init_weights(self, module: Any) -> None:
        """Nothing: TinyLM draws its own initial weights."""

    def prepare_inputs_for_generation(  # type: ignore[override]
        self, input_ids: Tensor, attention_mask: Tensor | None = None, **_: Any
    ) -> dict[str, Any]:
        return {"input_ids": input_ids, "attention_mask": attention_mask}

    def forward(
        self,
        input_ids: Tensor,
        attention_mask: Tensor | None = None,
        labels: Tensor | None = None,
        logits_to_keep: int = 0,
        **_: Any,
    ) -> CausalLMOutput:
        """Logits (B, T, V) of the next token; with labels (B, T) the mean loss in nats.

        attention_mask (B, T): 0 for padding, at either end of a row. logits_to_keep: how many of the
        last positions have logits; 0 for all. Raises ValueError for more
        tokens than the context.
        """
        hidden = self._hidden_states(input_ids, attention_mask)
        if logits_to_keep > 0:
            hidden = hidden[:, -logits_to_keep:]
        logits = self.tinylm.logits(hidden)
        loss = None
        if labels is not None:
            scores = logits[:, :-1].flatten(0, 1).float()
            loss = F.cross_entropy(scores, labels[:, 1:].flatten())
        return CausalLMOutput(loss=loss, logits=logits)

    def _hidden_states(self, ids: Tensor, attention_mask: Tensor | None) -> Tensor:
        """Hidden states after the last norm.  (B, T) -> (B, T, D)

        Each row is rotated until its first token is at position 0. No token attends to the padding,
        which is then behind the text. The result is rotated back.
        """
        if attention_mask is None:
            return self.tinylm.hidden_states(ids)
        length = ids.shape[1]
        first = attention_mask.long().argmax(-1, keepdim=True)  # (B, 1)
        columns = torch.arange(length, device=ids.device)
        rotated = ids.gather(1, (columns + first) % length)
        hidden = self.tinylm.hidden_states(rotated)
        return hidden.take_along_dim(((columns - first) % length)[..., None], 1)
