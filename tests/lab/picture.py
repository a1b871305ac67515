"""`python -m tests.lab.picture` writes docs/pictures/lab.png from report/lab.html, in Chromium."""

import tempfile
from pathlib import Path

from tests.lab.browser import chromium
from tests.support.size import ROOT

PICTURE = ROOT / "docs/pictures/lab.png"


def main() -> None:
    """A sample story, the head that copied a word in it, and the next word without that head."""
    with tempfile.TemporaryDirectory() as profile, chromium(Path(profile)) as browser:
        browser.open(ROOT / "report/lab.html", 1366, 700)
        browser.click("#samples button")
        browser.click('#tabs [data-view="heads"]')
        browser.click("#copied")
        browser.click('.head[data-chosen="true"] input')
        browser.ask("scrollTo(0, 0); document.querySelector('.story').scrollTo(0, 0)")
        browser.screenshot(PICTURE)


if __name__ == "__main__":
    main()
