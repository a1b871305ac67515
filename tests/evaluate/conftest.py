"""A tiny corpus on disk and a tiny random model over it."""

import pytest
import torch

from tests.support.folders import write_stories
from tests.support.small import model_settings, words_of
from tinylm.model.transformer import TinyLM
from tinylm.vocab.token_store import write_store

CONTEXT = 13
TRAIN = [
    "the dog ran home",
    "the cat saw the dog and the dog saw the cat",
    "a bird sang",
    "the bird ran",
] * 5
EVALUATION = [
    "the dog saw a bird and the bird saw the dog and then the cat saw the bird and ran",
    "a cat ran home",
    "the zebra sang to the dog",
    "the dog",
]


@pytest.fixture
def corpus(tmp_path):
    """(folder with stories and tokens, tokenizer); the evaluation stories hold the unknown words then, zebra, to."""
    tokenizer = words_of(TRAIN)
    for split, stories in (("train", TRAIN), ("evaluation", EVALUATION)):
        write_stories(tmp_path / f"stories/{split}.jsonl", stories)
        ids = map(tokenizer.encode_story, stories)
        write_store(tmp_path / "tokens", split, ids, len(tokenizer))
    return tmp_path, tokenizer


@pytest.fixture
def model(corpus):
    """A random model, sharpened so that its choices are not all alike."""
    _, tokenizer = corpus
    torch.manual_seed(3)
    settings = model_settings(feed_forward=17, context=CONTEXT, dropout=0.1, tied_output=False)
    return TinyLM(settings, torch.randn(len(tokenizer), 11)).eval()
