"""The page on V8 (package mini-racer): the browser's work, with or without a screen."""

import json
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

from py_mini_racer import MiniRacer

from tinylm.lab.build import bundle

FUNCTIONS = Path(__file__).with_suffix(".js").read_text("ascii")
BROWSER = Path(__file__).with_name("fake_dom.js").read_text("ascii")
EMPTY = ("meta", "link", "input")


class Engine:
    """The model of a page; `call` calls a function of page_engine.js or of the page's modules."""

    def __init__(self, page: bytes) -> None:
        text = page.decode("utf-8")
        (facts,) = re.findall(
            r'<script type="application/json" id="facts">(.*?)</script>', text, re.DOTALL
        )
        self.facts = json.loads(facts)
        self.context = MiniRacer()
        self.context.eval(BROWSER + bundle(with_app=False) + FUNCTIONS)
        self.call("open", facts)

    def call(self, name: str, *arguments: Any) -> Any:
        """What the function returns, by way of JSON."""
        written = ", ".join(json.dumps(argument) for argument in arguments)
        return json.loads(str(self.context.eval(f"JSON.stringify(({name})({written}) ?? null)")))


class _Tree(HTMLParser):
    """The elements of a page: [tag, attributes, children], children elements or text."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.open: list[list[Any]] = [["", {}, []]]
        self.feed(page)

    def handle_starttag(self, tag: str, attributes: Any) -> None:
        element = [tag, dict(attributes), []]
        self.open[-1][2].append(element)
        if tag not in EMPTY:
            self.open.append(element)

    def handle_endtag(self, tag: str) -> None:
        self.open.pop()

    def handle_data(self, data: str) -> None:
        self.open[-1][2].append(data)


class UsedPage(Engine):
    """The whole page with app.js, used as a reader uses it."""

    def __init__(self, page: bytes) -> None:
        self.context = MiniRacer()
        tree = _Tree(page.decode("utf-8")).open[0][2]
        root = next(node for node in tree if node[0] == "html")
        self.context.eval(f"{BROWSER} documentElement = built({json.dumps(root)});")
        self.context.eval(bundle())

    def click(self, selector: str, index: int = 0) -> None:
        """Click the element of that number, and wait until the page does nothing any more."""
        self.call("(s, i) => find(s)[i].send('click')", selector, index)
        while self.call("turn"):
            pass

    def fill(self, selector: str, value: str) -> None:
        """Type into an input."""
        self.call("(s, v) => { find(s)[0].value = v; find(s)[0].send('input'); }", selector, value)

    def texts(self, selector: str) -> list[str]:
        """The text of each element."""
        texts: list[str] = self.call("(s) => find(s).map((one) => one.textContent)", selector)
        return texts
