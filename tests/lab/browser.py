"""Debian's Chromium without a window, driven by its DevTools protocol through two pipes."""

import base64
import json
import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
OPTIONS = ("--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--no-first-run")
# Chromium reads commands from descriptor 3 and answers on 4.
START = 'exec "$0" --remote-debugging-pipe "$@" 3<&{commands} 4>&{answers}'


class Browser:
    """One page in Chromium: opened at a size, asked by expressions, and used as a reader uses it."""

    def __init__(self, commands: int, answers: int) -> None:
        self.commands = os.fdopen(commands, "wb", buffering=0)
        self.answers = os.fdopen(answers, "rb")
        self.count = 0
        self.session: str | None = None
        target = self.send("Target.createTarget", url="about:blank")["targetId"]
        attached = self.send("Target.attachToTarget", targetId=target, flatten=True)
        self.session = attached["sessionId"]
        self.errors: list[str] = []  # what the page threw
        self.send("Page.enable")
        self.send("Runtime.enable")

    def send(self, method: str, **parameters: Any) -> dict[str, Any]:
        """A command of the protocol; what it answers."""
        self.count += 1
        command = {"id": self.count, "method": method, "params": parameters}
        if self.session:
            command["sessionId"] = self.session
        self.commands.write(json.dumps(command).encode() + b"\0")
        while (message := self._message()).get("id") != self.count:
            if message.get("method") == "Runtime.exceptionThrown":
                self.errors.append(str(message["params"]["exceptionDetails"]))
        if "error" in message:
            raise RuntimeError(f"{method}: {message['error']}")
        result: dict[str, Any] = message["result"]
        return result

    def _message(self) -> dict[str, Any]:
        """The next message: JSON up to a zero byte."""
        text = bytearray()
        while (byte := self.answers.read(1)) != b"\0":
            if not byte:
                raise RuntimeError("Chromium ended")
            text += byte
        message: dict[str, Any] = json.loads(text)
        return message

    def open(self, file: Path, width: int, height: int, dark: bool = False) -> None:
        """A page of this machine, in a window of that size in CSS pixels."""
        size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 500}
        self.send("Emulation.setDeviceMetricsOverride", **size)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.send("Emulation.setEmulatedMedia", features=[scheme])
        self.send("Page.navigate", url="about:blank")
        self.send("Page.navigate", url=file.resolve().as_uri())
        self.wait("document.readyState === 'complete' && document.getElementById('lab') !== null")
        assert self.ask("!document.getElementById('lab').hidden"), self.errors

    def ask(self, expression: str) -> Any:
        """The value of a JavaScript expression, awaited if it is a promise."""
        answer = self.send(
            "Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True
        )
        if "exceptionDetails" in answer:
            raise RuntimeError(answer["exceptionDetails"]["exception"]["description"])
        return answer["result"].get("value")

    def wait(self, condition: str, seconds: int = 60) -> None:
        """Until an expression is true."""
        end = time.monotonic() + seconds
        while not self.ask(condition):
            if time.monotonic() > end:
                raise TimeoutError(f"expected within {seconds} s: {condition}")
            time.sleep(0.05)

    def click(self, selector: str) -> None:
        """A mouse click in the middle of an element, which is scrolled into view."""
        found = f"document.querySelector({json.dumps(selector)})"
        self.ask(f"{found}.scrollIntoView({{block: 'center'}})")
        box = self.place(selector)
        x, y = (box["left"] + box["right"]) / 2, (box["top"] + box["bottom"]) / 2
        at = {"x": x, "y": y, "button": "left", "clickCount": 1}
        for kind in ("mousePressed", "mouseReleased"):
            self.send("Input.dispatchMouseEvent", type=kind, **at)

    def place(self, selector: str) -> dict[str, float]:
        """Where an element is in the window: left, right, top, bottom."""
        code = f"document.querySelector({json.dumps(selector)}).getBoundingClientRect().toJSON()"
        box: dict[str, float] = self.ask(code)
        return box

    def hover(self, x: float, y: float) -> None:
        """Move the mouse to a place in the window."""
        self.send("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)

    def set(self, name: str, value: float) -> None:
        """Move a slider or fill a field for numbers, given by its id."""
        code = (
            "(name, value) => { const field = document.getElementById(name); field.value = value;"
        )
        code += " field.dispatchEvent(new Event('input')); }"
        self.ask(f"({code})({json.dumps(name)}, {value})")

    def each(self, selector: str, expression: str) -> list[Any]:
        """The value of an expression of `one` for each element."""
        found = f"[...document.querySelectorAll({json.dumps(selector)})]"
        values: list[Any] = self.ask(f"{found}.map((one) => {expression})")
        return values

    def texts(self, selector: str) -> list[str]:
        """The text of each element."""
        return self.each(selector, "one.textContent")

    def type(self, selector: str, text: str) -> None:
        """Replace what a text field holds, by the keyboard."""
        self.ask(f"document.querySelector({json.dumps(selector)}).select()")
        self.ask(f"document.querySelector({json.dumps(selector)}).focus()")
        self.send("Input.insertText", text=text)

    def screenshot(self, file: Path) -> None:
        """What the window shows, as a PNG file."""
        shot = self.send("Page.captureScreenshot", format="png")["data"]
        file.write_bytes(base64.b64decode(shot))


@contextmanager
def chromium(profile: Path) -> Iterator[Browser]:
    """A browser with its own empty profile folder, ended afterwards."""
    read_commands, commands = os.pipe()
    answers, write_answers = os.pipe()
    start = START.format(commands=read_commands, answers=write_answers)
    options = [*OPTIONS, f"--user-data-dir={profile}"]
    process = subprocess.Popen(
        ["/bin/bash", "-c", start, str(CHROMIUM), *options],
        pass_fds=(read_commands, write_answers),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    os.close(read_commands)
    os.close(write_answers)
    browser = Browser(commands, answers)
    try:
        yield browser
        browser.session = None
        browser.send("Browser.close")
    finally:
        browser.commands.close()
        browser.answers.close()
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()
