"""All that is measured of heads, on the storybook as the generator tells it and on other text."""

import dataclasses

import numpy as np
import pytest
import torch

from tinylm.model.transformer import TinyLM
from tinylm.scoring.continuations import EvaluateSettings
from tinylm.scoring.head_roles import ROLES
from tinylm.scoring.heads import measure_heads
from tinylm.text.storybook.corpus import generate, normalise
from tinylm.text.tokens.token_store import TokenStore, write_store

CONTEXT = 61
SETTINGS = {
    "stories": 1,
    "prompts": "starts",
    "prompt_tokens": 1,
    "new_tokens": 1,
    "reference": "cut",
    "stop_at_eos": True,
    "greedy": 0,
    "ngram_order": 1,
    "attention_sentences": 1,
    "tendency_sentences": 30,
    "ablation_stories": 5,
    "bootstrap": 50,
    "seed": 1,
}


class Words:
    """Words of lower case without marks; ids 0 to 3 are <sos> <eos> <pad> <unk>."""

    specials, unk_id = frozenset({0, 1, 2}), 3

    def __init__(self, texts):
        words = sorted({word for text in texts for word in normalise(text).split()})
        self.tokens = ["<sos>", "<eos>", "<pad>", "<unk>", *words]

    def encode_story(self, text):
        return [0, *(self.tokens.index(word) for word in normalise(text).split()), 1]

    def decode(self, ids):
        return " ".join(self.tokens[i] for i in ids if i not in self.specials)


def measure(texts, model, folder):
    tokenizer = Words(texts)
    write_store(folder, "evaluation", map(tokenizer.encode_story, texts), len(tokenizer.tokens))
    torch.manual_seed(3)
    own = TinyLM(dataclasses.replace(model.settings, context=CONTEXT), torch.randn(len(tokenizer.tokens), 11)).eval()
    return measure_heads(own, tokenizer, TokenStore(folder, "evaluation"), EvaluateSettings(**SETTINGS))


def test_the_storybook_is_told_by_its_generator(model, tmp_path):
    found = measure([story.text for story in generate(1, 40, 3)[1]], model, tmp_path)
    figures = found.figures
    assert (figures["passages"], figures["told_by_generator"], figures["classified_share"]) == (30, 30, 1.0)
    assert set(figures["not_measured"]) == {"punctuation", "sentence start"}
    assert set(figures["roles"]) == set(ROLES) - set(figures["not_measured"])
    assert set(figures["ablation"]) == {"stories", "nats_per_token", "largest", "idle"}
    assert figures["ablation"]["stories"] == 5
    places = [(layer, head) for layer in (1, 2) for head in (1, 2, 3)]
    assert [(row["layer"], row["head"]) for row in found.tendencies] == places
    assert [(row["layer"], row["head"]) for row in found.ablation] == places
    for role, best in figures["roles"].items():
        rows = [row for row in found.roles if row["role"] == role]
        assert [(row["layer"], row["head"]) for row in rows] == places
        assert best["score"] - best["baseline"] == max(row["score"] - row["baseline"] for row in rows)


def test_other_text_is_looked_up(model, tmp_path):
    texts = ["the old dog saw a xylograph and the red bird sang to the dog"] * 40
    figures = measure(texts, model, tmp_path).figures
    assert figures["told_by_generator"] == 0
    assert figures["classified_share"] == pytest.approx(13 / 14)
    assert (
        figures["roles"]["article-noun"]["positions"] == 2 * 30
    )  # "the old dog" is alike everywhere: nothing compares


def test_measuring_twice_gives_the_same(model, tmp_path):
    texts = [story.text for story in generate(1, 35, 3)[1]]
    first, second = (measure(texts, model, tmp_path / name) for name in "ab")
    assert first == second
    assert np.isfinite([row["score"] for row in first.roles]).all()
