"""Measure tinylm and other tools. Every line is measured, or those named; results of other lines are kept."""

import os
import sys
import time

from benchmarks import commands, decoding, lab, loss, training
from benchmarks.frame import keep, table
from benchmarks.options import Options, add_options, options_of, versions
from tinylm.base.config import InputError
from tinylm.base.files import read_json
from tinylm.host.command import CommandFailed, Parser, guard
from tinylm.host.runtime import conditions

LINES = {
    "training": training.training,
    "loss": loss.loss,
    "one_prompt": decoding.one_prompt,
    "twenty_prompts": decoding.twenty_prompts,
    "start": commands.start,
    "repro": commands.repro,
    "lab": lab.lab,
}


def run_line(name: str, options: Options) -> None:
    """Run one line, print its rows and keep them."""
    measured_on = conditions(None, options.threads) | {
        "load_before": round(os.getloadavg()[0], 2),
        "peers": versions(options.python),
        "written": time.strftime("%Y-%m-%d %H:%M"),
    }
    if options.tiny:
        measured_on |= {"size": "tiny: only shows that the line runs"}
    print(f"{name}: {measured_on}", flush=True)
    rows = LINES[name](options)
    measured_on |= {"load_after": round(os.getloadavg()[0], 2)}
    record = keep(options.results, name, rows, measured_on)
    print(table({name: record[name]}), flush=True)


def main() -> None:
    parser = Parser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("lines", nargs="*", metavar="LINE", help=f"of: {' '.join(LINES)}")
    parser.add_argument("--table", action="store_true", help="print the recorded results")
    add_options(parser)
    arguments = parser.parse_args()
    options = options_of(arguments)
    unknown = sorted(set(arguments.lines) - set(LINES))
    if unknown:
        raise InputError(f"{' '.join(unknown)}: no such line; allowed: {' '.join(LINES)}")
    if arguments.table:
        print(table(read_json(options.results)))
        return
    failed = []
    for name in arguments.lines or LINES:
        try:
            run_line(name, options)
        except CommandFailed as error:  # the other lines can still be measured
            failed.append(f"{name}: {error}")
            print(failed[-1], file=sys.stderr, flush=True)
    if failed:
        raise CommandFailed("\n".join(failed))


if __name__ == "__main__":
    sys.exit(guard(main))
