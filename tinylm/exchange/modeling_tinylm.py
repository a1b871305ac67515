"""TinyLM for the library `transformers`; shipped with an export, see `remote_code.py`.

The model itself is in transformer.py. There is no KV cache here: `generate()` computes the whole
text again for every new token.
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

UNSCORED = -100  # the label that transformers ignores


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
        position_ids: Tensor | None = None,
        logits_to_keep: int = 0,
        num_items_in_batch: Tensor | int | None = None,
        **_: Any,
    ) -> CausalLMOutput:
        """Logits (B, T, V) of the next token; with labels (B, T), also the mean loss in nats.

        attention_mask (B, T): 0 for padding at either end of a row, which is never scored.
        position_ids (B, T): count from 0 in each text of a row; by default, a row is one text.
        logits_to_keep: only this many last positions have logits; 0 for all. num_items_in_batch:
        divisor of the summed loss, by default the number of scored labels; Trainer passes that of all
        batches of an update. Raises ValueError for texts longer than the context and other position_ids.
        """
        if position_ids is not None:
            position_ids = position_ids.expand_as(input_ids)
        hidden = self._hidden_states(input_ids, attention_mask, position_ids)
        if logits_to_keep > 0:
            hidden = hidden[:, -logits_to_keep:]
        logits = self.tinylm.logits(hidden)
        loss = None
        if labels is not None:
            loss = _loss(logits, _scored(labels, attention_mask, position_ids), num_items_in_batch)
        return CausalLMOutput(loss=loss, logits=logits)

    def _hidden_states(
        self, ids: Tensor, attention_mask: Tensor | None, position_ids: Tensor | None
    ) -> Tensor:
        """Hidden states after the last norm.  (B, T) -> (B, T, D)

        Each text, and each stretch of padding, becomes a row of its own, so that its tokens attend to
        no others. Results are then put back in place.
        """
        if attention_mask is None and position_ids is None:
            return self.tinylm.hidden_states(ids)
        is_text = torch.ones_like(ids) if attention_mask is None else attention_mask
        starts = _starts(is_text.bool(), position_ids).flatten()
        row = starts.cumsum(0) - 1  # of each token
        column = torch.arange(len(row), device=ids.device) - starts.nonzero()[:, 0][row]
        if position_ids is not None:
            _check_positions(position_ids[is_text.bool()], column.view_as(ids)[is_text.bool()])
        texts = ids.new_zeros(int(row[-1]) + 1, int(column.max()) + 1)
        texts[row, column] = ids.flatten()
        return self.tinylm.hidden_states(texts)[row, column].unflatten(0, ids.shape)


def _starts(is_text: Tensor, position_ids: Tensor | None) -> Tensor:
    """Where a text or a stretch of padding begins.  (B, T) bool"""
    starts = torch.ones_like(is_text)
    starts[:, 1:] = is_text[:, 1:] != is_text[:, :-1]
    if position_ids is not None:
        starts |= is_text & (position_ids == 0)
    return starts


def _check_positions(found: Tensor, expected: Tensor) -> None:
    """Raise ValueError unless the position of each token is that in its text."""
    is_wrong = found != expected
    if is_wrong.any():
        raise ValueError(
            f"position_ids: expected {int(expected[is_wrong][0])}, counted from 0 in each text, "
            f"got {int(found[is_wrong][0])}"
        )


def _scored(labels: Tensor, attention_mask: Tensor | None, position_ids: Tensor | None) -> Tensor:
    """Label of the token after each position.  (B, T) -> (B, T - 1)

    UNSCORED beside padding, and for the first token of a text, which nothing predicts.
    """
    targets = labels[:, 1:]
    if attention_mask is not None:
        is_text = attention_mask.bool()
        targets = targets.masked_fill(~(is_text[:, 1:] & is_text[:, :-1]), UNSCORED)
    if position_ids is not None:
        targets = targets.masked_fill(position_ids[:, 1:] == 0, UNSCORED)
    return targets


def _loss(logits: Tensor, targets: Tensor, count: Tensor | int | None) -> Tensor:
    """Summed nats of the targets (B, T - 1) / `count`, by default their number.  logits (B, T, V)"""
    scores = logits[:, :-1].flatten(0, 1).float()
    nats = F.cross_entropy(scores, targets.flatten(), ignore_index=UNSCORED, reduction="sum")
    return nats / ((targets != UNSCORED).sum() if count is None else count)
