"""The model of every preset as an export, read by transformers where tinylm is not installed."""

import json
import os
import subprocess
import sys

import torch

from tests.support import small
from tinylm.base.config import parse_yaml, read_section
from tinylm.exchange.export import export
from tinylm.exchange.stock import stock_problem
from tinylm.model.settings import ModelSettings
from tinylm.params.presets.write import names, preset_text

TEXT = "the cat saw two big dogs run home"
READER = """
import json, sys

class NoTinyLM:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == "tinylm":
            raise ModuleNotFoundError(f"No module named {name!r}")

sys.meta_path.insert(0, NoTinyLM())
from transformers import AutoModelForCausalLM, AutoTokenizer

for folder in sys.argv[2:]:
    model = AutoModelForCausalLM.from_pretrained(folder, trust_remote_code=True).eval()
    tokenizer = AutoTokenizer.from_pretrained(folder, trust_remote_code=True)
    inputs = tokenizer(sys.argv[1], return_tensors="pt")
    text = model.generate(**inputs, do_sample=False, max_new_tokens=5)
    print(json.dumps([type(model).__name__, model(**inputs).logits[0].tolist(), text[0].tolist()]))
"""


def model_of(preset, vocab):
    """A model of the preset's settings, its layers apart, with random weights."""
    params = parse_yaml(preset_text(preset), preset)
    settings = vars(read_section(params, "model", ModelSettings)) | {"layers": 2, "dropout": 0.0}
    return small.random_model(vocab, params["embedding"]["width"], **settings)


def test_every_preset_is_loaded_without_tinylm(tmp_path, trained_of, words):
    expected = []
    folders = []
    ids = torch.tensor([words.encode_prompt(TEXT, "text")])
    for preset in names():
        model = model_of(preset, len(words))
        form = "tinylm" if stock_problem(model.settings) else "transformers"
        folders.append(tmp_path / preset)
        written = export(folders[-1], trained_of(model), form)
        expected.append((written.architecture, model(ids)[0]))
    environment = {"PATH": os.environ["PATH"], "HF_HOME": str(tmp_path / "cache")}
    done = subprocess.run(
        [sys.executable, "-I", "-c", READER, TEXT, *map(str, folders)],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    for preset, (name, logits), (loaded, theirs, text) in zip(
        names(), expected, lines, strict=True
    ):
        assert loaded == name, preset
        torch.testing.assert_close(torch.tensor(theirs), logits, rtol=1e-5, atol=1e-5)
        assert len(text) > ids.shape[1], preset
