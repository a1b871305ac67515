from typing import Any


def greedy(model: Any, ids: list[int], count: int, context: int) -> list[int]:
    """ids with `count` more tokens, each the likeliest; at most `context` tokens are in the cache."""
    start = 0  # the first token of the window
    logits = model.fill(ids)
    for _ in range(count):
        best = max(range(len(logits)), key=logits.__getitem__)
        ids = [*ids, best]
        if len(ids) - start > context:
            start += context // 2
            logits = model.fill(ids[-(context // 2) :])
        else:
            logits = model.step(ids[-1], len(ids) - 1 - start)
    return ids
