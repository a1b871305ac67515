import math

import pytest
import torch

from tinylm.scoring.bits_per_byte import Spelling
from tinylm.scoring.continuations import EvaluateSettings
from tinylm.scoring.split_score import score_split
from tinylm.text.token_store import TokenStore

SETTINGS = EvaluateSettings(3, 2, 9, "cut", 3, 1, 2, 200, 1)


def plain_nats(model, windows):
    """Loss of each window by log-softmax, one token at a time."""
    total = 0.0
    for window in windows:
        scores = torch.log_softmax(model(torch.tensor([window[:-1]])).detach()[0].double(), -1)
        total -= float(sum(scores[i, token] for i, token in enumerate(window[1:])))
    return total


@pytest.mark.parametrize("layout", ["stories", "stream"])
def test_perplexity_scores_every_token_once_in_windows_of_the_context(corpus, model, layout):
    folder, tokenizer = corpus
    store, context = TokenStore(folder / "tokens", "evaluation"), model.settings.context
    texts = [store.story(i).tolist() for i in range(len(store))] if layout == "stories" else [store.ids.tolist()]
    windows = [text[s : s + context + 1] for text in texts for s in range(0, len(text) - 1, context)]
    found = score_split(model, tokenizer, store, layout, folder / "stories", SETTINGS)
    nats = plain_nats(model, windows)
    tokens = sum(len(text) - 1 for text in texts)
    assert found["tokens"] == tokens
    assert found["perplexity"] == pytest.approx(math.exp(nats / tokens), rel=1e-5)
    low, high = found["perplexity_interval"]
    assert low <= found["perplexity"] <= high
    assert str(context) in found["protocol"]


def test_bits_per_byte_pays_for_unknown_words(corpus, model):
    folder, tokenizer = corpus
    store = TokenStore(folder / "tokens", "evaluation")
    found = score_split(model, tokenizer, store, "stories", folder / "stories", SETTINGS)
    spelling = Spelling(tokenizer.words[4:])
    spelt = sum(spelling.nats(word) for word in ("then", "zebra", "to"))
    lines = (folder / "stories" / "evaluation.jsonl").read_text().splitlines()
    n_bytes = sum(len(line) - len('{"text": ""}') for line in lines)
    assert found["unknown_share"] == pytest.approx(3 / 32)
    assert found["bytes"] == n_bytes
    nats = found["nats_per_token"] * found["tokens"]
    assert found["bits_per_byte"] == pytest.approx((nats + spelt) / math.log(2) / n_bytes)
