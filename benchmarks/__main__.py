"""Measure tinylm and other tools. Every line is measured, or those named; results of other lines are kept.

`race` is a command of its own: a race to the floor of the storybook.
"""

import argparse
import os
import sys
import time
from pathlib import Path

from benchmarks import decoding, loss, race, stage, training
from benchmarks.frame import Options, as_record, keep, table, versions
from tinylm.base.command import CommandFailed, Parser, run_command
from tinylm.base.config import InputError
from tinylm.base.files import read_json
from tinylm.base.runtime import conditions
from tinylm.base.starting import start_command

RESULTS = Path("benchmarks/results.json")
LINES = {
    "training": training.training,
    "training_storybook": training.training_storybook,
    "stage": stage.stage,
    "loss": loss.loss,
    "one_prompt": decoding.one_prompt,
    "twenty_prompts": decoding.twenty_prompts,
}


def run_line(name: str, options: Options) -> None:
    """Run one line, print its rows and keep them, unless they only show that the line runs."""
    measured_on = conditions(None, options.threads) | {
        "load_before": round(os.getloadavg()[0], 2),
        "peers": versions(),
        "written": time.strftime("%Y-%m-%d %H:%M"),
    }
    print(f"{name}: {measured_on}", flush=True)
    rows = LINES[name](options)
    measured_on |= {"load_after": round(os.getloadavg()[0], 2)}
    line = as_record(rows, measured_on)
    print(table({name: line}), flush=True)
    if not options.tiny:
        keep(RESULTS, name, line)


def count(text: str) -> int:
    """A whole number from 1, also written as 5e5, for argparse."""
    value = float(text)
    if not (1 <= value < 1e15 and value.is_integer()):
        raise argparse.ArgumentTypeError(f"expected a whole number >= 1, got {text}")
    return int(value)


def clone_of_nanogpt(path: str) -> Path:
    """The folder, for argparse."""
    if not Path(path, "model.py").is_file():
        raise argparse.ArgumentTypeError(f"expected a clone of nanoGPT, but {path} has no model.py")
    return Path(path).absolute()


def main() -> None:
    start_command()  # all contenders inherit the environment that it sets
    if sys.argv[1:2] == ["race"]:
        race.main(sys.argv[2:])
        return
    parser = Parser(
        prog="python -m benchmarks", description=__doc__, argument_default=argparse.SUPPRESS
    )
    add = parser.add_argument
    add("lines", nargs="*", metavar="LINE", help=f"of: {' '.join(LINES)}; or race, with --help")
    add("--table", action="store_true", help="print the recorded results")
    add("--trials", type=count, help=f"default {Options.trials}")
    add("--tiny", action="store_true", help="show only that a line runs")
    add("--threads", type=count, help="default: all cores")
    add("--work", type=Path, help=f"default {Options.work}")
    add("--nanogpt", type=clone_of_nanogpt, help="a clone of nanoGPT, to compare with")
    add("--horizons", type=count, nargs="+", help="tokens of line loss")
    given = vars(parser.parse_args())
    lines = given.pop("lines", None) or LINES
    if given.pop("table", False):
        print(table(read_json(RESULTS)))
        return
    unknown = sorted(set(lines) - set(LINES))
    if unknown:
        raise InputError(f"LINE: expected any of {' '.join(LINES)}, got {' '.join(unknown)}")
    options = Options(**given)
    failed = []
    for name in lines:
        try:
            run_line(name, options)
        except CommandFailed as error:  # the other lines can still be measured
            failed.append(f"{name}: {error}")
            print(failed[-1], file=sys.stderr, flush=True)
    if failed:
        raise CommandFailed("\n".join(failed))


if __name__ == "__main__":
    sys.exit(run_command(main))
