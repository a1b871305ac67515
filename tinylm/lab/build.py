"""lab.html: one file that opens offline and runs the trained model in the browser.

The model computes in plain JavaScript (page/model.js).
"""

import base64
import dataclasses
import hashlib
import html
import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tinylm.base.config import InputError
from tinylm.base.files import read_json
from tinylm.decoding.texts import banned_ids
from tinylm.lab.package import pack
from tinylm.lab.page.bundle import PAGE, bundle
from tinylm.model.transformer import TinyLM
from tinylm.report.html_page import STYLE_SHEET
from tinylm.vocab.tokenizer import Tokenizer
from tinylm.vocab.words import WordTokenizer

MAX_PARAMETERS = 20_000_000  # a page of about 26 MB, 80 MB in the browser's memory
PAGE_BYTES = 8 << 20  # weights of earlier checkpoints are added as long as the page stays below
MATRICES = "int8"


@dataclasses.dataclass(frozen=True)
class Checkpoint:
    """Weights during training: name as shown, tensors by name."""

    name: str
    tensors: Mapping[str, np.ndarray]


def tensors_of(model: TinyLM) -> dict[str, np.ndarray]:
    """The model's weights by the names of its state_dict."""
    return {name: tensor.detach().cpu().numpy() for name, tensor in model.state_dict().items()}


def build_page(
    model: TinyLM,
    rule: Mapping[str, Any],
    facts: Mapping[str, Any],
    checkpoints: Sequence[Checkpoint] = (),
    matrices: str = MATRICES,
) -> bytes:
    """The page's bytes; the same for the same arguments.

    rule: of the tokenizer (`rule_of`).
    facts: what the page shows of the run (`tinylm.lab.facts`).
    checkpoints: earlier weights, in order; as many as fit into PAGE_BYTES are held, evenly spaced.
    matrices: the format of all weights with two axes (package.FORMATS).
    Raises InputError for a model of more than MAX_PARAMETERS.
    """
    size = sum(parameter.numel() for parameter in model.parameters())
    if size > MAX_PARAMETERS:
        limit = f"at most {MAX_PARAMETERS:,}, which a browser opens in seconds"
        raise InputError(f"the model has {size:,} parameters; allowed in a page: {limit}")
    trained = Checkpoint("the trained model", tensors_of(model))
    packed = []
    for checkpoint in [*checkpoints, trained]:
        entries, text, _ = pack(checkpoint.tensors, matrices)
        packed.append((checkpoint.name, entries, text))
    for count in range(len(checkpoints), -1, -1):
        held = [packed[index] for index in _spread(len(checkpoints), count)]
        page = _page(model, rule, facts, [*held, packed[-1]])
        if len(page) <= PAGE_BYTES:
            break
    return page


def _spread(count: int, wanted: int) -> list[int]:
    """`wanted` of `count` indices, the first always among them, evenly apart."""
    gap = (count - 1) / max(1, wanted - 1)
    return [round(index * gap) for index in range(wanted)]


def _page(
    model: TinyLM,
    rule: Mapping[str, Any],
    facts: Mapping[str, Any],
    weights: Sequence[tuple[str, list[dict[str, Any]], str]],
) -> bytes:
    """The page with these weights: name, what the bytes are, the bytes as text."""
    shape = {"vocab_size": model.vocab_size, "width": model.width}
    all_facts = {
        **facts,
        "settings": dataclasses.asdict(model.settings) | shape,
        "tokenizer": rule,
        "checkpoints": [{"name": name, "tensors": entries} for name, entries, _ in weights],
    }
    script = bundle()
    style = STYLE_SHEET.read_text("ascii") + (PAGE / "lab.css").read_text("ascii")
    elements = []
    for index, (_, _, text) in enumerate(weights):
        elements.append(f'<script type="text/plain" id="weights-{index}">{text}</script>')
    parts = {
        "script_hash": _hash(script),
        "style_hash": _hash(style),
        "title": html.escape(facts["title"]),
        "about": html.escape(facts["about"]),
        "token": html.escape(facts["token"]),
        "style": style,
        "script": script,
        "facts": json.dumps(all_facts, separators=(",", ":")).replace("<", "\\u003c"),
        "weights": "\n".join(elements),
    }
    skeleton = (PAGE / "lab.html").read_text("utf-8")
    page = re.sub(r"\{([a-z_]+)\}", lambda match: parts[match[1]], skeleton)
    return page.encode("utf-8")


def _hash(text: str) -> str:
    """The name of a script or style in a content security policy."""
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"


def rule_of(tokenizer: Tokenizer, file: str | Path) -> dict[str, Any]:
    """What page/tokenizer.js needs to turn text into ids and back; `file` is the tokenizer's own."""
    rule: dict[str, Any] = {
        "kind": tokenizer.kind,
        "tokens": tokenizer.tokens,
        "specials": sorted(tokenizer.specials),
        "banned": banned_ids(tokenizer),
        "sos_id": tokenizer.sos_id,
        "eos_id": tokenizer.eos_id,
        "unk_id": tokenizer.unk_id,
    }
    if isinstance(tokenizer, WordTokenizer):
        rule["hidden"] = sorted(tokenizer.specials - {tokenizer.unk_id})
        rule["lower_case"] = tokenizer.splitter.lower_case
        rule["punctuation"] = tokenizer.splitter.punctuation
        return rule
    content = read_json(file, "vocab")
    merges = content["model"].get("merges", [])
    rule["merges"] = [" ".join(pair) for pair in merges]
    rule["lower_case"] = bool(content.get("normalizer"))
    return rule
