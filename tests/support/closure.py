"""Which source files determine the results of a stage, from the imports of its script.

They are the script and all files of every package of ours that it imports, directly or
indirectly. `kernels` has a package for each of its users, and each file of `bench`, `run` and `text` serves
other stages, so these are listed one by one. `CHANGES_NO_RESULT` is not followed. A settings class may change
a result, so its file counts where a script reads the section (`stage.params.NAME`).
"""

import ast
import functools
import re
import sys
import textwrap
from pathlib import Path

from tinylm.base.command import run_command
from tinylm.base.files import write_bytes
from tinylm.params.params import SECTIONS

ROOT = Path(__file__).parents[2]
CHANGES_NO_RESULT = ("tinylm/params", "tinylm/train/samples.py")
LISTED_BY_FILE = ("tinylm/bench", "tinylm/run", "tinylm/text", "stages")
LISTED_BY_SUBFOLDER = "tinylm/kernels"


def imported_names(source: str) -> set[str]:
    """All modules and names that a file imports, also inside functions."""
    names = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            names.add(str(node.module))
            names |= {f"{node.module}.{alias.name}" for alias in node.names}
    return names


@functools.cache
def _imported_files(path: str) -> frozenset[str]:
    """Our own files that one file imports directly."""
    names = imported_names((ROOT / path).read_text("utf-8"))
    files = {f"{name.replace('.', '/')}.py" for name in names}
    ours = {name for name in files if name.startswith("tinylm/") and (ROOT / name).is_file()}
    return frozenset(name for name in ours if not name.startswith(CHANGES_NO_RESULT))


def sections_read(script: str) -> set[str]:
    """The sections of params.yaml that a stage's script reads; `runtime` changes no result."""
    text = (ROOT / script).read_text("utf-8")
    return set(re.findall(r"\bparams\.(\w+)", text)) & set(SECTIONS) - {"runtime"}


def imported(script: str) -> list[str]:
    """The script, the files of its settings, and every file of ours that they import."""
    seen: set[str] = set()
    waiting = {script}
    for section in sections_read(script):
        waiting.add(f"{SECTIONS[section].__module__.replace('.', '/')}.py")
    while waiting:
        path = waiting.pop()
        seen.add(path)
        waiting |= _imported_files(path) - seen
    return sorted(seen)


def _entry(path: str) -> str:
    """The name under which dvc.yaml lists a file: its package, or the file itself."""
    if path.startswith(LISTED_BY_FILE):
        return path
    depth = 3 if path.startswith(LISTED_BY_SUBFOLDER) else 2
    return "/".join(path.split("/")[:depth])


def stage_code(script: str) -> list[str]:
    """The code that a stage's entry in dvc.yaml lists: its script, then packages and files."""
    entries = {_entry(path) for path in imported(script)}
    return [script, *sorted(entries - {script})]


PIPELINE = "dvc.yaml"
_ENTRY = re.compile(r"^  (\w+):\n.*?^    deps: \[(.*?)\]\n", re.MULTILINE | re.DOTALL)


def written(text: str) -> str:
    """The text of dvc.yaml with the `deps` of every stage rewritten: code first, then its other entries in their order."""

    def rewritten(match: re.Match[str]) -> str:
        entries = re.split(r",\s*", match[2].strip())
        others = [entry for entry in entries if not entry.startswith(("stages/", "tinylm/"))]
        listed = ", ".join([*stage_code(f"stages/{match[1]}.py"), *others])
        lines = textwrap.wrap(listed, 110, break_long_words=False, break_on_hyphens=False)
        head, _, tail = match[0].partition(match[2])
        return head + "\n      ".join(lines) + tail

    return _ENTRY.sub(rewritten, text)


def main() -> None:
    path = Path(PIPELINE)
    write_bytes(path, written(path.read_text("utf-8")).encode())


if __name__ == "__main__":
    sys.exit(run_command(main))
