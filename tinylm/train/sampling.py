"""The sample that training prints on its way: plain sampling, without the cache.

`tinylm.decoding` has all ways of sampling. This one stands by itself, so that editing those does
not retrain the model.
"""

import torch

from tinylm.model.transformer import TinyLM

TEMPERATURE = 0.7
TOP_K = 40
NEW_TOKENS = 60


@torch.no_grad()
def sample(model: TinyLM, ids: list[int], end: int | None, seed: int) -> list[int]:
    """The ids with at most `NEW_TOKENS` more, each drawn from the `TOP_K` likeliest.

    The text ends before the token `end`. The model's mode is restored.
    """
    was_training = model.training
    model.eval()
    generator = torch.Generator().manual_seed(seed)
    for _ in range(NEW_TOKENS):
        window = torch.tensor([ids[-model.settings.context :]], device=model.embedding.device)
        logits = model(window)[0, -1].float().cpu() / TEMPERATURE
        likeliest = logits.topk(min(TOP_K, len(logits)))
        drawn = torch.multinomial(likeliest.values.softmax(0), 1, generator=generator)
        token = int(likeliest.indices[drawn])
        if token == end:
            break
        ids = [*ids, token]
    model.train(was_training)
    return ids
