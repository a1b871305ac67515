"""lab.html: one file that opens offline and runs the trained model in the browser.

The model computes in WebAssembly (page/kernels.wat, two products), called from plain JavaScript modules (page/*.js). In
JavaScript alone the first of them took five to nine times as long.
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
from tinylm.lab.package import as_text, pack, to_bytes
from tinylm.lab.page.bundle import FIRST, PAGE, bundle, compiled
from tinylm.model.transformer import TinyLM
from tinylm.report.page import STYLE_SHEET
from tinylm.vocab.tokenizer import Tokenizer
from tinylm.vocab.words import WordTokenizer

MAX_PARAMETERS = 20_000_000  # a page of about 20 MB, 80 MB in the browser's memory
PAGE_BYTES = 3 << 20  # weights of earlier moments are added as long as the page stays below
MATRICES, MOMENT_MATRICES = "int8", "int4"


@dataclasses.dataclass(frozen=True)
class Moment:
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
    moments: Sequence[Moment] = (),
    matrices: str = MATRICES,
) -> bytes:
    """The page's bytes; the same for the same arguments.

    rule: of the tokenizer (`rule_of`); facts: what the page says of the run (`tinylm.lab.facts`); moments: earlier
    weights, in order, of which as many are held, evenly spaced, as fit into PAGE_BYTES; matrices: how the last weights
    are kept (package.FORMATS). Raises InputError for a model of more than MAX_PARAMETERS.
    """
    size = sum(parameter.numel() for parameter in model.parameters())
    if size > MAX_PARAMETERS:
        raise InputError(
            f"the model has {size:,} parameters; allowed in a page: at most {MAX_PARAMETERS:,}, "
            "which a browser opens in seconds"
        )
    last = pack(tensors_of(model), matrices)[:2]
    earlier = [(moment.name, *pack(moment.tensors, MOMENT_MATRICES)[:2]) for moment in moments]
    for count in range(len(earlier), -1, -1):
        held = [
            *(earlier[place] for place in _spread(len(earlier), count)),
            ("the trained model", *last),
        ]
        page = _page(model, rule, facts, held)
        if len(page) <= PAGE_BYTES:
            break
    return page


def _spread(count: int, wanted: int) -> list[int]:
    """`wanted` of `count` places, the first always among them, evenly apart."""
    return [round(place * (count - 1) / max(1, wanted - 1)) for place in range(wanted)]


def _page(
    model: TinyLM,
    rule: Mapping[str, Any],
    facts: Mapping[str, Any],
    held: Sequence[tuple[str, list[dict[str, Any]], bytes]],
) -> bytes:
    settings = dataclasses.asdict(model.settings) | {
        "vocab_size": model.vocab_size,
        "width": model.width,
    }
    known = {
        **facts,
        "settings": settings,
        "tokenizer": rule,
        "moments": [{"name": name, "tensors": entries} for name, entries, _ in held],
    }
    script, style = (
        bundle(FIRST),
        STYLE_SHEET.read_text("ascii") + (PAGE / "lab.css").read_text("ascii"),
    )
    weights = (
        f'<script type="text/plain" id="weights-{place}">{as_text(data)}</script>'
        for place, (_, _, data) in enumerate(held)
    )
    parts = {
        "script_hash": _hash(script),
        "style_hash": _hash(style),
        "title": _escaped(facts["title"]),
        "about": _escaped(facts["about"]),
        "token": _escaped(facts["token"]),
        "style": style,
        "script": script,
        "facts": json.dumps(known, separators=(",", ":")).replace("<", "\\u003c"),
        "kernels": as_text(compiled()),
        "weights": "\n".join(weights),
    }
    skeleton = (PAGE / "lab.html").read_text("utf-8")
    return to_bytes(re.sub(r"\{([a-z_]+)\}", lambda found: parts[found[1]], skeleton))


def _escaped(text: str) -> str:
    """Text as HTML in ASCII."""
    return html.escape(text).encode("ascii", "xmlcharrefreplace").decode()


def _hash(text: str) -> str:
    """How a content security policy names a script or style."""
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"


def rule_of(tokenizer: Tokenizer, file: str | Path) -> dict[str, Any]:
    """What page/tokenizer.js needs to turn text into ids and back; `file` is the tokenizer's own."""
    rule: dict[str, Any] = {
        "kind": tokenizer.kind,
        "tokens": tokenizer.tokens,
        "specials": sorted(tokenizer.specials),
        "banned": banned_ids(tokenizer),
        **{name: getattr(tokenizer, name) for name in ("sos_id", "eos_id", "unk_id")},
    }
    if isinstance(tokenizer, WordTokenizer):
        hidden = sorted(tokenizer.specials - {tokenizer.unk_id})
        split = tokenizer.split
        return rule | {
            "hidden": hidden,
            "lower_case": split.lower_case,
            "punctuation": split.punctuation,
        }
    content = read_json(file, "vocab")
    merges = content["model"]["merges"] if "model" in content else []
    return rule | {
        "merges": [" ".join(pair) for pair in merges],
        "lower_case": bool(content.get("normalizer")),
    }
