"""Weights, vocabularies and archives that a user gives: none crashes, lies or runs code."""

import io
import json
import pickle
import struct
from pathlib import Path

import numpy as np
import pytest
import torch

from tests.fuzz.inputs import make_inputs
from tinylm.base.config import InputError
from tinylm.base.files import sha256
from tinylm.model.checkpoint import load_model
from tinylm.vocab.matrix_file import load_matrix
from tinylm.vocab.tokenizer import open_tokenizer


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


def safetensors(header: dict | bytes, data: bytes = b"", size: int | None = None) -> bytes:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(text) if size is None else size) + text + data


def tensor(shape, start, end, kind="F32") -> dict:
    return {"dtype": kind, "shape": shape, "data_offsets": [start, end]}


FLOATS = np.arange(4, dtype="<f4").tobytes()
NANS = np.full(4, np.nan, "<f4").tobytes()
DUPLICATE_KEY = (
    b'{"embedding":{"dtype":"F32","shape":[1,2],"data_offsets":[0,8]},'
    b'"embedding":{"dtype":"F32","shape":[1,2],"data_offsets":[8,16]}}'
)
BAD_WEIGHTS = {
    "header of 2^63 bytes": safetensors({"embedding": tensor([2, 2], 0, 16)}, FLOATS, 1 << 63),
    "overlap": safetensors({"embedding": tensor([2, 2], 0, 16), "b": tensor([2], 8, 16)}, FLOATS),
    "wrong shape": safetensors({"embedding": tensor([2, 200], 0, 16)}, FLOATS),
    "huge shape": safetensors({"embedding": tensor([2**62, 2**62], 0, 16)}, FLOATS),
    "duplicate key": safetensors(DUPLICATE_KEY, FLOATS),
    "missing tensor": safetensors({"b": tensor([2, 2], 0, 16)}, FLOATS),
    "fp16": safetensors({"embedding": tensor([2, 4], 0, 16, "F16")}, FLOATS),
    "nan": safetensors({"embedding": tensor([2, 2], 0, 16)}, NANS),
    "nested header": safetensors(b'{"a":' * 100_000),
    "empty file": b"",
}


@pytest.mark.parametrize("fault", BAD_WEIGHTS)
def test_bad_safetensors_are_refused_by_name(tmp_path, inputs, fault):
    path = tmp_path / "embedding.safetensors"
    path.write_bytes(BAD_WEIGHTS[fault])
    with pytest.raises(InputError, match=r"embedding\.safetensors"):
        load_matrix(path)
    folder = write_model(tmp_path / "run", inputs["model"][0], BAD_WEIGHTS[fault])
    with pytest.raises(InputError, match=r"model\.safetensors"):
        load_model(folder)


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
