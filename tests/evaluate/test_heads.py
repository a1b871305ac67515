"""All that is measured of heads, on the storybook as the generator tells it and on other text."""

import dataclasses

import numpy as np
import pytest
import torch

from tinylm.evaluate.continuations import EvaluateSettings
from tinylm.evaluate.head_distance import PASSAGES
from tinylm.evaluate.head_roles import ROLES
from tinylm.evaluate.heads import heads_over_training, measure_heads
from tinylm.model.transformer import TinyLM
from tinylm.storybook.corpus import generate, normalise
from tinylm.vocab.token_store import TokenStore, write_store

CONTEXT = 61
SETTINGS = {
    "stories": 1, "prompts": "starts", "prompt_tokens": 1, "new_tokens": 1, "reference": "cut", "stop_at_eos": True,
    "greedy": 0, "ngram_order": 1, "attention_sentences": 1, "tendency_sentences": 30, "ablation_stories": 5,
    "bootstrap": 50, "seed": 1
}  # fmt: skip


class Words:
    """Words of lower case without marks; ids 0 to 3 are <sos> <eos> <pad> <unk>."""

    specials, unk_id, sos_id = frozenset({0, 1, 2}), 3, 0

    def __init__(self, texts):
        words = sorted({word for text in texts for word in normalise(text).split()})
        self.tokens = ["<sos>", "<eos>", "<pad>", "<unk>", *words]

    def encode_story(self, text):
        return [0, *(self.tokens.index(word) for word in normalise(text).split()), 1]

    def decode(self, ids):
        return " ".join(self.tokens[i] for i in ids if i not in self.specials)


def prepared(texts, model, folder):
    """(model, tokenizer, store, vectors, settings) over these stories."""
    tokenizer = Words(texts)
    write_store(folder, "evaluation", map(tokenizer.encode_story, texts), len(tokenizer.tokens))
    torch.manual_seed(3)
    vectors = torch.randn(len(tokenizer.tokens), 11)
    own = TinyLM(dataclasses.replace(model.settings, context=CONTEXT), vectors).eval()
    return (
        own,
        tokenizer,
        TokenStore(folder, "evaluation"),
        vectors.numpy(),
        EvaluateSettings(**SETTINGS),
    )


def measure(texts, model, folder):
    return measure_heads(*prepared(texts, model, folder))


def test_the_storybook_is_told_by_its_generator(model, tmp_path):
    found = measure([story.text for story in generate(1, 40, 3)[1]], model, tmp_path)
    figures = found.figures
    assert (figures["passages"], figures["told_by_generator"], figures["classified_share"]) == (
        30,
        30,
        1.0,
    )
    assert figures["tagger"]["words"] > 1000
    assert (
        0.95 < figures["tagger"]["right"] < 1.0
    )  # some words of the storybook have several classes
    assert figures["tagger"]["unknown"] < 0.02
    assert [row["layer"] for row in figures["logit_lens"]] == [0, 1, 2]
    assert len(figures["induction"]["heads"]) == 6
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
        assert best["score"] - best["baseline"] == max(
            row["score"] - row["baseline"] for row in rows
        )


def test_other_text_is_looked_up(model, tmp_path):
    texts = ["the old dog saw a xylograph and the red bird sang to the dog"] * 40
    figures = measure(texts, model, tmp_path).figures
    assert figures["told_by_generator"] == 0
    assert figures["tagger"] is None
    assert figures["classified_share"] == pytest.approx(13 / 14)
    assert (
        figures["roles"]["article-noun"]["positions"] == 2 * 30
    )  # "the old dog" is alike everywhere: nothing compares


def test_similar_words_are_similar_in_the_vectors_of_before_training(model, tmp_path):
    own, tokenizer, store, vectors, settings = prepared(
        [s.text for s in generate(1, 40, 3)[1]], model, tmp_path
    )
    apart = np.eye(len(vectors), dtype=np.float32)
    found = measure_heads(own, tokenizer, store, apart, settings).figures
    assert "similar words" in found["not_measured"]
    assert (
        "similar words" in measure_heads(own, tokenizer, store, vectors, settings).figures["roles"]
    )


def test_each_moment_of_training_is_measured_as_the_last_one_is(model, tmp_path):
    own, tokenizer, store, vectors, settings = prepared(
        [s.text for s in generate(1, 60, 3)[1]], model, tmp_path
    )
    other = TinyLM(own.settings, torch.randn(len(vectors), 11)).eval()
    rows = heads_over_training([(0.0, other), (None, own)], tokenizer, store, vectors, settings)
    assert [(row["epochs"], row["layer"], row["head"]) for row in rows] == [
        (epochs, layer, head) for epochs in (0.0, None) for layer in (1, 2) for head in (1, 2, 3)
    ]
    (own_rows, other_rows) = (
        [row for row in rows if row["epochs"] == epochs] for epochs in (None, 0.0)
    )
    fewer = dataclasses.replace(settings, tendency_sentences=PASSAGES)
    whole = measure_heads(own, tokenizer, store, vectors, fewer)
    for row, tendency in zip(own_rows, whole.tendencies, strict=True):
        assert row["entropy_nats"] == tendency["entropy_nats"]
        role = next(
            r for r in whole.roles if (r["layer"], r["head"]) == (row["layer"], row["head"])
        )
        assert row[role["role"]] == role["score"] - role["baseline"]
    first = [pair for pair in whole.distances if pair["layer"] == pair["other_layer"] == 1]
    mean = np.mean([pair["bits"] for pair in first if 1 in (pair["head"], pair["other_head"])])
    assert own_rows[0]["bits_from_layer"] == pytest.approx(mean)
    assert [row["entropy_nats"] for row in other_rows] != [row["entropy_nats"] for row in own_rows]


def test_measuring_twice_gives_the_same(model, tmp_path):
    texts = [story.text for story in generate(1, 35, 3)[1]]
    first, second = (measure(texts, model, tmp_path / name) for name in "ab")
    assert first == second
    assert np.isfinite([row["score"] for row in first.roles]).all()
