"""The page's code on V8 without a browser (package mini-racer): the browser's work without a screen."""

import base64
import json
import re
import zlib
from pathlib import Path
from typing import Any

from py_mini_racer import MiniRacer

from tinylm.lab.page.bundle import bundle

FUNCTIONS = Path(__file__).with_suffix(".js").read_text("ascii")
MODULES = (
    "package.js",
    "tokenizer.js",
    "model.js",
    "session.js",
    "decoding.js",
    "beams.js",
    "lab.js",
)


class Engine:
    """The model of a page; `call` calls a function of page_engine.js or of the page's modules."""

    def __init__(self, page: bytes) -> None:
        text = page.decode("utf-8")
        facts = _part(text, "facts")
        self.facts = json.loads(facts)
        self.context = MiniRacer()
        self.context.eval(bundle(*MODULES) + FUNCTIONS)
        last = _part(text, f"weights-{len(self.facts['checkpoints']) - 1}")
        weights = zlib.decompress(base64.b64decode(last))
        self.call("open", facts, weights.decode("latin-1"))

    def call(self, name: str, *arguments: Any) -> Any:
        """What the function returns, by way of JSON."""
        written = ", ".join(json.dumps(argument) for argument in arguments)
        return json.loads(str(self.context.eval(f"JSON.stringify(({name})({written}) ?? null)")))


def _part(page: str, name: str) -> str:
    """The text of the page's element of this name."""
    match = re.search(rf'<script type="[a-z/]+" id="{name}">(.*?)</script>', page, re.DOTALL)
    if match is None:
        raise ValueError(f"the page has no element {name}")
    return match[1]
