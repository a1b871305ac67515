import math

import numpy as np
import pytest
import torch

from tinylm.decoding.settings import DecodeSettings
from tinylm.scoring.continuations import EvaluateSettings, continue_stories, summarise, token_log_probs
from tinylm.text.prompts import choose_prompts
from tinylm.text.token_store import TokenStore

DECODE = DecodeSettings(1.0, 0, 1.0, 1.0, "half", 0.0, 5)
SETTINGS = EvaluateSettings(3, 2, 9, "cut", 3, 1, 2, 200, 1)


@pytest.mark.parametrize("slide", ["half", "one"])
@pytest.mark.parametrize(("length", "first"), [(5, 1), (13, 4), (14, 13), (31, 2), (40, 39)])
def test_token_log_probs_equal_one_window_at_a_time(model, slide, length, first):
    ids = torch.randint(4, model.vocab_size, (length,), generator=torch.Generator().manual_seed(length)).tolist()
    step = model.settings.context // 2 if slide == "half" else 1
    expected = []
    for n in range(first, length):
        start = 0
        while n - start > model.settings.context:
            start += step
        logits = model(torch.tensor([ids[start:n]])).detach()[0, -1].double()
        expected.append(float(torch.log_softmax(logits, 0)[ids[n]]))
    assert token_log_probs(model, ids, first, slide) == pytest.approx(expected, abs=1e-5)


def test_token_log_probs_of_nothing(model):
    assert token_log_probs(model, [0, 4], 2, "half").shape == (0,)


@pytest.fixture
def rows(corpus, model):
    folder, tokenizer = corpus
    prompts = choose_prompts(TokenStore(folder / "tokens", "evaluation"), 3, 2, 9)
    return prompts, continue_stories(model, tokenizer, prompts, SETTINGS, DECODE)


def test_rows_hold_texts_and_the_models_own_perplexities(corpus, model, rows):
    _, tokenizer = corpus
    prompts, found = rows
    assert [row["prompt"] for row in found] == ["the dog", "a cat", "the <unk>"]
    for prompt, row in zip(prompts, found, strict=True):
        ids = [*prompt.ids, *tokenizer.encode(row["continuation"]), *([tokenizer.eos_id] if row["finished"] else [])]
        own = -token_log_probs(model, ids, len(prompt.ids), "half")
        assert row["tokens"] == len(own) <= 9
        assert row["perplexity"] == pytest.approx(math.exp(own.mean()), rel=1e-4)
        true = -token_log_probs(model, [*prompt.ids, *prompt.reference], len(prompt.ids), "half")
        assert row["reference_perplexity"] == pytest.approx(math.exp(true.mean()), rel=1e-6)
        assert not {"<unk>", "<sos>", "<pad>"} & set(row["continuation"].split())


def test_summary_has_intervals_round_each_value(rows):
    _, found = rows
    figures, sentences = summarise(found, SETTINGS)
    assert figures["count"] == len(sentences) == 3
    for name in ("continuation_perplexity", "reference_perplexity", "bleu1", "sentence_bleu"):
        assert figures[name]["low"] <= figures[name]["value"] <= figures[name]["high"]
    nats, tokens = (sum(row[name] for row in found) for name in ("nats", "tokens"))
    assert figures["continuation_perplexity"]["value"] == pytest.approx(math.exp(nats / tokens))


def test_summary_of_perfect_continuations_is_bleu_one(rows):
    perfect = [row | {"continuation": "a b c d e f", "reference": "a b c d e f"} for row in rows[1]]
    figures, sentences = summarise(perfect, SETTINGS)
    assert [figures[f"bleu{n}"]["value"] for n in (1, 2, 3, 4)] == pytest.approx([1.0] * 4)
    assert np.mean(sentences) == pytest.approx(1.0)
    assert figures["brevity_penalty"] == 1.0
