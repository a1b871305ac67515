"""A model trained on a few stories that occur twice, in several passes."""

import itertools
import tempfile
import types
from pathlib import Path

from tinylm.base import paths
from tinylm.learn.course import load_course
from tinylm.learn.use import train
from tinylm.text.stories import read_stories
from tinylm.vocab.open_tokenizer import open_tokenizer
from tinylm.vocab.token_store import TokenStore, write_store

SETTINGS = {"train": {"tokens": 250_000, "batch_size": 4, "lr": 5e-3}}
SHARE = 0.1
STORIES = 250


def _corpus():
    texts = [
        story["text"]
        for story in itertools.islice(read_stories(Path(paths.STORIES), "train"), STORIES)
    ]
    return [*texts, *(text.lower().replace(" ", "  ") for text in texts)]


def _ours():
    module = types.ModuleType("ours")
    exec(load_course()["case7"].solution(), module.__dict__)
    return module.split


split = _ours()


def run(updates):
    tokenizer = open_tokenizer(paths.TOKENIZER)
    sides = dict(zip(("train", "evaluation"), split(_corpus(), SHARE), strict=True))
    with tempfile.TemporaryDirectory() as folder:
        stores = {}
        for name, texts in sides.items():
            write_store(folder, name, map(tokenizer.encode_story, texts), len(tokenizer))
            stores[name] = TokenStore(folder, name)
        stores["held_out"] = TokenStore(paths.TOKENS, "held_out")
        return train(updates, SETTINGS, stores)


def replacements(student):
    return {"plan.split": student.split}
