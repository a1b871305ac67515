"""Commands timed as a user runs them: the lines `start` and `repro`."""

import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from benchmarks.checkpoint import checkpoint
from benchmarks.interleaved import ROOT, spread
from benchmarks.options import Options
from benchmarks.record import Row
from benchmarks.watched import run_command
from tinylm.host.command import CommandFailed

PROMPT = "once upon a time"


def first_word(command: list[str]) -> float:
    """Seconds until the text is longer than its prompt. Raises CommandFailed if no text comes."""
    start = time.perf_counter()
    with subprocess.Popen(
        command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        text = b""
        while len(text.split()) <= len(PROMPT.split()):
            piece = os.read(process.stdout.fileno(), 4096)
            if not piece:
                raise CommandFailed(
                    f"tinylm generate: no word came: {process.stderr.read().decode().strip()[-300:]}"
                )
            text += piece
        seconds = time.perf_counter() - start
        process.kill()
    return seconds


def generate_command(made: Mapping[str, Any]) -> list[str]:
    places = ["--models", made["models"], "--vocab", made["vocab"]]
    return [sys.executable, "-m", "tinylm.cli", "generate", PROMPT, *places]


def start(options: Options) -> list[Row]:
    """`tinylm generate`: seconds from the command to the first new word."""
    command = generate_command(checkpoint(options))
    first_word(command)  # files into the page cache
    times = spread(first_word(command) for _ in range(options.trials))
    what = "tinylm generate, from the command to the first new word"
    return [Row(what, "s", times, figure=times["median"], figure_unit="s", must=2.0, higher=False)]


def clone(folder: Path) -> Path:
    """This repository's HEAD in its own folder, without what DVC knows about earlier runs."""
    subprocess.run(["git", "clone", "--quiet", str(ROOT), str(folder)], check=True)
    (folder / "dvc.lock").unlink(missing_ok=True)
    for name in ("metrics", "plots"):
        shutil.rmtree(folder / name, ignore_errors=True)
    return folder


def repro(options: Options) -> list[Row]:
    """`dvc repro` of the default preset: from nothing, and with nothing to do."""
    command = ["dvc", "repro", *(["download"] if options.tiny else [])]
    with tempfile.TemporaryDirectory() as parent:
        folder = clone(Path(parent) / "clone")
        whole, _ = run_command(*command, folder=folder)
        print(f"dvc repro from nothing: {whole:.1f} s", flush=True)
        again = spread(run_command(*command, folder=folder)[0] for _ in range(options.trials))
    goal: dict[str, Any] = {"figure_unit": "s", "higher": False}
    what = "default dvc repro from nothing"
    return [
        Row(what, "s", spread([whole]), figure=whole, must=300, note="one run", **goal),
        Row("dvc repro with nothing to do", "s", again, figure=again["median"], must=2, **goal),
    ]
