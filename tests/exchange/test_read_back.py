"""What export reads back: right files pass, by each reader, and files with another function are refused."""

import importlib.util
import json
import math

import pytest
import torch
import transformers
from safetensors.torch import load_file, save_file

from tinylm.base.config import InputError
from tinylm.exchange import export, read_back
from tinylm.exchange.export import export_folder
from tinylm.exchange.read_back import check_export
from tinylm.exchange.stock import stock_form

SHAPES = {
    "learned": {"positions": "learned"},
    "rotary, wide heads": {"positions": "rotary", "heads": 2, "head_width": 30},
    "relu, output bias": {"activation": "relu", "output_bias": True, "tied_output": False},
}
FORMS = ("transformers", "tinylm", "gguf")


@pytest.fixture(params=[True, False], ids=["with transformers", "without transformers"])
def has_transformers(request, monkeypatch):
    if not request.param:
        monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    return request.param


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_right_files_pass_by_each_reader(
    has_transformers, random_model, words, trained_of, tmp_path, shape, form
):
    if form == "gguf" and shape.startswith("rotary"):
        pytest.skip("llama.cpp's gpt2 has no rotary positions")
    model = random_model(vocab=len(words), **SHAPES[shape])
    said = export_folder(tmp_path / "export", trained_of(model), form).check
    reader = {"tinylm": "by tinylm ", "gguf": "tinylm's own GPT-2"}.get(form, "tinylm's own GPT-")
    if has_transformers and form == "transformers":
        reader = "transformers 5"
    assert reader in said


def test_reading_back_prints_nothing_and_leaves_transformers_as_it_was(
    random_model, words, export_of, capfd
):
    transformers.logging.enable_progress_bar()
    verbosity = transformers.logging.get_verbosity()
    export_of(random_model(vocab=len(words), positions="learned"))
    assert "".join(capfd.readouterr()) == ""
    assert transformers.logging.get_verbosity() == verbosity
    assert transformers.logging.is_progress_bar_enabled()
    transformers.logging.disable_progress_bar()


@pytest.mark.parametrize("form", ["transformers", "tinylm"])
@pytest.mark.parametrize("positions", ["learned", "rotary"])
def test_each_matrix_and_gain_of_the_files_is_compared(
    has_transformers, random_model, words, export_of, form, positions
):
    model = random_model(vocab=len(words), width=20, positions=positions, layers=2)
    folder = export_of(model, form)
    weights = folder / "model.safetensors"
    tensors = load_file(weights)
    changed = [name for name in tensors if name.endswith(("weight", "gain"))]
    assert len(changed) >= 13
    for name in changed:
        save_file(tensors | {name: tensors[name] * 1.5}, weights, metadata={"format": "pt"})
        with pytest.raises(InputError, match="do not reproduce the model"):
            check_export(folder, model, form)


@pytest.mark.parametrize("key", ["layer_norm_epsilon", "n_head"])
def test_the_configuration_is_compared(has_transformers, random_model, words, export_of, key):
    model = random_model(vocab=len(words), width=20, positions="learned", heads=4)
    folder = export_of(model)
    text = (folder / "config.json").read_text()
    config = json.loads(text)
    config[key] = 2 if key == "n_head" else 0.5
    (folder / "config.json").write_text(json.dumps(config))
    with pytest.raises(InputError, match="do not reproduce the model"):
        check_export(folder, model, "transformers")


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_files_that_are_not_numbers_are_refused(
    has_transformers, random_model, words, export_of, value
):
    model = random_model(vocab=len(words), positions="learned")
    folder = export_of(model)
    weights = folder / "model.safetensors"
    tensors = load_file(weights)
    name = "transformer.h.0.mlp.c_proj.weight"
    save_file(tensors | {name: tensors[name] * value}, weights, metadata={"format": "pt"})
    with pytest.raises(InputError, match="do not reproduce the model"):
        check_export(folder, model, "transformers")


def test_without_a_working_transformers_the_own_graph_reads(
    random_model, words, export_of, monkeypatch
):
    model = random_model(vocab=len(words), positions="learned")
    folder = export_of(model)

    def broken(folder):
        raise ImportError("too old")

    monkeypatch.setattr(read_back, "_by_transformers", broken)
    assert "own GPT-2 (transformers could not: too old)" in check_export(
        folder, model, "transformers"
    )


def test_nothing_is_left_of_a_wrong_export(random_model, words, trained_of, tmp_path, monkeypatch):
    model = random_model(vocab=len(words), positions="learned")
    trained = trained_of(model)
    monkeypatch.setattr(export, "stock_form", lambda given: stock_form(changed(given)))

    def changed(given):
        other = random_model(vocab=len(words), positions="learned")
        other.load_state_dict(given.state_dict())
        with torch.no_grad():
            other.embedding[3] += 1.0
        return other

    with pytest.raises(InputError, match="please report"):
        export_folder(tmp_path / "export", trained, "transformers")
    assert not (tmp_path / "export").exists()


def test_a_model_that_has_diverged_can_be_exported(random_model, words, trained_of, tmp_path):
    model = random_model(vocab=len(words), positions="learned")
    with torch.no_grad():
        model.embedding.fill_(float("nan"))
    export_folder(tmp_path / "export", trained_of(model), "transformers")
