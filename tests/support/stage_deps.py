"""`make deps`: write the code that each stage of dvc.yaml depends on, from the closure of its imports."""

import re
import sys
import textwrap
from pathlib import Path

from tests.support.closure import stage_code
from tinylm.base.config import parse_yaml
from tinylm.base.files import write_bytes
from tinylm.host.command import guard
from tinylm.presets.write import BASE, preset_text

PIPELINE = "dvc.yaml"
_ENTRY = re.compile(r"^  (\w+):\n.*?^    deps: \[(.*?)\]\n", re.MULTILINE | re.DOTALL)


def written(text: str, defaults: dict[str, dict[str, str]]) -> str:
    """The text of dvc.yaml with the `deps` of every stage rewritten: code first, then its other entries in their order.

    Code that an entry such as `${data.path}` names by its default value is left out: it is listed already.
    """

    def anew(match: re.Match[str]) -> str:
        others = [
            entry
            for entry in re.split(r",\s*", match[2].strip())
            if not entry.startswith(("stages/", "tinylm/"))
        ]
        asked = re.findall(r"\$\{(\w+)\.(\w+)\}", " ".join(others))
        given = {
            defaults[section][key] for section, key in asked if key in defaults.get(section, {})
        }
        code = [
            path
            for path in stage_code(f"stages/{match[1]}.py")
            if not any(f"{path}/".startswith(f"{place}/") for place in given)
        ]
        start, end = match.start(2) - match.start(), match.end(2) - match.start()
        lines = textwrap.wrap(
            ", ".join([*code, *others]), 110, break_long_words=False, break_on_hyphens=False
        )
        return match[0][:start] + "\n      ".join(lines) + match[0][end:]

    return _ENTRY.sub(anew, text)


def main() -> None:
    path = Path(PIPELINE)
    write_bytes(path, written(path.read_text("utf-8"), load_defaults()).encode())


def load_defaults() -> dict[str, dict[str, str]]:
    """The parameters of the default preset."""
    return parse_yaml(preset_text(BASE), f"preset {BASE}")


if __name__ == "__main__":
    sys.exit(guard(main))
