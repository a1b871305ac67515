"""Results made by hand: what a revision would hold, without one."""

import copy
import json

import numpy as np
import pandas as pd
import pytest

from tinylm.experiments.results import RevisionResult
from tinylm.experiments.revisions import Revision

PARAMS = {"data.seed": 1, "train.lr": 0.003, "train.seed": 1}
TEXTS = [f"text {i}" for i in range(40)]


def stories_table(texts=TEXTS, vocabulary="v", shift=0.0, noise=0.0, seed=0):
    """Stories as different as stories are, moved by `shift` nats per token and a little noise."""
    rng = np.random.default_rng(7)
    tokens = rng.integers(80, 160, len(texts)).astype(float)
    hardness = rng.normal(2.0, 0.6, len(texts))
    noise_of_run = np.random.default_rng(seed).normal(0.0, noise, len(texts))
    nats = tokens * (hardness + shift + noise_of_run)
    columns = {"text_id": texts, "tokens_id": [f"{vocabulary} {text}" for text in texts]}
    losses = {"nats": nats, "tokens": tokens, "raw_bits": nats * 2, "raw_bytes": tokens * 6}
    return pd.DataFrame(columns | losses)


@pytest.fixture
def make_run():
    """A run whose stories are `text 0`, `text 1`, ..., in tokens of one vocabulary."""

    def make(name, params=(), inputs=(("tinylm/model", "m1"),), **stories):
        values = PARAMS | dict(params)
        table = stories_table(**stories)
        perplexity = float(np.exp(table["nats"].sum() / table["tokens"].sum()))
        return RevisionResult(name, values, dict(inputs), perplexity, {values["train.seed"]: table})

    return make


LOCK = {
    "train": {
        "cmd": "python -m stages.train",
        "deps": [
            {"path": "tinylm/model", "md5": "m1.dir"},
            {"path": "data/tokens", "md5": "t1.dir"},
        ],
        "params": {"params.yaml": {"train": {"lr": 0.003, "seed": 1}}},
        "outs": [{"path": "models", "md5": "w1.dir"}],
    },
    "evaluate": {
        "cmd": "python -m stages.evaluate",
        "deps": [{"path": "models", "md5": "w1.dir"}, {"path": "../stories.jsonl", "md5": "s1"}],
        "outs": [{"path": "data/evaluate", "md5": "e1.dir"}],
    },
}
STORIES = """\
story,text_id,tokens_id,nats,tokens,raw_bits,raw_bytes
1,t1,v1,2.5,1,,9
2,t2,v2,5,2,,9
3,t3,v3,7.5,3,,9
"""


@pytest.fixture
def lock():
    """A copy of the stages in the revision's dvc.lock, to be changed."""
    return copy.deepcopy(LOCK)


@pytest.fixture
def revision():
    """A revision out of {path: content}: texts as they are, other values as JSON; None takes a file away."""

    def make(name="main", lock=LOCK, **changes):
        files = {
            "params.yaml": "train:\n  lr: 3e-3\n  seed: 1\n", "dvc.lock": {"schema": "2.0", "stages": lock},
            "metrics/evaluate.json": {"perplexity": 2.5}, "data/evaluate/stories.csv": STORIES, **changes
        }  # fmt: skip

        class Fake(Revision):
            def text(self, path):
                content = files.get(path)
                if content is None:
                    self.notes.append(f"{path}: not here")
                    return None
                return content if isinstance(content, str) else json.dumps(content)

        return Fake(name, "c" * 40, None)

    return make
