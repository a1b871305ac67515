import torch

from tinylm.decoding import filters


def probabilities(logits, temperature, top_k, top_p):
    result = torch.zeros_like(logits)
    if temperature == 0:
        result[filters.stable_topk(logits[None], 1)[1][0]] = 1.0
        return result
    scores, ids = filters.top_k(logits[None], top_k)
    scores = filters.top_p(filters.scale(scores, temperature), top_p)
    result[ids[0]] = scores[0].softmax(-1)
    return result


def draw(p, u):
    scores = p.double().log()
    scores -= scores.max()
    return int(filters.sample_index(scores[None], torch.tensor([u], dtype=torch.float64)))
