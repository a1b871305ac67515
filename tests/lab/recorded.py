"""The recorded model of docs/lab/index.html: trained weights that need no training, on a page of today's code.

`make pages` writes docs/lab/index.html again, with today's code around the same weights.
"""

import base64
import dataclasses
import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from tests.support.size import ROOT
from tinylm.decoding.settings import DecodeSettings
from tinylm.lab import build
from tinylm.lab.making import LINKS, decoding_rules
from tinylm.model.transformer import ModelSettings, TinyLM
from tinylm.text.words import normalising_steps, word_patterns

PAGE = ROOT / "docs/lab/index.html"
FACTS = re.compile(r'<script type="application/json" id="facts">(.*?)</script>', re.DOTALL)


def recorded() -> tuple[TinyLM, dict[str, Any]]:
    """The model and the facts of the recorded page."""
    facts = json.loads(FACTS.findall(PAGE.read_text("utf-8"))[0])
    settings = facts["settings"]
    names = [field.name for field in dataclasses.fields(ModelSettings)]
    shape = ModelSettings(**{name: settings[name] for name in names if name in settings})
    model = TinyLM(shape, torch.zeros(settings["vocab_size"], settings["width"]))
    weights = {
        name: torch.from_numpy(_values(tensor))
        for name, tensor in facts["checkpoints"][-1]["tensors"].items()
    }
    model.load_state_dict(weights)
    return model.eval(), facts


def _values(tensor: dict[str, Any]) -> np.ndarray:
    """Float32 values of a tensor as `tinylm.lab.build` packs it."""
    numbers = base64.b64decode(tensor["numbers"])
    if "scales" not in tensor:
        return np.frombuffer(numbers, "<f4").reshape(tensor["shape"]).copy()
    scales = np.frombuffer(base64.b64decode(tensor["scales"]), "<f4")
    return np.frombuffer(numbers, "i1").reshape(tensor["shape"]) * scales[:, None]


def write_recorded(file: Path) -> TinyLM:
    """Write the page of the recorded model, with an earlier checkpoint of weaker weights; the model."""
    model, facts = _of_today()
    earlier, _ = recorded()
    with torch.no_grad():
        for parameter in earlier.parameters():
            parameter.mul_(0.5)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(build, "MAX_WEIGHTS", 8 << 20)
        earlier_ones = [("after 10 % of the training", earlier)]
        page = build.build_page(model, facts["tokenizer"], facts, earlier_ones)
    file.write_bytes(page)
    return model


def _of_today() -> tuple[TinyLM, dict[str, Any]]:
    """The recorded model, and its facts as pages of today's code need them."""
    model, facts = recorded()
    rule = facts["tokenizer"]
    rule["steps"] = normalising_steps(rule["lower_case"], rule["punctuation"])
    rule["words"] = word_patterns(rule["punctuation"])
    off = decoding_rules(DecodeSettings(min_p=0.0, eta=0.0))
    facts["rules"] = off | facts["rules"]
    facts["links"] = dict(LINKS)
    return model, facts


def page_of_today() -> bytes:
    """The recorded page as today's code writes it, with the same weights."""
    model, facts = _of_today()
    return build.build_page(model, facts["tokenizer"], facts)
