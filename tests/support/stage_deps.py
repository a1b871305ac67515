"""`make deps`: write the code that each stage of dvc.yaml depends on, from the closure of its imports."""

import re
import sys
import textwrap
from pathlib import Path

from tests.support.closure import stage_code
from tinylm.base.files import write_bytes
from tinylm.host.command import guard

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
    sys.exit(guard(main))
