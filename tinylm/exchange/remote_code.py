"""The code that an export in tinylm's own form carries, for `trust_remote_code=True`.

It is the reference itself: transformer.py and the files of `tinylm/model` that it imports, behind a
wrapper for transformers. Their imports of tinylm are made relative; nothing else is changed.
"""

import re
from pathlib import Path

import tinylm

WRAPPER = "tinylm.exchange.modeling_tinylm"
CONFIGURATION = "tinylm.exchange.configuration_tinylm"
# The only name that settings.py imports from it is `setting`, which the configuration has too.
STAND_INS = {"tinylm.base.config": CONFIGURATION}
SHIPPED = ("tinylm.model.", WRAPPER, CONFIGURATION)  # beginnings of names
_IMPORT = re.compile(r"^( *)from (tinylm\.[\w.]+) import", re.MULTILINE)


def remote_code() -> dict[str, str]:
    """{file name: text} of the wrapper and of all that it imports from tinylm, file by file."""
    files: dict[str, str] = {}
    waiting = [WRAPPER]
    while waiting:
        module = waiting.pop()
        text = _source(module)
        for _, imported in _IMPORT.findall(text):
            needed = STAND_INS.get(imported, imported)
            if not needed.startswith(SHIPPED):
                raise ValueError(f"{module} imports {needed}, which exports do not carry")
            if file_name(needed) not in files:
                waiting.append(needed)
        files[file_name(module)] = _IMPORT.sub(_relative, text)
    return files


def file_name(module: str) -> str:
    return f"{module.rpartition('.')[2]}.py"


def _source(module: str) -> str:
    path = Path(*module.split(".")[1:]).with_suffix(".py")
    return (Path(tinylm.__path__[0]) / path).read_text("utf-8")


def _relative(match: re.Match[str]) -> str:
    module = STAND_INS.get(match[2], match[2])
    return f"{match[1]}from .{module.rpartition('.')[2]} import"
