"""The story lab's page in headless Chromium (package playwright)."""

import shutil
import time
from collections.abc import Mapping
from typing import Any

from benchmarks.frame import Setup, Step

_TIMED = """(count) => {
  lab.rules.stop = false;
  lab.start("once upon a time");
  const begin = performance.now();
  lab.grow();
  const first = performance.now() - begin;
  for (let i = 1; i < count; i++) lab.grow();
  return [first, (1000 * count) / (performance.now() - begin)];
}"""


def chromium(setup: Setup) -> Step:
    """setup: page (its address), tokens of a timed text. A trial answers {open_s, first_ms, tokens_per_s}."""
    from playwright.sync_api import sync_playwright

    playwright = sync_playwright().start()
    path = shutil.which("chromium") or shutil.which("google-chrome")
    browser = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
    tab = browser.new_page()

    def step(_: Mapping[str, Any]) -> dict[str, Any]:
        start = time.perf_counter()
        tab.goto(setup["page"])
        tab.wait_for_selector("#lab:not([hidden])")
        opened = time.perf_counter() - start
        first, rate = tab.evaluate(_TIMED, setup["tokens"])
        return {"open_s": opened, "first_ms": first, "tokens_per_s": rate}

    return step
