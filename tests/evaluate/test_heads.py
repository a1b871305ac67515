"""All measures of heads, on stories of the storybook."""

import dataclasses
from types import SimpleNamespace

import numpy as np
import torch

from tinylm.evaluate.attention_maps import passages
from tinylm.evaluate.head_roles import ROLES
from tinylm.evaluate.measurement import ROLE_STORIES, measure_attention
from tinylm.model.transformer import TinyLM
from tinylm.storybook.corpus import generate
from tinylm.vocab.settings import VocabSettings
from tinylm.vocab.token_store import TokenStore, write_store
from tinylm.vocab.words import build_tokenizer, count_words

CONTEXT = 61
HEADS = [(layer, head) for layer in (1, 2) for head in (1, 2, 3)]


def prepared(texts, model, folder):
    """The parts of a run over these stories."""
    vocab = VocabSettings(tokenizer="words")
    tokenizer = build_tokenizer(count_words(texts, vocab), vocab)
    write_store(folder, "evaluation", map(tokenizer.encode_story, texts), len(tokenizer))
    torch.manual_seed(3)
    vectors = torch.randn(len(tokenizer), 11)
    wide = TinyLM(dataclasses.replace(model.settings, context=CONTEXT), vectors).eval()
    return SimpleNamespace(
        model=wide,
        tokenizer=tokenizer,
        evaluation=TokenStore(folder, "evaluation"),
        checkpoints=[],
    )


def storybook(count):
    return [story.text for story in generate(1, count, 3)[1]]


def places(rows):
    return [(row["layer"], row["head"]) for row in rows]


def test_every_role_is_measured_of_every_head(model, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    run = prepared(storybook(40), model, tmp_path)
    results, tables = measure_attention(run)
    metrics = results["heads"]
    assert metrics["not_measured"] == {}
    assert metrics["ablation"]["stories"] == 40
    assert places(tables["ablation"]) == HEADS
    special = list(run.tokenizer.specials)
    read = passages(run.evaluation, ROLE_STORIES, CONTEXT)
    words = [int((~np.isin(ids, special)).sum()) for ids in read]
    pairs = sum(max(count - 1, 0) for count in words)  # neighbouring words
    assert next(row["positions"] for row in tables["roles"]) == pairs
    for role in ROLES:
        assert places([row for row in tables["roles"] if row["role"] == role]) == HEADS
