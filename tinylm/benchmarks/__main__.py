"""`make bench`: every line of the list, or those named, one after the other; earlier results of other lines stay."""

import argparse
import importlib
import sys

from tinylm.benchmarks.options import LINES, add_options, options_of, run_line
from tinylm.host.command import CommandFailed, guard


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tinylm.benchmarks", description=__doc__)
    parser.add_argument("lines", nargs="*", metavar="LINE", help=f"default: all: {' '.join(LINES)}")
    add_options(parser)
    arguments = parser.parse_args()
    unknown = sorted(set(arguments.lines) - set(LINES))
    if unknown:
        parser.error(f"{' '.join(unknown)}: no such line; allowed: {' '.join(LINES)}")
    options, failed = options_of(arguments), []
    for name in arguments.lines or LINES:
        line = importlib.import_module(f"tinylm.benchmarks.{name}")
        try:
            run_line(name, line.run, options)
        except CommandFailed as error:  # the other lines can still be measured
            failed.append(f"{name}: {error}")
            print(f"{failed[-1]}; the other lines go on", file=sys.stderr, flush=True)
    if failed:
        raise CommandFailed("\n".join(failed))


if __name__ == "__main__":
    sys.exit(guard(main))
