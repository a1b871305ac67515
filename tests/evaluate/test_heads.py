"""All measures of heads, on the storybook with its generator's word classes and on other text."""

import dataclasses

import torch

from tests.support.small import EVALUATE
from tinylm.evaluate.head_roles import ROLES
from tinylm.evaluate.heads import PASSAGES, heads_over_training, measure_heads
from tinylm.model.transformer import TinyLM
from tinylm.storybook.corpus import generate, normalise
from tinylm.vocab.token_store import TokenStore, write_store

CONTEXT = 61
SETTINGS = dataclasses.replace(EVALUATE, tendency_sentences=30, ablation_stories=5, bootstrap=50)
HEADS = [(layer, head) for layer in (1, 2) for head in (1, 2, 3)]


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
    """(model, tokenizer, store, vectors) over these stories."""
    tokenizer = Words(texts)
    write_store(folder, "evaluation", map(tokenizer.encode_story, texts), len(tokenizer.tokens))
    torch.manual_seed(3)
    vectors = torch.randn(len(tokenizer.tokens), 11)
    wide = TinyLM(dataclasses.replace(model.settings, context=CONTEXT), vectors).eval()
    return wide, tokenizer, TokenStore(folder, "evaluation"), vectors.numpy()


def storybook(count):
    return [story.text for story in generate(1, count, 3)[1]]


def places(rows):
    return [(row["layer"], row["head"]) for row in rows]


def test_the_storybooks_word_classes_come_from_its_generator(model, tmp_path):
    metrics, tables = measure_heads(*prepared(storybook(40), model, tmp_path), SETTINGS)
    assert metrics["passages"] == 30
    assert [row["layer"] for row in metrics["logit_lens"]] == [0, 1, 2]
    assert len(metrics["induction"]["heads"]) == 6
    assert set(metrics["not_measured"]) == {"punctuation", "sentence start"}
    assert set(metrics["roles"]) == set(ROLES) - set(metrics["not_measured"])
    assert metrics["ablation"]["stories"] == 5
    assert places(tables["ablation"]) == HEADS
    for role, best in metrics["roles"].items():
        rows = [row for row in tables["roles"] if row["role"] == role]
        assert places(rows) == HEADS
        gains = [row["score"] - row["baseline"] for row in rows]
        assert best["score"] - best["baseline"] == max(gains)


def test_words_of_other_text_are_looked_up(model, tmp_path):
    texts = ["the old dog saw a xylograph and the red bird sang to the dog"] * 40
    metrics, _ = measure_heads(*prepared(texts, model, tmp_path), SETTINGS)
    # "the old dog" is alike everywhere: nothing compares
    assert metrics["roles"]["article-noun"]["positions"] == 2 * 30


def test_each_checkpoint_is_measured_as_the_trained_model_is(model, tmp_path):
    wide, tokenizer, store, vectors = prepared(storybook(60), model, tmp_path)
    other = TinyLM(wide.settings, torch.randn(len(vectors), 11)).eval()
    checkpoints = [(0.0, other), (None, wide)]
    rows = heads_over_training(checkpoints, tokenizer, store, vectors, SETTINGS)
    assert [row["epochs"] for row in rows] == [0.0] * 6 + [None] * 6
    assert places(rows) == HEADS * 2
    fewer = dataclasses.replace(SETTINGS, tendency_sentences=PASSAGES)
    _, tables = measure_heads(wide, tokenizer, store, vectors, fewer)
    for role in tables["roles"]:
        row = rows[6 + HEADS.index((role["layer"], role["head"]))]
        assert row[role["role"]] == role["score"] - role["baseline"]
    role = tables["roles"][0]["role"]
    assert rows[0][role] != rows[6][role]
