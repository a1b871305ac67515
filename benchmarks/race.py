"""A race to the floor: who comes nearest to the generator of the storybook after 1.6 M words?

`train` trains an entry, a params.yaml or a patch, with several seeds. `judge` measures its runs on stories drawn from a seed
that is given then, compares it with the best entry so far and appends it to benchmarks/race.json. `table` writes the table of
docs/how-to/race.md.
"""

import argparse
import json
import math
import os
import re
import statistics
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.frame import ROOT
from benchmarks.race_entry import (
    FEWEST_SEEDS,
    finished_runs,
    open_entry,
    train,
)
from tinylm.base.command import CommandFailed, Parser
from tinylm.base.config import InputError
from tinylm.base.files import read_json, write_bytes, write_json
from tinylm.evaluate.significance import difference_over_seeds, p_value
from tinylm.run.interval import student_critical_value

RECORD = ROOT / "benchmarks/race.json"
PAGE = ROOT / "docs/how-to/race.md"
WORK = Path(".bench/race")
LEVEL = 0.01  # p of a better entry is below this
COLUMNS = (
    "entry", "nats above the floor", "seeds", "best before", "p", "verdict", "updates", "operations", "minutes",
    "processor",
)  # fmt: skip
NAME = re.compile(r"[a-z0-9][a-z0-9-]*")

Row = dict[str, Any]  # an entry of race.json


# ---------------------------------------------------------------- statistics


class Mean(NamedTuple):
    """A mean over seeds with its 95 % interval."""

    value: float
    low: float
    high: float


def mean_over_seeds(values: Sequence[float]) -> Mean:
    """The mean of at least two values, with Student's 95 % interval."""
    count = len(values)
    mean = statistics.fmean(values)
    half = student_critical_value(0.05, count - 1) * statistics.stdev(values) / math.sqrt(count)
    return Mean(mean, mean - half, mean + half)


# ---------------------------------------------------------------- judging


def read_record() -> list[Row]:
    """The entries judged so far."""
    rows: list[Row] = read_json(RECORD) if RECORD.exists() else []
    return rows


def nats_of(runs: Sequence[Row]) -> list[float]:
    return [run["nats"] for run in runs]


def best_of(rows: Sequence[Row]) -> str:
    """The name of the entry to beat: the last one that was better than the one before; "" at the start."""
    return next((row["entry"] for row in reversed(rows) if row["better"]), "")


def measured(folder: Path, stories_seed: int) -> list[Row]:
    """The measures of an entry's finished runs, by the code that trained them. Raises CommandFailed."""
    runs = [str(run.absolute()) for run in finished_runs(folder).values()]
    code = folder / "code"
    root = code.absolute() if code.exists() else ROOT
    command = [sys.executable, "-m", "benchmarks.race_judge", str(stories_seed), *runs]
    environment = os.environ | {"PYTHONPATH": str(root)}
    done = subprocess.run(command, cwd=root, env=environment, capture_output=True, text=True)
    if done.returncode:
        lines = done.stderr.strip().splitlines() or ["failed"]
        raise CommandFailed(f"{folder}: {lines[-1]}")
    rows: list[Row] = json.loads(done.stdout.splitlines()[-1])
    return rows


def judged(name: str, what: str, work: Path, stories_seed: int) -> Row:
    """The row of an entry: measured, and compared with the best one on the same stories."""
    rows = read_record()
    if name in {row["entry"] for row in rows}:
        raise InputError(f"NAME: expected an entry that is not judged yet, got {name}")
    if stories_seed in {row["stories_seed"] for row in rows}:
        raise InputError(f"--stories-seed: expected a new seed, got {stories_seed}")
    before = best_of(rows)
    row: Row = {"entry": name, "what": what, "stories_seed": stories_seed, "better": True}
    row["runs"] = measured(work / name, stories_seed)
    if before:
        runs_before = measured(work / before, stories_seed)
        measures = [{"seed": run["seed"], "nats": run["nats"]} for run in runs_before]
        row["before"] = {"entry": before, "runs": measures}
        gain, row["p"] = gain_and_p(row)
        row["better"] = gain > 0 and row["p"] < LEVEL
    return row


def gain_and_p(row: Row) -> tuple[float, float]:
    """(nats by which the entry is nearer than the one before, p), on the same stories.

    The test is that of `tinylm compare`: seed by seed where all seeds of one are among the other's.
    """
    before, entry = (
        {run["seed"]: run["nats"] for run in side["runs"]} for side in (row["before"], row)
    )
    gain, error = difference_over_seeds(entry, before)
    assert error is not None  # every entry has at least FEWEST_SEEDS finite losses
    return gain, float(f"{p_value(gain, [error]):.3g}")


# ---------------------------------------------------------------- the table


def range_of(values: Sequence[float | None], form: str) -> str:
    """One number, or the lowest and the highest; "–" where one is unknown."""
    known = [value for value in values if value is not None]
    if len(known) < len(values):
        return "–"
    low, high = (format(end(known), form) for end in (min, max))
    return low if low == high else f"{low} to {high}"


def cells(row: Row) -> list[str]:
    """The cells of an entry, in the order of COLUMNS."""
    runs = row["runs"]
    mean = mean_over_seeds(nats_of(runs))
    before = row.get("before")
    verdict = "better" if row["better"] else "not better"
    return [
        row["what"],
        f"{mean.value:.3f} ({mean.low:.3f} to {mean.high:.3f})",
        str(len(runs)),
        f"{statistics.fmean(nats_of(before['runs'])):.3f}" if before else "–",
        f"{row['p']:.2g}" if before else "–",
        verdict if before else "the start",
        range_of([run["updates"] for run in runs], ",.0f"),
        range_of([run["operations"] for run in runs], ".2e"),
        range_of([run["minutes"] for run in runs], ".1f"),
        ", ".join(sorted({run["processor"] for run in runs})),
    ]


def table(rows: Sequence[Row]) -> str:
    """All entries as a Markdown table, in the order in which they were judged."""
    lines = [COLUMNS, ["---"] * len(COLUMNS), *(cells(row) for row in rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def with_table(page: str, rows: Sequence[Row]) -> str:
    """The page with the table between its markers."""
    return re.sub(
        r"(<!-- race -->\n).*(<!-- /race -->)",
        lambda found: f"{found[1]}\n{table(rows)}\n\n{found[2]}",
        page,
        flags=re.DOTALL,
    )


def write_table() -> None:
    """Write the table of the page anew from the record."""
    write_bytes(PAGE, with_table(PAGE.read_text("utf-8"), read_record()).encode())


# ---------------------------------------------------------------- the command


def train_command(given: argparse.Namespace) -> None:
    """`race train`"""
    seeds = sorted(set(given.seeds))
    if len(seeds) < FEWEST_SEEDS:
        raise InputError(f"--seeds: expected at least {FEWEST_SEEDS}, got {len(seeds)}")
    train(open_entry(given.entry, given.work / given.name), seeds)


def judge_command(given: argparse.Namespace) -> None:
    """`race judge`"""
    row = judged(given.name, given.what or given.name, given.work, given.stories_seed)
    if given.busy:
        for run in row["runs"]:
            run["minutes"] = None
    write_json(RECORD, [*read_record(), row])
    write_table()
    print(table([row]))


def entry_name(text: str) -> str:
    """The name of an entry, for argparse."""
    if not NAME.fullmatch(text):
        raise argparse.ArgumentTypeError(f"expected small letters, digits and -, got {text!r}")
    return text


def parser() -> Parser:
    """The options of `python -m benchmarks race`."""
    whole = Parser(prog="python -m benchmarks race", description=__doc__)
    parts = whole.add_subparsers(dest="command", required=True, metavar="COMMAND")
    training = parts.add_parser("train", help="train an entry; an interrupted training continues")
    training.add_argument("entry", type=Path, metavar="ENTRY", help="params.yaml, or a git diff")
    training.add_argument("name", type=entry_name, metavar="NAME")
    training.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3], help="default 1 2 3")
    training.set_defaults(run=train_command)
    judging = parts.add_parser("judge", help="judge a trained entry, and append it to the table")
    judging.add_argument("name", type=entry_name, metavar="NAME")
    judging.add_argument(
        "--stories-seed", type=int, required=True, help="of the stories, not used before"
    )
    judging.add_argument("--what", help="what the entry changes, for the table; default NAME")
    judging.add_argument(
        "--busy", action="store_true", help="leave the minutes empty: the machine did other work"
    )
    judging.set_defaults(run=judge_command)
    for part in (training, judging):
        part.add_argument(
            "--work", type=Path, default=WORK, help=f"folder of all entries; default {WORK}"
        )
    writing = parts.add_parser("table", help="write the table of the page from race.json")
    writing.set_defaults(run=lambda given: write_table())
    return whole


def main(arguments: Sequence[str]) -> None:
    """`python -m benchmarks race`"""
    given = parser().parse_args(arguments)
    given.run(given)
