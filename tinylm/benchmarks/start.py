"""`tinylm generate`: seconds from the command to the first word of its text."""

import os
import subprocess
import sys
import time

from tinylm.benchmarks.checkpoint import Speaker, speaker
from tinylm.benchmarks.interleaved import ROOT, spread
from tinylm.benchmarks.options import Options, command
from tinylm.benchmarks.record import Row
from tinylm.host.command import CommandFailed

NAME = "start"
PROMPT = "once upon a time"


def command_of(made: Speaker) -> list[str]:
    return [sys.executable, "-m", "tinylm.cli", "generate", PROMPT, "--models", made.models, "--vocab", made.vocab]


def first_word(made: Speaker) -> float:
    """Seconds until the text goes past its prompt. Raises CommandFailed where no text comes."""
    start = time.perf_counter()
    with subprocess.Popen(command_of(made), cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        seen = b""
        while len(seen.split()) <= len(PROMPT.split()):
            piece = os.read(process.stdout.fileno(), 4096)
            if not piece:
                said = process.stderr.read().decode() if process.stderr else ""
                raise CommandFailed(f"tinylm generate: no word came: {said.strip()[-300:]}")
            seen += piece
        seconds = time.perf_counter() - start
        process.kill()
    return seconds


def run(options: Options) -> list[Row]:
    """`tinylm generate`: seconds from the command to the first new word."""
    made = speaker(options)
    first_word(made)  # files into the page cache
    found = spread(first_word(made) for _ in range(options.turns))
    what = "tinylm generate, from the command to the first new word"
    return [Row(what, "s", found, figure=found["median"], figure_unit="s", must=2.0, higher=False)]


if __name__ == "__main__":
    command(NAME, run)
