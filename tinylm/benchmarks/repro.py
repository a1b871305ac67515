"""The pipeline itself: `dvc repro` of the default preset from nothing, and again with nothing to do."""

import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tinylm.benchmarks.interleaved import ROOT, spread
from tinylm.benchmarks.options import Options, command
from tinylm.benchmarks.record import Row
from tinylm.host.command import CommandFailed

NAME = "repro"


def clone(folder: Path) -> Path:
    """This repository's HEAD in a folder of its own, without what DVC knows of earlier runs."""
    subprocess.run(["git", "clone", "--quiet", str(ROOT), str(folder)], check=True)
    (folder / "dvc.lock").unlink(missing_ok=True)
    for name in ("metrics", "plots"):
        shutil.rmtree(folder / name, ignore_errors=True)
    return folder


def seconds(folder: Path, *command: str) -> float:
    """Wall time of a command in the clone, from its start to its end. Raises CommandFailed where it fails."""
    start = time.perf_counter()
    made = subprocess.run([sys.executable, "-m", *command], cwd=folder, capture_output=True, text=True, check=False)
    if made.returncode:
        raise CommandFailed(f"{' '.join(command)}: {made.stderr.strip()[-400:]}")
    return time.perf_counter() - start


def run(options: Options) -> list[Row]:
    """`dvc repro` of the default preset: from nothing, and with nothing to do."""
    target = ["download"] if options.tiny else []
    with tempfile.TemporaryDirectory() as parent:
        folder = clone(Path(parent) / "clone")
        whole = seconds(folder, "dvc", "repro", *target)
        print(f"dvc repro from nothing: {whole:.1f} s", flush=True)
        again = spread(seconds(folder, "dvc", "repro", *target) for _ in range(options.turns))
    return [
        Row(
            "default dvc repro from nothing", "s", spread([whole]), figure=whole, figure_unit="s", must=300,
            higher=False, note="one run",
        ),
        Row("dvc repro with nothing to do", "s", again, figure=again["median"], figure_unit="s", must=2, higher=False),
    ]  # fmt: skip


if __name__ == "__main__":
    command(NAME, run)
