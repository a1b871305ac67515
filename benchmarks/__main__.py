"""`make bench`: runs every line, or those named, one after the other; earlier results of other lines are kept."""

import sys

from benchmarks.lines import LINES, line, run_line
from benchmarks.options import add_options, known, options_of
from tinylm.host.command import CommandFailed, Parser, guard


def main() -> None:
    parser = Parser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("lines", nargs="*", metavar="LINE", help=f"default: all: {' '.join(LINES)}")
    add_options(parser)
    arguments = parser.parse_args()
    options, failed = options_of(arguments), []
    for name in known(arguments.lines, LINES, "line"):
        try:
            run_line(name, options, line(name))
        except CommandFailed as error:  # the other lines can still be measured
            failed.append(f"{name}: {error}")
            print(f"{failed[-1]}; the other lines go on", file=sys.stderr, flush=True)
    if failed:
        raise CommandFailed("\n".join(failed))


if __name__ == "__main__":
    sys.exit(guard(main))
