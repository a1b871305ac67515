"""The page's modules as one script: one after another, each as a function of its own.

A module starts with lines `import { a, b } from "./other.js";` and exports functions, classes and
constants where it defines them. Inside the folder they are ordinary modules, which Node.js loads.
"""

import re
from pathlib import Path

PAGE = Path(__file__).parent
MODULES = (  # each after those that it imports
    "dom.js",
    "package.js",
    "tokenizer.js",
    "model.js",
    "session.js",
    "decoding.js",
    "beams.js",
    "lab.js",
    "write.js",
    "view_next.js",
    "view_heads.js",
    "view_layers.js",
    "view_beams.js",
    "view_cache.js",
    "view_checkpoints.js",
    "tour.js",
    "app.js",
)
_IMPORT = re.compile(r'^import \{[^}]*\} from "\./[a-z_]+\.js";\n', re.MULTILINE)
_EXPORT = re.compile(r"^export (?:async )?(?:function|class|const) ([\w$]+)", re.MULTILINE)


def bundle(*modules: str) -> str:
    """The modules as one script, by default all of MODULES, in their order.

    Only exported names are shared.
    """
    return "".join(_scoped(name) for name in MODULES if name in (modules or MODULES))


def _scoped(name: str) -> str:
    """A module as a function that returns what it exports."""
    source = _IMPORT.sub("", (PAGE / name).read_text("ascii"))
    exports = ", ".join(_EXPORT.findall(source))
    body = re.sub(r"^export ", "", source, flags=re.MULTILINE)
    if not exports:
        return body
    return (
        f"// {name}\nconst {{ {exports} }} = (() => {{\n{body}\nreturn {{ {exports} }};\n}})();\n"
    )
