"""The pictures of report/lab.html in its light and its dark style, taken in Chromium."""

import tempfile
from pathlib import Path

from tests.lab.browser import Browser, chromium
from tests.pictures.noted import with_note

PAGE = Path("report/lab.html")
NAMES = {"lab.png": False, "lab-dark.png": True}  # dark?


def take(browser: Browser, target: Path, dark: bool) -> None:
    """A sample story, the head that copied a word in it, and the next word without that head."""
    browser.open(PAGE, 1366, 700, dark)
    browser.click("#samples button")
    browser.click('#tabs [data-view="heads"]')
    browser.click("#copied")
    browser.click('.head[data-chosen="true"] input')
    browser.ask("scrollTo(0, 0); document.querySelector('.story').scrollTo(0, 0)")
    browser.screenshot(target)


def pictures(run: str) -> dict[str, bytes]:
    """{name: PNG file} of the run in this folder."""
    found = {}
    with tempfile.TemporaryDirectory() as folder, chromium(Path(folder, "profile")) as browser:
        for name, dark in NAMES.items():
            target = Path(folder, name)
            take(browser, target, dark)
            found[name] = with_note(target.read_bytes(), run)
    return found
