"""A tiny pipeline folder: vocabulary, vectors, token stores and parameters, as the earlier stages leave them."""

import json
import pickle
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
import torch

import tinylm.presets
from tinylm.base.config import load_params, read_section
from tinylm.base.files import read_json, write_json
from tinylm.bench import accum, measure
from tinylm.model.checkpoint import new_model, save_model
from tinylm.model.settings import ModelSettings
from tinylm.vocab.settings import VocabSettings
from tinylm.vocab.token_store import save_matrix, write_store
from tinylm.vocab.words import build_tokenizer

WORDS, WIDTH = 31, 12
PRESET = Path(tinylm.presets.__file__).parent / "storybook.yaml"
CHANGES = {
    "model": {"layers": 2, "heads": 3, "head_width": 4, "feed_forward": 16, "context": 16, "dropout": 0.2},
    "train": {"layout": "stories", "validate_every": 5, "precision": "fp32"},
    "beam_bench": {"widths": [1, 3], "prompts": 3, "new_tokens": 7},
    "kv_bench": {"batch": 3, "lengths": [4, 23]},
    "accum_sweep": {"settings": [1, 2], "batch_size": 3, "stories": None, "tokens": 300},
    "ckpt_bench": {"updates": 3, "batch_size": 3},
    "runtime": {"threads": 1, "device": "cpu"},
}  # fmt: skip


@pytest.fixture
def params():
    """Parameters of the tiny pipeline, a copy of their own for each test."""
    values = load_params(PRESET)
    for section, changed in CHANGES.items():
        values[section] = values[section] | changed
    return values


@pytest.fixture
def model_settings(params):
    return read_section(params, "model", ModelSettings)


@pytest.fixture
def folder(tmp_path, monkeypatch, params):
    """The working directory with params.yaml and data/ in it."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(accum, "CONTEXT", 8)
    monkeypatch.setattr(measure, "PROMPT_TOKENS", 2)
    monkeypatch.setattr(measure, "TRIALS", 1)
    rng = np.random.default_rng(7)
    counts = Counter({f"word{i}": WORDS - i for i in range(WORDS)})
    tokenizer = build_tokenizer(counts, VocabSettings(tokenizer="words"))
    tokenizer.save("data/vocab/tokenizer.json")
    matrix = rng.standard_normal((len(tokenizer), WIDTH)).astype(np.float32)
    save_matrix("data/vocab/embedding.safetensors", matrix)
    for split, stories in (("train", 60), ("held_out", 11), ("evaluation", 13)):
        lengths = rng.integers(5, 24, size=stories)
        texts = [[0, *rng.integers(4, len(tokenizer), size=n).tolist(), 1] for n in lengths]
        write_store("data/tokens", split, texts, len(tokenizer))
    write_json("data/figures/download.json", {"source": "local"})
    write_params(params)
    return tmp_path


@pytest.fixture
def trained(folder, model_settings):
    """A model of stage train, of which it is enough that it is there."""
    torch.manual_seed(1)
    model = new_model(model_settings, torch.randn(WORDS + 4, WIDTH))
    save_model("models", model, layout="stories")
    return model


@pytest.fixture
def inline(monkeypatch):
    """Settings are measured in this process: faster, and what they are given is pickled all the same."""

    def call(function, task):
        return function(pickle.loads(pickle.dumps(task)))

    def call_each(function, tasks, together):
        return (call(function, task) for task in tasks)

    monkeypatch.setattr("tinylm.bench.measure.in_own_process", call)
    monkeypatch.setattr("tinylm.bench.measure.in_own_processes", call_each)


def write_params(values):
    """params.yaml; JSON is YAML."""
    Path("params.yaml").write_text(json.dumps(values))


@pytest.fixture
def change():
    """change(params, section, key=value): write params.yaml anew."""

    def apply(values, section, **changed):
        values[section] = values[section] | changed
        write_params(values)

    return apply


@pytest.fixture
def results(folder):
    """results(stage): what a stage found, and its times."""

    def read(stage):
        paths = (folder / f"data/figures/{stage}.json", folder / f"data/times/{stage}.json")
        return [read_json(path) for path in paths]

    return read
