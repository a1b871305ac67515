import dataclasses
import hashlib
import json
import struct

import pytest
import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file

from tinylm.base.config import InputError
from tinylm.base.files import sha256, write_sums
from tinylm.model import checkpoint as storage
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


def test_a_missing_model_names_the_stage(tmp_path):
    with pytest.raises(InputError, match=r"config\.json is missing: run dvc repro train"):
        load_model(tmp_path)


def test_missing_weights_name_the_stage(saved):
    (saved[0] / "model.safetensors").unlink()
    with pytest.raises(InputError, match=r"model\.safetensors is missing: run dvc repro train"):
        load_model(saved[0])


@pytest.mark.parametrize("place", [0, 8, 20, -1])
def test_a_flipped_bit_is_found(saved, place):
    path = saved[0] / "model.safetensors"
    content = bytearray(path.read_bytes())
    content[place] ^= 1
    path.write_bytes(content)
    with pytest.raises(
        InputError, match=r"model\.safetensors: its SHA-256 .* run dvc repro -f -s train"
    ):
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
    ("key", "value", "message"),
    [
        ("vocab_size", None, "vocab_size"),
        ("vocab_size", "31", "vocab_size"),
        ("vocab_size", 0, "vocab_size"),
        ("vocab_size", 10**15, "embedding is (31, 19); allowed: (1000000000000000, 19)"),
        ("width", -3, "width"),
        ("width", 2, "model.heads = 4"),
        ("vocab_size", 30, "embedding is (31, 19); allowed: (30, 19)"),
        ("sha256", None, "sha256"),
        ("model", {"layers": 2}, "model.heads is missing"),
        ("model", [], "allowed: a mapping"),
    ],
)
def test_a_damaged_config_is_refused_by_name(saved, key, value, message):
    path = saved[0] / "config.json"
    config = json.loads(path.read_text())
    config[key] = value
    path.write_text(json.dumps(config))
    with pytest.raises(InputError) as caught:
        load_model(saved[0])
    assert str(path) in str(caught.value)
    assert message in str(caught.value)


@pytest.mark.parametrize("content", ["[]", "3", "{}", "null"])
def test_a_config_of_another_kind_is_refused_by_name(saved, content):
    (saved[0] / "config.json").write_text(content)
    with pytest.raises(InputError, match=r"config\.json"):
        load_model(saved[0])


def test_settings_that_do_not_fit_the_width_are_bad_input(saved):
    with pytest.raises(
        InputError,
        match=r"^params.yaml: model\.heads = 4; allowed: at most the embedding's width 3",
    ):
        new_model(saved[1].settings, torch.randn(31, 3))


def test_a_model_of_another_vocabulary_is_refused(tmp_path, new_model):
    vocab, other = tmp_path / "tokenizer.json", tmp_path / "other.json"
    vocab.write_text("{}")
    other.write_text("[]")
    model = new_model().float()
    save_model(tmp_path / "models", model, tokenizer_sha256=sha256(vocab))
    check_vocabulary(tmp_path / "models", vocab)
    with pytest.raises(InputError, match="not the vocabulary"):
        check_vocabulary(tmp_path / "models", other)


def one(name, change):
    def damage(tensors):
        tensors[name] = change(tensors[name])

    return damage


def both(tensors):
    tensors["zzz"] = torch.zeros(1)
    del tensors["blocks.1.norm2.gain"]


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (add, "tensor extra is unknown"),
        (both, "tensor blocks.1.norm2.gain is missing"),
        (drop, "embedding is (0, 0); allowed: (31, 19)"),
        (transpose, "embedding is (19, 31); allowed: (31, 19)"),
        (
            one("blocks.1.norm2.gain", torch.Tensor.half),
            "tensor blocks.1.norm2.gain is (19,) torch.float16; allowed: (19,) torch.float32",
        ),
        (
            one("blocks.1.norm2.gain", lambda tensor: tensor[:3].clone()),
            "tensor blocks.1.norm2.gain is (3,) torch.float32; allowed: (19,) torch.float32",
        ),
        (
            one("final_norm.bias", lambda tensor: tensor / 0),
            "tensor final_norm.bias holds a value that is not finite",
        ),
    ],
)
def test_what_does_not_fit_is_said_with_its_remedy(saved, change, problem):
    folder, _ = saved
    weights, config = folder / "model.safetensors", folder / "config.json"
    with_tensors(change)(weights)
    resign(folder)
    with pytest.raises(InputError) as caught:
        load_model(str(folder))
    said = f"{weights}: not the weights of {config}: {problem}; rm {weights} and run dvc repro -f -s train"
    assert str(caught.value) == said


def test_what_the_library_says_of_a_file_is_kept_short(saved, monkeypatch):
    folder, _ = saved

    def fails(path):
        raise SafetensorError("x" * 1000)

    monkeypatch.setattr(storage, "load_file", fails)
    with pytest.raises(InputError) as caught:
        load_model(folder)
    weights, config = folder / "model.safetensors", folder / "config.json"
    assert str(caught.value) == f"{weights}: not the weights of {config}: {'x' * 160}"


def test_a_model_comes_to_the_device_that_is_asked_for(saved):
    assert {p.device.type for p in load_model(saved[0], "meta")[0].parameters()} == {"meta"}
    assert {p.device.type for p in load_model(saved[0])[0].parameters()} == {"cpu"}


def test_the_config_says_what_was_saved(saved):
    folder, model = saved
    config = json.loads((folder / "config.json").read_text())
    assert list(config) == ["model", "vocab_size", "width", "layout", "sha256"]
    assert config == {
        "model": dataclasses.asdict(model.settings),
        "vocab_size": 31,
        "width": 19,
        "layout": "stories",
        "sha256": hashlib.sha256((folder / "model.safetensors").read_bytes()).hexdigest(),
    }


def test_tensors_of_any_layout_are_saved(tmp_path, new_model):
    model = new_model().float()
    model.final_norm.gain.data = torch.randn(19, 2)[
        :, 0
    ]  # not contiguous: the library would refuse it
    save_model(tmp_path, model)
    assert torch.equal(load_model(tmp_path)[0].final_norm.gain, model.final_norm.gain)


@pytest.mark.parametrize("name", ["config.json", "model.safetensors"])
def test_files_that_differ_from_their_folders_sums_are_refused(saved, name):
    folder, _ = saved
    write_sums(folder)
    load_model(folder)
    content = (folder / name).read_bytes()
    (folder / name).write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    with pytest.raises(
        InputError, match=rf"{name}: its SHA-256 is not .* and run dvc repro -f -s train$"
    ):
        load_model(folder)


def test_a_config_of_another_kind_is_refused_with_its_remedy(saved):
    path = saved[0] / "config.json"
    path.write_text("[]")
    with pytest.raises(InputError) as caught:
        load_model(saved[0])
    assert (
        str(caught.value) == f"{path}: not the config of a model; rm {path} and run dvc repro train"
    )


def test_every_problem_of_settings_and_width_is_said(saved, new_settings):
    settings = new_settings(heads=2, norm_kind="std")
    with pytest.raises(InputError) as caught:
        new_model(settings, torch.randn(31, 1))
    lines = str(caught.value).splitlines()
    assert [line.partition(" = ")[0] for line in lines] == [
        "params.yaml: model.heads",
        "params.yaml: model.norm_kind",
    ]
    path = saved[0] / "config.json"
    config = json.loads(path.read_text()) | {"width": 1}
    config["model"] = dataclasses.asdict(settings)
    path.write_text(json.dumps(config))
    with pytest.raises(InputError) as caught:
        load_model(saved[0])
    said = [line.partition(" = ")[0] for line in str(caught.value).splitlines()]
    assert said == [f"{path}: model.heads", f"{path}: model.norm_kind"]


def test_a_vocabulary_is_asked_for_where_the_model_knows_one(tmp_path, new_model):
    models, vocab = tmp_path / "models", tmp_path / "tokenizer.json"
    with pytest.raises(InputError, match=r"config\.json is missing: run dvc repro train$"):
        check_vocabulary(models, vocab)
    save_model(models, new_model().float())
    check_vocabulary(
        str(models), vocab
    )  # trained on no vocabulary that is known: nothing to compare
    save_model(models, new_model().float(), tokenizer_sha256="0" * 64)
    with pytest.raises(InputError, match=r"tokenizer\.json is missing: run dvc repro vocab$"):
        check_vocabulary(models, vocab)
    vocab.write_text("{}")
    with pytest.raises(InputError) as caught:
        check_vocabulary(models, vocab)
    said = f"{vocab}: not the vocabulary that {models} was trained with; run dvc repro train"
    assert str(caught.value) == said
    (models / "config.json").write_text("[]")
    check_vocabulary(models, vocab)
