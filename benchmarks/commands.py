"""Commands timed as a user runs them: the lines `start` and `repro`."""

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from benchmarks.checkpoint import PROMPT, checkpoint
from benchmarks.frame import ROOT, Options, Row, run_command, seconds, spread
from tinylm.host.command import CommandFailed


def wait_for_first_word(command: list[str]) -> None:
    """Start a command and wait until the text is longer than its prompt. Raises CommandFailed if no text comes."""
    with subprocess.Popen(
        command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        text = b""
        while len(text.split()) <= len(PROMPT.split()):
            chunk = os.read(process.stdout.fileno(), 4096)
            if not chunk:
                raise CommandFailed(f"no word came: {process.stderr.read().decode().strip()}")
            text += chunk
        process.kill()


def start(options: Options) -> list[Row]:
    """`tinylm generate`: seconds from the command to the first new word."""
    made = checkpoint(options)
    model = ["--models", made["models"], "--vocab", made["vocab"]]
    command = [sys.executable, "-m", "tinylm.cli", "generate", PROMPT, *model]
    wait_for_first_word(command)  # reads the files into the page cache
    times = [seconds(lambda: wait_for_first_word(command)) for _ in range(options.trials)]
    return [Row("tinylm generate, from the command to the first new word", "s", spread(times))]


def clone(folder: Path) -> None:
    """This repository's HEAD in a folder of its own, without what DVC knows about earlier runs."""
    subprocess.run(["git", "clone", "--quiet", str(ROOT), str(folder)], check=True)
    (folder / "dvc.lock").unlink(missing_ok=True)
    for name in ("metrics", "plots"):
        shutil.rmtree(folder / name, ignore_errors=True)


def repro(options: Options) -> list[Row]:
    """`dvc repro` of the default preset: from nothing, and with nothing to do."""
    command = ["dvc", "repro", *(["download"] if options.tiny else [])]
    with tempfile.TemporaryDirectory() as parent:
        folder = Path(parent) / "clone"
        clone(folder)

        def run() -> None:
            run_command(*command, folder=folder)

        first = seconds(run)
        again = spread(seconds(run) for _ in range(options.trials))
    return [
        Row("default dvc repro from nothing", "s", spread([first])),
        Row("dvc repro with nothing to do", "s", again),
    ]
