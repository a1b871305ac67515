"""`make neighbours`: compares what other tools compute from exports with what tinylm computes.

    python -m tests.neighbours                                       all tools; writes results.json
    python -m tests.neighbours --tools tokenizers_alone --models 3   one tool and fewer models
    python -m tests.neighbours --work FOLDER                         models in FOLDER, drawn there if it has none

Exits with 1 if a comparison fails.
"""

import argparse
import datetime
import json
import os
import platform
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.neighbours.environments import TOOLS, command_of
from tests.neighbours.models import write_models
from tests.neighbours.page import RESULTS, Lines, difference, is_good
from tinylm.base.files import write_json


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m tests.neighbours",
        description="Compare other tools with tinylm on exports of random models.",
    )
    parser.add_argument(
        "--tools",
        nargs="+",
        choices=TOOLS,
        default=list(TOOLS),
        metavar="NAME",
        help="scripts in consumers/, without .py or .mjs",
    )
    parser.add_argument("--seed", type=int, default=1, help="of all random choices")
    parser.add_argument("--models", type=int, default=10, help="number of models")
    parser.add_argument("--work", type=Path, help="use the models in this folder, and keep them")
    return parser.parse_args()


def compare(tool: str, work: Path) -> tuple[Lines, bool]:
    """Run a tool's script. Returns the lines that it printed, and whether all comparisons passed."""
    environment = os.environ | {
        "HF_HOME": str(work / "cache"),
        "HF_HUB_OFFLINE": "1",
        "TOKENIZERS_PARALLELISM": "false",
        "CUDA_VISIBLE_DEVICES": "",
    }
    command = [*command_of(tool), str(work)]
    ended = subprocess.run(command, env=environment, capture_output=True, text=True)
    lines = [json.loads(line) for line in ended.stdout.splitlines() if line.startswith("{")]
    if not lines or (ended.returncode and all(map(is_good, lines))):
        print(f"{tool}: exit code {ended.returncode}\n{ended.stderr[-3000:]}", file=sys.stderr)
    return lines, ended.returncode == 0


def show(lines: Lines) -> None:
    """Print a row for each comparison; ! marks those above their bounds."""
    for line in lines:
        mark = " " if is_good(line) else "!"
        name = f"{line['tool']} {line['version']}"
        print(f"{mark} {name:<24}{line['compared']:<62}{line['models']:>3}  {difference(line)}")


def main() -> int:
    options = parse()
    with tempfile.TemporaryDirectory() as name:
        work = (options.work or Path(name)).resolve()
        if not any(work.glob("*/card.json")):
            write_models(work, options.seed, options.models)
        found: Lines = []
        all_passed = True
        for tool in options.tools:
            lines, passed = compare(tool, work)
            show(lines)
            found += lines
            all_passed &= passed
    # The page shows one complete run, so results of some tools only, or of models in --work, are not kept.
    if options.tools == list(TOOLS) and options.work is None:
        write_json(
            RESULTS,
            {
                "date": datetime.date.today().isoformat(),
                "processor": processor(),
                "python": platform.python_version(),
                "seed": options.seed,
                "models": options.models,
                "lines": found,
            },
        )
    return 0 if all_passed else 1


def processor() -> str:
    """The processor's name, from /proc/cpuinfo or else from Python."""
    path = Path("/proc/cpuinfo")
    for line in path.read_text("utf-8").splitlines() if path.exists() else []:
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


if __name__ == "__main__":
    sys.exit(main())
