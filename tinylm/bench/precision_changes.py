"""What a lower precision changes: shares of greedy tokens, perplexity."""

import dataclasses
from collections.abc import Iterable, Sequence

import torch

from tinylm.evaluate.scoring import perplexity
from tinylm.kernels.decoding.decoder import ModelDecoder, prepare
from tinylm.model.transformer import TinyLM


@dataclasses.dataclass(frozen=True)
class Changes:
    """tokens: how many were predicted, each from the text before it; changed: how many have another likeliest token
    than in plain fp32; nats before (plain fp32) and after: of all these tokens."""

    precision: str
    tokens: int
    changed: int
    nats_before: float
    nats_after: float

    def figures(self) -> dict[str, float]:
        """For a metrics file; empty if no token was predicted."""
        if not self.tokens:
            return {}
        return {
            "tokens": self.tokens,
            "changed_greedy_share": self.changed / self.tokens,
            "perplexity_fp32": perplexity(self.nats_before, self.tokens),
            "perplexity": perplexity(self.nats_after, self.tokens),
        }

    def in_words(self) -> str:
        """One line for the user."""
        found = self.figures()
        if not found:
            return f"{self.precision}: no token to compare with fp32"
        return (
            f"{self.precision}: {found['changed_greedy_share']:.2%} of the likeliest tokens differ from fp32's, "
            f"perplexity {found['perplexity_fp32']:#.4g} -> {found['perplexity']:#.4g} ({self.tokens} tokens)"
        )


def changes(model: TinyLM, decoder: ModelDecoder, texts: Iterable[Sequence[int]]) -> Changes:
    """Compare a decoder with the plain model in fp32 on texts, cut into windows of the context."""
    plain = prepare(model, "fp32", "plain")
    context, tokens, changed, nats = model.settings.context, 0, 0, [0.0, 0.0]
    for ids in texts:
        for start in range(0, len(ids) - 1, context):
            window = ids[start : start + context + 1]
            targets = torch.tensor(window[1:], device=model.embedding.device)[:, None]
            both = [each.logits(window[:-1]).double().log_softmax(-1) for each in (plain, decoder)]
            tokens += len(targets)
            changed += int((both[0].argmax(-1) != both[1].argmax(-1)).sum())
            nats = [
                sum_ - float(each.gather(1, targets).sum())
                for sum_, each in zip(nats, both, strict=True)
            ]
    return Changes(decoder.precision, tokens, changed, *nats)
