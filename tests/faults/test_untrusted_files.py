"""Weights and vocabularies that somebody else wrote run no code."""

import io
import pickle
from pathlib import Path

import pytest
import torch

from tests.support.small import random_model
from tinylm.base.config import InputError
from tinylm.model.checkpoint import load_model, save_model
from tinylm.vocab.kinds import open_tokenizer
from tinylm.vocab.token_store import load_matrix
from tinylm.vocab.tokenizer import RULE_FILE


class TouchesAFile:
    """Unpickling it makes a file."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self):
        return Path.touch, (self.path,)


def test_a_pickle_is_never_unpickled(tmp_path):
    canary = tmp_path / "canary"
    zipped = io.BytesIO()
    torch.save(TouchesAFile(canary), zipped)
    save_model(tmp_path, random_model(vocab=7, width=6))
    (tmp_path / RULE_FILE).write_text('{"kind": "longest_match"}')
    for content in (pickle.dumps(TouchesAFile(canary)), zipped.getvalue()):
        for name in ("model.safetensors", "a.json"):
            (tmp_path / name).write_bytes(content)
        with pytest.raises(InputError, match=r"model\.safetensors"):
            load_model(tmp_path)
        for reader in (load_matrix, open_tokenizer):
            with pytest.raises(InputError, match=r"a\.json"):
                reader(tmp_path / "a.json")
    assert not canary.exists()
    pickle.loads(pickle.dumps(TouchesAFile(canary)))
    assert canary.exists()
