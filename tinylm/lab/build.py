"""lab.html: one file that opens offline and runs the trained model in the browser.

The model computes in plain JavaScript (page/model.js).
"""

import base64
import dataclasses
import hashlib
import html
import json
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tinylm.base.config import InputError
from tinylm.base.files import read_json
from tinylm.decoding.texts import banned_ids
from tinylm.model.transformer import TinyLM
from tinylm.report.html_page import STYLE_SHEET
from tinylm.text.words import normalising_steps, word_patterns
from tinylm.vocab.tokenizer import Tokenizer
from tinylm.vocab.words import WordTokenizer

PAGE = Path(__file__).parent / "page"
NORM_KINDS = ("layer", "rms", "std")  # of page/model.js
MAX_PARAMETERS = 20_000_000  # a page of about 27 MB, 80 MB in the browser's memory
MAX_WEIGHTS = 2_945_000  # bytes of all weights, so that a page with checkpoints has 3 MiB at most
COARSEST = 4  # weights of earlier checkpoints are rounded to whole numbers from -4 to 4
ROWS = 256  # rows of a matrix to round at a time, to save memory
PAIRS = "".join(sign for sign in map(chr, range(33, 127)) if sign not in "\"'<>&\\`")  # 81 are used
CLIPPED = np.linspace(0.5, 1.0, 11)  # scales to try for a row, as shares of its largest weight


def bundle(with_app: bool = True) -> str:
    """The page's modules as one script, app.js last, without imports and exports.

    Inside the folder they are ordinary modules. Names at their top level are all different.
    """
    paths = sorted(PAGE.glob("*.js"))
    paths.remove(PAGE / "app.js")
    if with_app:
        paths.append(PAGE / "app.js")
    script = "\n".join(path.read_text("ascii") for path in paths)
    script = re.sub(r"^import .*\n", "", script, flags=re.MULTILINE)
    return re.sub(r"^export ", "", script, flags=re.MULTILINE)


def build_page(
    model: TinyLM,
    rule: Mapping[str, Any],
    facts: Mapping[str, Any],
    checkpoints: Sequence[tuple[str, TinyLM]] = (),
    place: int | None = None,
    name: str = "the trained model",
) -> bytes:
    """The page's bytes; the same for the same arguments.

    rule: of the tokenizer (`rule_of`).
    facts: what the page shows of the run (`tinylm.lab.making.facts`).
    checkpoints: (name, model at another time of the training), in order. As many as fit into
    MAX_WEIGHTS are used, evenly spaced, the first always among them. Their weights are rounded more
    coarsely.
    place: how many of the checkpoints are earlier than the model; None: all. name: of the model.
    Raises InputError for a model of more than MAX_PARAMETERS, or with a norm that page/model.js lacks.
    """
    size = sum(parameter.numel() for parameter in model.parameters())
    if size > MAX_PARAMETERS:
        raise InputError(
            f"story lab: expected a model of at most {MAX_PARAMETERS:,} parameters, "
            f"which a browser opens in seconds, got {size:,}"
        )
    kind = model.settings.norm_kind
    if kind not in NORM_KINDS:
        wanted = ", ".join(NORM_KINDS)
        raise InputError(f"story lab: model.norm_kind: expected one of {wanted}, got {kind}")
    trained = _packed(name, model, _exactly)
    room = MAX_WEIGHTS - len(json.dumps(trained))
    place = len(checkpoints) if place is None else place
    kept = []
    earlier = 0
    if checkpoints:
        one = len(json.dumps(_packed("earlier", model, _coarsely)))
        for index in _spread(len(checkpoints), room // one):
            kept.append(_packed(*checkpoints[index], _coarsely))
            earlier += index < place
    kept.insert(earlier, trained)
    page_facts = {
        **facts,
        "settings": {
            **dataclasses.asdict(model.settings),
            "vocab_size": model.vocab_size,
            "width": model.width,
        },
        "tokenizer": rule,
        "pairs": PAIRS,
        "checkpoints": kept,
        "trained": earlier,  # the index of the trained model among them
    }
    script = bundle()
    style = STYLE_SHEET.read_text("ascii") + (PAGE / "lab.css").read_text("ascii")
    parts = {
        "script_hash": _hash(script),
        "style_hash": _hash(style),
        "title": html.escape(facts["title"]),
        "about": html.escape(facts["about"]),
        "token": html.escape(facts["token"]),
        "links": _links(facts.get("links", {})),
        "style": style,
        "script": script,
        "facts": json.dumps(page_facts, separators=(",", ":")).replace("<", "\\u003c"),
    }
    skeleton = (PAGE / "lab.html").read_text("utf-8")
    page = re.sub(r"\{([a-z_]+)\}", lambda match: parts[match[1]], skeleton)
    return page.encode("utf-8")


def _links(links: Mapping[str, str]) -> str:
    """A line of links, by their text; nothing without one."""
    anchors = [
        f'<a href="{html.escape(target)}">{html.escape(text)}</a>' for text, target in links.items()
    ]
    return f'<p class="note">{" &middot; ".join(anchors)}</p>' if anchors else ""


def _spread(size: int, room: int) -> list[int]:
    """The indices of at most `room` of `size` checkpoints, evenly spaced, the first always among them."""
    count = max(0, min(room, size))
    chosen: list[int] = np.linspace(0, size - 1, count).round().astype(int).tolist()
    return chosen


def _packed(
    name: str, model: TinyLM, pack: Callable[[np.ndarray], dict[str, str]]
) -> dict[str, Any]:
    """A checkpoint as page/weights.js reads it; pack: for each tensor, `_exactly` or `_coarsely`."""
    tensors = {}
    for tensor_name, tensor in model.state_dict().items():
        values = tensor.detach().cpu().numpy()
        tensors[tensor_name] = {"shape": list(values.shape), **pack(values)}
    return {"name": name, "tensors": tensors}


def _exactly(matrix: np.ndarray) -> dict[str, str]:
    """A matrix as a float32 scale for each row, and numbers from -127 to 127, the row's largest.

    Other tensors stay in float32.
    """
    if matrix.ndim != 2:
        return {"numbers": _base64(matrix.astype("<f4"))}
    scales = (np.abs(matrix).max(axis=1) / 127).astype("<f4")
    divisors = np.where(scales > 0, scales, 1)[:, None]
    numbers = np.rint(matrix / divisors).clip(-127, 127).astype(np.int8)
    return {"scales": _base64(scales), "numbers": _base64(numbers)}


def _coarsely(matrix: np.ndarray) -> dict[str, str]:
    """A matrix as a scale for each row, and numbers from -4 to 4, two in one character of PAIRS.

    Each row has the scale of CLIPPED with the least rounding error. Scales and other tensors are in
    bfloat16.
    """
    if matrix.ndim != 2:
        return {"bfloat16": _base64(_bfloat16(matrix))}
    parts = [matrix[start : start + ROWS] for start in range(0, len(matrix), ROWS)]
    scales_and_numbers = [_nearest(part) for part in parts]
    scales = np.concatenate([of_part for of_part, _ in scales_and_numbers])
    levels = np.concatenate([numbers.ravel() for _, numbers in scales_and_numbers]) + COARSEST
    if levels.size % 2:
        levels = np.append(levels, 0)
    pairs = levels[::2] * (2 * COARSEST + 1) + levels[1::2]
    text = "".join(PAIRS[pair] for pair in pairs.tolist())
    return {"bfloat16": _base64(_bfloat16(scales)), "coarse": text}


def _nearest(matrix: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """For each row, the scale with the least rounding error (R,), and the rounded numbers (R, D)."""
    largest = np.abs(matrix).max(axis=1)
    largest = np.where(largest > 0, largest, 1)
    scales = CLIPPED[:, None] * largest / COARSEST  # (scales tried, R)
    numbers = np.rint(matrix / scales[:, :, None]).clip(-COARSEST, COARSEST)
    errors = np.square(numbers * scales[:, :, None] - matrix).sum(axis=2)
    best = errors.argmin(axis=0)
    rows = np.arange(len(matrix))
    return scales[best, rows], numbers[best, rows].astype(int)


def _bfloat16(values: np.ndarray) -> np.ndarray:
    """The upper 16 bits of each float32, rounded."""
    bits = np.asarray(values, dtype="<f4").view("<u4")
    return ((bits + np.uint32(0x8000)) >> 16).astype("<u2")


def _base64(values: np.ndarray) -> str:
    return base64.b64encode(values.tobytes()).decode("ascii")


def _hash(text: str) -> str:
    """The name of a script or style in a content security policy."""
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"


def _shown(tokenizer: Tokenizer) -> dict[int, str]:
    """The tokens that are not shown by their name."""
    shown = {index: tokenizer.shown(index) for index in range(len(tokenizer))}
    return {index: text for index, text in shown.items() if text != tokenizer.tokens[index]}


def rule_of(tokenizer: Tokenizer, file: str | Path) -> dict[str, Any]:
    """What page/tokenizer.js needs to turn text into ids and back; `file` is the tokenizer's own."""
    rule: dict[str, Any] = {
        "kind": tokenizer.kind,
        "tokens": tokenizer.tokens,
        "shown": _shown(tokenizer),
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
        rule["steps"] = normalising_steps(rule["lower_case"], rule["punctuation"])
        rule["words"] = word_patterns(rule["punctuation"])
        return rule
    content = read_json(file, "vocab")
    merges = content["model"].get("merges", [])
    rule["merges"] = [" ".join(pair) for pair in merges]
    rule["lower_case"] = tokenizer.normalise("A") == "a"
    return rule
