"""The page's code on V8 without a browser (package mini-racer): the browser's work without a screen."""

import json
import re
from pathlib import Path
from typing import Any

from py_mini_racer import MiniRacer

from tinylm.lab.build import bundle

FUNCTIONS = Path(__file__).with_suffix(".js").read_text("ascii")


class Engine:
    """The model of a page; `call` calls a function of page_engine.js or of the page's modules."""

    def __init__(self, page: bytes) -> None:
        text = page.decode("utf-8")
        (facts,) = re.findall(
            r'<script type="application/json" id="facts">(.*?)</script>', text, re.DOTALL
        )
        self.facts = json.loads(facts)
        self.context = MiniRacer()
        self.context.eval(bundle(with_app=False) + FUNCTIONS)
        self.call("open", facts)

    def call(self, name: str, *arguments: Any) -> Any:
        """What the function returns, by way of JSON."""
        written = ", ".join(json.dumps(argument) for argument in arguments)
        return json.loads(str(self.context.eval(f"JSON.stringify(({name})({written}) ?? null)")))
