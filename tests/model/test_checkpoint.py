import dataclasses
import hashlib
import json
import struct

import pytest
import torch
from safetensors.torch import load_file, save_file

from tinylm.base.config import InputError
from tinylm.base.files import sha256, write_sums
from tinylm.model.checkpoint import check_vocabulary, load_model, new_model, save_model


@pytest.fixture
def saved(tmp_path, new_model):
    """A folder with a saved model, and the model."""
    model = new_model(norm="post", heads=4).float()
    save_model(tmp_path, model, layout="stories")
    return tmp_path, model


def resign(folder):
    """Write the weights' new hash into the config: what the hash cannot find must be found all the same."""
    config = json.loads((folder / "config.json").read_text())
    config["sha256"] = sha256(folder / "model.safetensors")
    (folder / "config.json").write_text(json.dumps(config))


@pytest.mark.parametrize(
    "settings",
    [
        {"positions": "learned", "norm_kind": "rms", "tied_output": True, "output_bias": True},
        {
            "positions": "none",
            "norm_kind": "std",
            "tied_output": False,
            "output_bias": True,
            "final_norm": False,
        },
    ],
    ids=["learned-rms-tied", "none-std-untied"],
)
def test_each_kind_of_model_comes_back_with_its_logits(tmp_path, new_model, ids, settings):
    model = new_model(**settings).float()
    save_model(tmp_path, model)
    loaded, _ = load_model(tmp_path)
    assert loaded.settings == model.settings
    assert torch.equal(loaded.embedding_scale, model.embedding_scale)
    torch.testing.assert_close(loaded(ids), model(ids), rtol=1e-5, atol=1e-5)


def test_a_model_comes_back_bit_for_bit(saved):
    folder, model = saved
    loaded, config = load_model(folder)
    assert not loaded.training
    assert config["layout"] == "stories"
    assert loaded.settings == model.settings
    assert all(
        torch.equal(loaded.state_dict()[name], tensor)
        for name, tensor in model.state_dict().items()
    )
    assert sorted(p.name for p in folder.iterdir()) == ["config.json", "model.safetensors"]


def test_equal_models_are_equal_files(saved, tmp_path):
    folder, model = saved
    save_model(tmp_path / "again", model, layout="stories")
    for name in ("config.json", "model.safetensors"):
        assert (folder / name).read_bytes() == (tmp_path / "again" / name).read_bytes()


@pytest.mark.parametrize("name", ["config.json", "model.safetensors"])
def test_a_missing_file_is_named_with_its_stage(saved, name):
    (saved[0] / name).unlink()
    with pytest.raises(InputError, match=rf"{name} .*dvc repro train"):
        load_model(saved[0])


@pytest.mark.parametrize("place", [0, 8, 20, -1])
def test_a_flipped_bit_is_found(saved, place):
    path = saved[0] / "model.safetensors"
    content = bytearray(path.read_bytes())
    content[place] ^= 1
    path.write_bytes(content)
    with pytest.raises(InputError, match=r"model\.safetensors"):
        load_model(saved[0])


def with_header(change):
    def damage(path):
        content = path.read_bytes()
        size = struct.unpack("<Q", content[:8])[0]
        header = json.loads(content[8 : 8 + size])
        text = json.dumps(change(header)).encode()
        path.write_bytes(struct.pack("<Q", len(text)) + text + content[8 + size :])

    return damage


def lie_about_shape(header):
    header["embedding"]["shape"] = [31, 18]
    return header


def overlap(header):
    first, second = list(header)[:2]
    header[first]["data_offsets"] = header[second]["data_offsets"]
    return header


def with_tensors(change):
    def damage(path):
        tensors = load_file(path)
        change(tensors)
        save_file(tensors, path)

    return damage


def add(tensors):
    tensors["extra"] = torch.zeros(1)


def drop(tensors):
    del tensors["embedding"]


def transpose(tensors):
    tensors["embedding"] = tensors["embedding"].T.contiguous()


def halve(tensors):
    tensors["embedding"] = tensors["embedding"].half()


def spoil(tensors):
    tensors["embedding"][3, 5] = torch.nan


@pytest.mark.parametrize(
    "damage",
    [
        lambda path: path.write_bytes(b""),
        lambda path: path.write_bytes(path.read_bytes()[:-1]),
        lambda path: path.write_bytes(struct.pack("<Q", 2**63) + path.read_bytes()[8:]),
        lambda path: path.write_bytes(b"\x80\x04cos\nsystem\n"),  # a pickle
        lambda path: torch.save({"embedding": torch.zeros(2)}, path),
        with_header(lie_about_shape),
        with_header(overlap),
        with_tensors(add),
        with_tensors(drop),
        with_tensors(transpose),
        with_tensors(halve),
        with_tensors(spoil),
    ],
    ids=[
        "empty",
        "cut",
        "2^63",
        "pickle",
        "zip",
        "shape",
        "overlap",
        "extra",
        "missing",
        "transposed",
        "fp16",
        "nan",
    ],
)
def test_weights_that_do_not_fit_are_refused_by_name_even_under_the_right_hash(saved, damage):
    damage(saved[0] / "model.safetensors")
    resign(saved[0])
    with pytest.raises(InputError, match=r"model\.safetensors: not the weights of") as caught:
        load_model(saved[0])
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("key", "value", "named"),
    [
        ("vocab_size", None, "vocab_size"),
        ("vocab_size", "31", "vocab_size"),
        ("vocab_size", 10**15, "embedding"),
        ("vocab_size", 30, "embedding"),
        ("width", -3, "width"),
        ("width", 2, "model.heads"),
        ("sha256", None, "sha256"),
        ("model", {"layers": 2}, "model.heads"),
        ("model", [], "model"),
    ],
)
def test_a_damaged_config_is_refused_by_name(saved, key, value, named):
    path = saved[0] / "config.json"
    config = json.loads(path.read_text())
    config[key] = value
    path.write_text(json.dumps(config))
    with pytest.raises(InputError) as caught:
        load_model(saved[0])
    assert str(path) in str(caught.value)
    assert named in str(caught.value)


@pytest.mark.parametrize("content", ["[]", "3", "{}", "null"])
def test_a_config_of_another_kind_is_refused_by_name(saved, content):
    (saved[0] / "config.json").write_text(content)
    with pytest.raises(InputError, match=r"config\.json"):
        load_model(saved[0])


@pytest.mark.parametrize("name", ["config.json", "model.safetensors"])
def test_files_that_differ_from_their_folders_sums_are_refused(saved, name):
    folder, _ = saved
    write_sums(folder)
    load_model(folder)
    content = (folder / name).read_bytes()
    (folder / name).write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    with pytest.raises(InputError, match=name):
        load_model(folder)


def test_every_problem_of_settings_and_width_is_named(new_settings):
    settings = new_settings(heads=2, norm_kind="std")
    with pytest.raises(InputError) as caught:
        new_model(settings, torch.randn(31, 1))
    keys = [line.partition(" = ")[0] for line in str(caught.value).splitlines()]
    assert keys == ["params.yaml: model.heads", "params.yaml: model.norm_kind"]


def test_a_model_of_another_vocabulary_is_refused(tmp_path, new_model):
    models = tmp_path / "models"
    vocab = tmp_path / "tokenizer.json"
    save_model(models, new_model().float())
    check_vocabulary(models, vocab)  # trained on no known vocabulary
    vocab.write_text("{}")
    save_model(models, new_model().float(), tokenizer_sha256=sha256(vocab))
    check_vocabulary(models, vocab)
    vocab.write_text("[]")
    with pytest.raises(InputError, match=r"tokenizer\.json"):
        check_vocabulary(models, vocab)


def test_a_model_comes_to_the_device_that_is_asked_for(saved):
    assert {p.device.type for p in load_model(saved[0], "meta")[0].parameters()} == {"meta"}


def test_the_config_holds_what_was_saved(saved):
    folder, model = saved
    assert json.loads((folder / "config.json").read_text()) == {
        "model": dataclasses.asdict(model.settings),
        "vocab_size": 31,
        "width": 19,
        "layout": "stories",
        "sha256": hashlib.sha256((folder / "model.safetensors").read_bytes()).hexdigest(),
    }


def test_tensors_of_any_layout_are_saved(tmp_path, new_model):
    model = new_model().float()
    model.final_norm.gain.data = torch.randn(19, 2)[:, 0]  # the library refuses such a layout
    save_model(tmp_path, model)
    assert torch.equal(load_model(tmp_path)[0].final_norm.gain, model.final_norm.gain)
