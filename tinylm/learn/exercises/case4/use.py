"""Logits of the cached loop compared with those of the whole window, at each step."""

import pandas as pd
import torch

from tinylm.base import paths
from tinylm.model.checkpoint import load_model
from tinylm.vocab.open_tokenizer import open_tokenizer

NEW = 260


class _Model:
    def __init__(self, model):
        self.model = model
        self.calls = []

    def _logits(self, ids, positions):
        with torch.no_grad():
            hidden = self.model.hidden_states(
                torch.tensor([ids]), torch.tensor([positions]), self.cache
            )
            logits = self.model.logits(hidden[:, -1])[0]
        logits[[0, 1, 2, 3]] = float("-inf")
        self.calls.append(logits)
        return logits.tolist()

    def fill(self, ids):
        self.cache = self.model.new_cache(1)
        return self._logits(ids, list(range(len(ids))))

    def step(self, token, position):
        return self._logits([token], [position])


def greedy(model, ids, count, context):
    """Our own loop."""
    start = 0
    for number in range(count):
        if len(ids) - start > context:
            start += context // 2
            logits = model.fill(ids[start:])
        else:
            logits = model.step(ids[-1], len(ids) - 1 - start) if number else model.fill(ids)
        ids = [*ids, max(range(len(logits)), key=logits.__getitem__)]
    return ids


def run(updates):
    model, _ = load_model(paths.MODELS)
    tokenizer = open_tokenizer(paths.TOKENIZER)
    context = model.settings.context
    prompt = tokenizer.encode_prompt("once upon a time", "the prompt")
    watched = _Model(model)
    count = max(NEW, context + 10)  # the bug shows only where the window has moved
    ids = greedy(watched, prompt, count, context)
    differences = []
    start = 0
    for number in range(count):
        length = len(prompt) + number
        if length - start > context:
            start += context // 2
        with torch.no_grad():
            whole = model(torch.tensor([ids[start:length]]))[0, -1]
        difference = (watched.calls[number] - whole)[4:].abs().max().item()
        differences.append(round(difference, 3))  # the last digits are rounding
    return pd.DataFrame({"logit_difference": differences}), [tokenizer.decode(ids)]


def replacements(student):
    return {"plan.greedy": student.greedy}
