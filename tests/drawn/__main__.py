"""`make any MINUTES=60`: draw legal runs on all cores, check every property, show what was drawn.

    python -m tests.drawn --minutes 2              a new seed, which is printed
    python -m tests.drawn --minutes 2 --seed 7     the runs of that seed
    python -m tests.drawn --only targets           properties with this in their name
    python -m tests.drawn --repeat FILE            one written failure, with its traceback

Exits with 1 if a property failed, or if nothing was checked. Ctrl-C ends it, with what was drawn until then.
"""

import argparse
import multiprocessing
import os
import secrets
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Sequence
from contextlib import suppress
from itertools import combinations
from multiprocessing.process import BaseProcess
from pathlib import Path
from queue import Empty

from tests.drawn.drawing import FIELDS, complaints
from tests.drawn.pairs import rows
from tests.drawn.properties import check_property, from_yaml, load_properties
from tests.drawn.running import EndsEarly
from tests.drawn.search import (
    PIPELINE,
    Found,
    Search,
    choices_of,
    is_pair,
    quietly,
)

FOLDER = Path(".drawn")
SHOW_EVERY_S = 15.0
SEEDS = 1_000_000  # seeds of one process


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.drawn", description="Draw legal runs.")
    parser.add_argument("--minutes", type=float, default=2.0)
    parser.add_argument("--seed", type=int, help="of all that is drawn (default: a new one)")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--only", default="", help="properties with this in their name")
    parser.add_argument("--folder", type=Path, default=FOLDER, help="where failures are written")
    parser.add_argument("--repeat", type=Path, help="a written failure to run again")
    options = parser.parse_args()
    names = load_properties()
    if not any(options.only in name for name in names):
        parser.error(
            f"argument --only: expected a part of {', '.join(names)}, got {options.only!r}"
        )
    return options


def repeat(path: Path) -> int:
    """Check the property of a written failure again."""
    name, drawn = from_yaml(path.read_text("utf-8"))
    with tempfile.TemporaryDirectory() as name_of_folder:
        folder = Path(name_of_folder)
        try:
            check_property(name, drawn, folder)
        except EndsEarly as ending:
            print(f"{path}: {type(ending).__name__}: {ending}")
            return 0
        except Exception:
            traceback.print_exc()
            return 1
    print(f"{path}: {name} holds")
    return 0


def still_failing(folder: Path) -> list[Path]:
    """The failures that earlier searches wrote; those that hold now are removed."""
    failing = []
    for path in sorted(folder.glob("*.yaml")):
        if repeat(path):
            failing.append(path)
        else:
            path.unlink()
    return failing


def in_progress(found: Found, started: float) -> str:
    """One line."""
    whole = found.runs[PIPELINE]
    early = found.runs["Refused"] + found.runs["Diverged"]
    known = sum(number for name, number in found.runs.items() if name.startswith("known"))
    alone = sum(found.runs.values()) - whole - early - known
    minutes = (time.monotonic() - started) / 60
    return (
        f"{minutes:.1f} min: {whole} whole runs, {early} refused or diverged, {alone} of single "
        f"properties; {len(found.failures)} failures, met again {known} times"
    )


def missing_pairs(found: Found) -> tuple[list[str], int]:
    """(legal pairs of choices that no run had, number of legal pairs).

    A pair is legal if one of the runs that were drawn is still legal with it.
    """
    values = [(name, choice) for name in FIELDS for choice in choices_of(name)]
    met = set(found.pairs)
    values += sorted({value for pair in met for value in pair} - set(values), key=str)
    values = [value for value in values if is_pair(value) and found.drawn[value]]
    missing = []
    number = 0
    for first, second in combinations(values, 2):
        if first[0] == second[0]:
            continue
        if (first, second) in met or (second, first) in met:
            number += 1
        elif any(not complaints(run | dict([first, second])) for run in found.legal[:200]):
            number += 1
            missing.append(f"{first[0]} = {first[1]}, {second[0]} = {second[1]}")
    return missing, number


def summary(found: Found) -> str:
    """What was drawn: each key with its values and how often, pairs, searches, failures."""
    lines = ["", f"{'key':<28}values, and in how many of the whole runs"]
    by_key: dict[str, list[str]] = {}
    for (name, value), count in sorted(found.drawn.items(), key=lambda item: str(item[0])):
        by_key.setdefault(name, []).append(f"{'null' if value is None else value} {count}")
    lines += [f"{name:<28}{', '.join(values)}" for name, values in by_key.items()]
    missing, number = missing_pairs(found)
    counts = sorted(found.pairs.values())
    if counts:
        share = 1 - len(missing) / max(number, 1)
        middle = counts[len(counts) // 2]
        lines += [
            "",
            f"pairs of choices: {share:.1%} of {number:,} legal ones, the median one {middle} times",
        ]
        lines += [f"  not met: {pair}" for pair in missing[:20]]
    lines += ["", *(f"{count:>7} {name}" for name, count in found.runs.most_common())]
    return "\n".join(lines)


def collect(
    found: Found,
    queue: "multiprocessing.Queue[Found]",
    workers: Sequence[BaseProcess],
    started: float,
) -> None:
    """Add what the workers find to `found` until they end, and show failures and progress."""
    shown = started
    while any(worker.is_alive() for worker in workers) or not queue.empty():
        with suppress(Empty):
            part = queue.get(timeout=1)
            found.add(part)
            for path in part.failures:
                print(
                    Path(path).read_text("utf-8").partition("\nproperty:")[0],
                    f"\n  -> {path}",
                    flush=True,
                )
        if time.monotonic() > shown + SHOW_EVERY_S:
            shown = time.monotonic()
            print(in_progress(found, started), flush=True)


def main() -> int:
    options = parse()
    # A shell ignores Ctrl-C in what it runs in the background; runs that are cut would ignore it, too.
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if options.repeat:
        return repeat(options.repeat)
    options.folder.mkdir(parents=True, exist_ok=True)
    first = options.seed if options.seed is not None else secrets.randbelow(SEEDS)
    print(f"seed {first}, {options.processes} processes, {options.minutes:g} minutes", flush=True)
    failing = still_failing(options.folder)
    rows()  # computed once for all processes
    started = time.monotonic()
    context = multiprocessing.get_context("fork")
    queue: multiprocessing.Queue[Found] = context.Queue()
    workers = []
    for number in range(options.processes):
        search = Search(options.folder, 60 * options.minutes, options.only)
        arguments = (search, first + number * SEEDS, queue.put)
        workers.append(context.Process(target=quietly, args=arguments))
        workers[-1].start()
    found = Found()
    is_cut = False
    try:
        collect(found, queue, workers, started)
    except KeyboardInterrupt:  # what was found until now is shown all the same
        is_cut = True
        for worker in workers:
            worker.kill()
    print(in_progress(found, started))
    print(summary(found))
    if is_cut:
        return 130
    broken = [worker.exitcode for worker in workers if worker.exitcode]
    if broken:
        print(f"a process ended with exit code {broken[0]}")
    if not sum(found.runs.values()):
        print("nothing was checked: not one run was drawn in this time")
        return 1
    return int(bool(failing or found.failures or broken))


if __name__ == "__main__":
    sys.exit(main())
