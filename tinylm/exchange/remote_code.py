"""The code shipped with an export of the format `tinylm`, for `trust_remote_code=True`.

It is the reference itself: the files of `tinylm/model` that the forward pass needs, and a wrapper
for transformers. Their imports of tinylm become relative, and the wrapper names the other files;
nothing else changes.
"""

import re
from pathlib import Path

import tinylm

CONFIGURATION = "configuration_tinylm"
WRAPPER = "modeling_tinylm"
SOURCES = (
    f"exchange/{CONFIGURATION}.py",
    f"exchange/{WRAPPER}.py",
    "model/transformer.py",
    "model/as_built.py",
    "model/initialisation.py",
    "model/ops.py",
    "model/kv_cache.py",
    "model/norms.py",
    "model/settings.py",
)
# settings.py imports only `setting`, which the configuration also defines
STAND_INS = {"config": CONFIGURATION}
# transformers 4 copies only those files of a local folder that the wrapper itself imports.
NAMED = """

from typing import TYPE_CHECKING

if TYPE_CHECKING:  # so that transformers 4 copies these files, too
{}
"""


def remote_code() -> dict[str, str]:
    """{file name: text} of all files; the export keeps them in one folder."""
    files = {}
    for source in SOURCES:
        path = Path(tinylm.__path__[0]) / source
        text = path.read_text("utf-8")
        files[path.name] = re.sub(r"from tinylm\.\w+\.(\w+) import", _relative, text)
    others = [Path(name).stem for name in files if name != f"{WRAPPER}.py"]
    files[f"{WRAPPER}.py"] += NAMED.format(
        "\n".join(f"    from .{name} import *" for name in others)
    )
    return files


def _relative(match: re.Match[str]) -> str:
    return f"from .{STAND_INS.get(match[1], match[1])} import"
