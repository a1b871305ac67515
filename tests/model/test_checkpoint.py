"""The model on disk: what is written comes back, and what does not fit is refused by its file."""

import dataclasses

import pytest
import torch
from safetensors.torch import load_file, save_file

from tinylm.base.config import InputError
from tinylm.base.files import sha256
from tinylm.model.checkpoint import check_vocabulary, load_checkpoints, load_model, save_model


@pytest.fixture
def saved(tmp_path, new_model):
    """A folder with a saved model, and the model."""
    model = new_model(norm="post", heads=4).float()
    save_model(tmp_path, model, layout="stories")
    return tmp_path, model


def test_a_model_comes_back_bit_for_bit(saved):
    folder, model = saved
    loaded, config = load_model(folder)
    assert not loaded.training
    assert loaded.settings == model.settings
    for name, tensor in model.state_dict().items():
        assert torch.equal(loaded.state_dict()[name], tensor)
    assert sorted(p.name for p in folder.iterdir()) == ["config.json", "model.safetensors"]
    assert config == {
        "model": dataclasses.asdict(model.settings),
        "vocab_size": 31,
        "width": 19,
        "layout": "stories",
    }


@pytest.mark.parametrize("name", ["config.json", "model.safetensors"])
def test_a_missing_or_truncated_file_is_named(saved, name):
    folder, _ = saved
    path = folder / name
    path.write_bytes(path.read_bytes()[:-9])
    with pytest.raises(InputError, match=name):
        load_model(folder)
    path.unlink()
    with pytest.raises(InputError, match=rf"{name} .*dvc repro train"):
        load_model(folder)


DAMAGES = {
    "unknown": lambda tensors: tensors | {"extra": tensors["embedding"].clone()},
    "missing": lambda tensors: {key: tensors[key] for key in tensors.keys() - {"embedding"}},
    "shape": lambda tensors: tensors | {"embedding": tensors["embedding"].T.contiguous()},
    "type": lambda tensors: tensors | {"embedding": tensors["embedding"].half()},
    "not finite": lambda tensors: tensors | {"embedding": tensors["embedding"] / 0},
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_weights_that_do_not_fit_are_refused_by_name(saved, damage):
    folder, _ = saved
    path = folder / "model.safetensors"
    save_file(DAMAGES[damage](load_file(path)), path)
    with pytest.raises(InputError, match=r"model\.safetensors: "):
        load_model(folder)


def test_a_model_of_another_vocabulary_is_refused(tmp_path, new_model):
    models = tmp_path / "models"
    vocab = tmp_path / "tokenizer.json"
    save_model(models, new_model().float())
    check_vocabulary(models, vocab)  # no vocabulary was given when it was saved
    vocab.write_text("{}")
    save_model(models, new_model().float(), tokenizer_sha256=sha256(vocab))
    check_vocabulary(models, vocab)
    vocab.write_text("[]")
    with pytest.raises(InputError, match=r"tokenizer\.json"):
        check_vocabulary(models, vocab)


def test_checkpoints_come_in_the_order_of_their_epochs(saved):
    folder, model = saved
    assert list(load_checkpoints(folder)) == []
    state = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    (folder / "checkpoints").mkdir()
    for epoch in ("10", "0.5", "2"):
        state["final_norm.gain"] = torch.full((19,), float(epoch))
        save_file(state, folder / f"checkpoints/{epoch}.safetensors")
    loaded = list(load_checkpoints(folder))
    assert [epoch for epoch, _ in loaded] == [0.5, 2.0, 10.0]
    for epoch, other in loaded:
        assert other.final_norm.gain.eq(epoch).all()
        assert not other.training
    last = folder / "checkpoints/10.safetensors"
    last.write_bytes(b"no weights")
    with pytest.raises(InputError, match=r"10\.safetensors"):
        list(load_checkpoints(folder))
