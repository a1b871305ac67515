"""Executes the Python blocks of a page and writes what each prints into the text block below it (`make story`)."""

import contextlib
import io
import re
import sys
from pathlib import Path
from typing import Any

import torch

from tinylm.base.command import run_command
from tinylm.base.files import atomic_write

ROOT = Path(__file__).parents[2]
STORY = ROOT / "docs/tutorial/one-story.md"
# A block of code and, where it printed something, the block of its output.
BLOCK = re.compile(r"^```python\n(.*?)^```\n(?:\n```text\n.*?^```\n)?", re.MULTILINE | re.DOTALL)


def printed_by(block: re.Match[str]) -> str:
    """What the code of a block printed."""
    return block[0].partition("```\n\n```text\n")[2].removesuffix("```\n")


def executed(page: str) -> tuple[str, dict[str, Any]]:
    """The page with the outputs of its blocks, run in order in one namespace and the current folder; that namespace."""
    namespace: dict[str, Any] = {}

    def run(block: re.Match[str]) -> str:
        code, printed = block[1], io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile(code, "the page", "exec"), namespace)
        lines = [line.rstrip() for line in printed.getvalue().splitlines()]
        shown = "\n".join(["", "```text", *lines, "```", ""]) if lines else ""
        return f"```python\n{code}```\n{shown}"

    with torch.enable_grad():  # a page may switch gradients off; the mode of before comes back
        return BLOCK.sub(run, page), namespace


def main() -> None:
    torch.set_num_threads(1)
    page, _ = executed(STORY.read_text(encoding="utf-8"))
    with atomic_write(STORY) as handle:
        handle.write(page)


if __name__ == "__main__":
    sys.exit(run_command(main))
