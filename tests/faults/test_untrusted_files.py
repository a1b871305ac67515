"""Weights, vocabularies and archives that a user gives: none crashes, lies or runs code."""

import io
import json
import pickle
from pathlib import Path

import pytest
import torch

from tests.fuzz.inputs import make_inputs
from tinylm.base.config import InputError
from tinylm.base.files import sha256
from tinylm.model.checkpoint import load_model
from tinylm.vocab.kinds import open_tokenizer
from tinylm.vocab.matrix_file import load_matrix


@pytest.fixture(scope="module")
def inputs(tmp_path_factory):
    return make_inputs(tmp_path_factory.mktemp("inputs"))


def write_model(folder: Path, files: dict[str, bytes], weights: bytes) -> Path:
    """A model folder with other weights under their right checksum."""
    folder.mkdir()
    for name, content in files.items():
        (folder / name).write_bytes(content)
    (folder / "sha256.json").unlink(missing_ok=True)
    (folder / "model.safetensors").write_bytes(weights)
    config = json.loads((folder / "config.json").read_text())
    config["sha256"] = sha256(folder / "model.safetensors")
    (folder / "config.json").write_text(json.dumps(config))
    return folder


class TouchesAFile:
    """Unpickling it makes a file."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self):
        return Path.touch, (self.path,)


def test_a_pickle_is_never_unpickled(tmp_path, inputs):
    canary = tmp_path / "canary"
    zipped = io.BytesIO()
    torch.save(TouchesAFile(canary), zipped)
    contents = {"pickle": pickle.dumps(TouchesAFile(canary)), "torch": zipped.getvalue()}
    for form, content in contents.items():
        folder = write_model(tmp_path / form, inputs["model"][0], content)
        with pytest.raises(InputError, match=r"model\.safetensors"):
            load_model(folder)
        for reader in (load_matrix, open_tokenizer):
            (tmp_path / "a.json").write_bytes(content)
            with pytest.raises(InputError, match=r"a\.json"):
                reader(tmp_path / "a.json")
    assert not canary.exists()
    pickle.loads(contents["pickle"])
    assert canary.exists()
