"""The story lab in headless Chromium: the line `lab`. The model has the shape of word-50k."""

from benchmarks.checkpoint import checkpoint
from benchmarks.contenders.browser import chromium
from benchmarks.frame import Entry, Options, Row, prepared, run_command, spread

TOKENS = 180  # of a timed text
MEASURED = {
    "opening the page": ("open_s", "s"),
    "first token": ("first_ms", "ms"),
    "sampling, word-50k's shape, one core": ("tokens_per_s", "tokens/s"),
}


def lab(options: Options) -> list[Row]:
    """Size of the page, time to open it, time of the first token, and tokens per second."""
    made = checkpoint(options)
    page = (options.work / "lab.html").absolute()
    model = ["--models", made["models"], "--vocab", made["vocab"]]
    run_command("tinylm.cli", "lab", "-o", str(page), *model)
    rows = [Row("size of the page", "MiB", spread([page.stat().st_size / 2**20]))]
    setup = {"page": page.as_uri(), "tokens": 5 if options.tiny else TOKENS}
    entry = Entry(chromium, setup, needs="playwright")
    with prepared({"Chromium": entry}) as contenders:
        for contender in contenders.values():
            answers = [contender.measure() for _ in range(options.trials)]
            for what, (key, unit) in MEASURED.items():
                rows.append(Row(what, unit, spread(answer[key] for answer in answers)))
    return rows
