"""`make neighbours`: what the tools that read our exports compute, next to what tinylm computes.

    python -m tests.neighbours                                 all tools, and results.json is written
    python -m tests.neighbours --tools tokenizers_alone --models 3   this tool and fewer models
    python -m tests.neighbours --work FOLDER                   the models in this folder, drawn there if it is empty

Exits with 1 if a difference is above its bound.
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
from typing import Any

from tests.neighbours.environments import TOOLS, command_of
from tests.neighbours.page import RESULTS, difference, is_good
from tinylm.base.files import write_json


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m tests.neighbours", description="Read drawn exports with other tools."
    )
    parser.add_argument(
        "--tools",
        nargs="+",
        choices=TOOLS,
        default=list(TOOLS),
        metavar="NAME",
        help="of consumers/",
    )
    parser.add_argument("--seed", type=int, default=1, help="of all that is drawn")
    parser.add_argument("--models", type=int, default=10, help="how many are drawn")
    parser.add_argument("--work", type=Path, help="keep the models in this folder")
    return parser.parse_args()


def compare(tool: str, work: Path) -> tuple[list[dict[str, Any]], bool]:
    """(the lines that a tool's script prints, whether it ended as it should)."""
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
    for line in lines:
        mark = " " if is_good(line) else "!"
        name = f"{line['tool']} {line['version']}"
        print(f"{mark} {name:<24}{line['compared']:<62}{line['models']:>3}  {difference(line)}")
    return lines, ended.returncode == 0


def main() -> int:
    options = parse()
    with tempfile.TemporaryDirectory() as name:
        work = (options.work or Path(name)).resolve()
        if not any(work.glob("*/card.json")):
            from tests.neighbours.models import write_models

            write_models(work, options.seed, options.models)
        found, ended_well = [], True
        for tool in options.tools:
            lines, is_well = compare(tool, work)
            found += lines
            ended_well &= is_well
    # Of a part of the tools or of other models nothing is kept: the page shows one complete run.
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
    return 0 if ended_well else 1


def processor() -> str:
    """Its name in /proc/cpuinfo, or what Python knows of it."""
    path = Path("/proc/cpuinfo")
    for line in path.read_text("utf-8").splitlines() if path.exists() else []:
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


if __name__ == "__main__":
    sys.exit(main())
