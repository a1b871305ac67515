"""The page's code on V8 without a browser (package mini-racer): what the browser does, minus the screen."""

import json
import re
import zlib
from pathlib import Path
from typing import Any

from py_mini_racer import MiniRacer

from tinylm.lab.package import characters
from tinylm.lab.page.bundle import bundle

ASKED = Path(__file__).with_suffix(".js").read_text("ascii")


class Engine:
    """The model of a page; `call` calls a function of page_engine.js or of the page's modules."""

    def __init__(self, page: bytes) -> None:
        text = characters(page)
        facts = _part(text, "facts")
        self.facts = json.loads(facts)
        self.context = MiniRacer()
        self.context.eval(bundle("package.js", "tokenizer.js", "lab.js", "beams.js") + ASKED)
        last = _part(text, f"weights-{len(self.facts['moments']) - 1}")
        weights = zlib.decompress(
            bytes(self.call("((text) => Array.from(bytesOf(text)))", last))
        ).decode("latin-1")
        self.call("open", facts, _part(text, "kernels"), weights)

    def call(self, name: str, *arguments: Any) -> Any:
        """What the function returns, by way of JSON."""
        written = ", ".join(json.dumps(argument) for argument in arguments)
        return json.loads(str(self.context.eval(f"JSON.stringify(({name})({written}) ?? null)")))


def _part(page: str, name: str) -> str:
    """The text of the page's element of this name."""
    found = re.search(rf'<script type="[a-z/]+" id="{name}">(.*?)</script>', page, re.DOTALL)
    if found is None:
        raise ValueError(f"the page has no element {name}")
    return found[1]
