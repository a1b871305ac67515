"""A model trained on a few stories that occur twice, in several passes."""

import itertools
import tempfile
from pathlib import Path

from tinylm.base import paths
from tinylm.download.stories import read_stories
from tinylm.learn import use
from tinylm.vocab.token_store import TokenStore, write_store
from tinylm.vocab.tokenizer import open_tokenizer

SETTINGS = {"train": {"tokens": 250_000, "batch_size": 4, "lr": 5e-3}}
SHARE = 0.1
STORIES = 250


def _corpus():
    texts = [
        story["text"]
        for story in itertools.islice(read_stories(Path(paths.STORIES), "train"), STORIES)
    ]
    return [*texts, *(text.lower().replace(" ", "  ") for text in texts)]


def _right(stories, share):
    from importlib import util

    from tinylm.learn.course import load_course

    spec = util.spec_from_loader("mended", loader=None)
    module = util.module_from_spec(spec)
    exec(load_course()["case7"].solution(), module.__dict__)
    return module.split(stories, share)


def measure(student, updates):
    split = _right if student is None else student.split
    tokenizer = open_tokenizer(paths.TOKENIZER)
    sides = dict(zip(("train", "evaluation"), split(_corpus(), SHARE), strict=True))
    with tempfile.TemporaryDirectory() as folder:
        stores = {}
        for name, texts in sides.items():
            write_store(folder, name, map(tokenizer.encode_story, texts), len(tokenizer))
            stores[name] = TokenStore(folder, name)
        stores["held_out"] = TokenStore(paths.TOKENS, "held_out")
        return use.train(SETTINGS, updates, stores)
