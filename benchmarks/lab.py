"""The story lab in headless Chromium: the line `lab`. The model has the shape of word-50k."""

import shutil
import time
from pathlib import Path

from benchmarks.checkpoint import PROMPT, checkpoint
from benchmarks.frame import Options, Row, run_command, spread, versions

TOKENS = 180  # of a timed text
MEASURED = {
    "opening the page": "s",
    "first token": "ms",
    "sampling, word-50k's shape, one core": "tokens/s",
}
_TIMED = """([prompt, count]) => {
  lab.rules.stop = false;
  lab.start(prompt);
  const begin = performance.now();
  lab.grow();
  const first = performance.now() - begin;
  for (let i = 1; i < count; i++) lab.grow();
  return [first, (1000 * count) / (performance.now() - begin)];
}"""


def trials_in_chromium(page: Path, tokens: int, trials: int) -> list[tuple[float, ...]]:
    """The values of MEASURED in each trial (package playwright)."""
    from playwright.sync_api import sync_playwright

    path = shutil.which("chromium") or shutil.which("google-chrome")
    answers = []
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        tab = browser.new_page()
        for _ in range(trials):
            start = time.perf_counter()
            tab.goto(page.as_uri())
            tab.wait_for_selector("#lab:not([hidden])")
            opened_s = time.perf_counter() - start
            answers.append((opened_s, *tab.evaluate(_TIMED, [PROMPT, tokens])))
    return answers


def lab(options: Options) -> list[Row]:
    """Size of the page, time to open it, time of the first token, and tokens per second."""
    made = checkpoint(options)
    page = (options.work / "lab.html").absolute()
    model = ["--models", made["models"], "--vocab", made["vocab"]]
    run_command("tinylm.cli", "lab", "-o", str(page), *model)
    rows = [Row("size of the page", "MiB", spread([page.stat().st_size / 2**20]))]
    if "playwright" not in versions():
        print("playwright is not installed: the page was not opened", flush=True)
        return rows
    answers = trials_in_chromium(page, 5 if options.tiny else TOKENS, options.trials)
    for (what, unit), values in zip(MEASURED.items(), zip(*answers), strict=True):
        rows.append(Row(what, unit, spread(values)))
    return rows
