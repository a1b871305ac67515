"""The lines of `make bench`, and how one is run and kept."""

import importlib
from collections.abc import Callable, Sequence
from typing import Any

from benchmarks import record
from benchmarks.options import Options, versions
from tinylm.host.runtime import conditions, in_words

Run = Callable[[Options], Sequence[record.Row]]
# Each line is the function of its name in this module: options -> rows.
LINES = {
    "training": "training",
    "loss": "loss",
    "one_prompt": "decoding",
    "twenty_prompts": "decoding",
    "start": "commands",
    "repro": "commands",
    "lab": "lab",
}


def line(name: str) -> Run:
    """The line's function."""
    return getattr(importlib.import_module(f"benchmarks.{LINES[name]}"), name)


def run_line(name: str, options: Options, run: Run) -> None:
    """Run one line, print and keep its rows, and rewrite the page if there is one."""
    measured_on: dict[str, Any] = conditions(None, options.threads)
    measured_on |= {"load": record.load_average(), "turns": options.trials}
    if options.tiny:
        measured_on |= {"size": "tiny: no figure of this line means anything"}
    print(f"{name}: {in_words(measured_on)}", flush=True)
    rows = run(options)
    peers = in_words(versions(options.python))
    measured_on |= {"load_after": record.load_average(), "peers": peers, "written": record.stamp()}
    results = record.keep(options.results, name, rows, measured_on)
    print(record.table(results, [name]), flush=True)
    if options.page.exists() and not options.tiny:
        record.put(options.page, record.RESULTS, record.table(results, list(LINES)))
