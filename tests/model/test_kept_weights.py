"""Weights kept during training, read back in the order of their epochs."""

import pytest
import torch
from safetensors.torch import save_file

from tinylm.base.config import InputError
from tinylm.base.files import write_sums
from tinylm.model.checkpoint import load_checkpoints, save_model


@pytest.fixture
def kept(new_model, tmp_path):
    """(folder, {epoch: embedding}) of a model with weights kept after 0.5, 2 and 10 epochs."""
    model = new_model().float()
    (tmp_path / "checkpoints").mkdir()
    embeddings = {}
    for name in ("10", "0.5", "2"):
        with torch.no_grad():
            model.embedding.add_(1)
        embeddings[float(name)] = model.embedding.detach().clone()
        save_file(
            {key: tensor.contiguous().clone() for key, tensor in model.state_dict().items()},
            tmp_path / "checkpoints" / f"{name}.safetensors",
        )
    save_model(tmp_path, model)
    return tmp_path, embeddings


def test_checkpoints_come_in_the_order_of_their_epochs(kept):
    folder, embeddings = kept
    found = list(load_checkpoints(folder))
    assert [epoch for epoch, _ in found] == [0.5, 2.0, 10.0]
    for epoch, model in found:
        assert torch.equal(model.embedding, embeddings[epoch])
        assert not model.training


def test_no_moment_is_no_error(kept):
    folder, _ = kept
    for path in (folder / "checkpoints").iterdir():
        path.unlink()
    assert list(load_checkpoints(folder)) == []
    (folder / "checkpoints").rmdir()
    assert list(load_checkpoints(folder)) == []


def test_odd_files_are_named(kept):
    folder, _ = kept
    last = folder / "checkpoints" / "10.safetensors"
    last.write_bytes(b"no weights")
    with pytest.raises(InputError, match=r"checkpoints/10\.safetensors: not the weights of"):
        list(load_checkpoints(folder))
    last.rename(folder / "checkpoints" / "last.safetensors")
    with pytest.raises(InputError, match=r"last\.safetensors: named last; allowed: an epoch"):
        list(load_checkpoints(folder))


def test_checkpoints_are_checked_against_their_folders_sums_and_come_to_the_device(kept):
    folder, _ = kept
    write_sums(folder / "checkpoints")
    (folder / "checkpoints" / "notes.txt").touch()
    found = list(load_checkpoints(str(folder), "meta"))
    assert [epoch for epoch, _ in found] == [0.5, 2.0, 10.0]
    assert {p.device.type for _, model in found for p in model.parameters()} == {"meta"}
    (folder / "checkpoints" / "2.safetensors").write_bytes(b"no weights")
    with pytest.raises(
        InputError, match=r"2\.safetensors: its SHA-256 is not .* and run dvc repro -f -s train$"
    ):
        list(load_checkpoints(folder))
