"""The page's modules as one script, and its kernels as WebAssembly: a bundler of the few forms that they use.

A module starts with lines `import { a, b } from "./other.js";` and exports functions, classes and constants where it
defines them. Inside the folder they are ordinary modules, which a browser or Node.js could load one by one.
"""

import re
from pathlib import Path

PAGE = Path(__file__).parent
FIRST = "app.js"
_IMPORT = re.compile(r'^import \{[^}]*\} from "\./([a-z_]+\.js)";\n', re.MULTILINE)
_EXPORT = re.compile(r"^export (?:async )?(?:function|class|const) ([\w$]+)", re.MULTILINE)


def compiled() -> bytes:
    """page/kernels.wat as WebAssembly."""
    import wasmtime

    return bytes(wasmtime.wat2wasm((PAGE / "kernels.wat").read_text("utf-8")))


def bundle(*first: str) -> str:
    """Modules and all that they import as one script, each after what it imports.

    A module becomes a function of its own that returns what it exports, so that only exported names are shared. Raises
    ValueError for a circle of imports, for a name that two modules export and for what would end the script's element.
    """
    order: list[str] = []
    sources: dict[str, str] = {}

    def visit(name: str, above: tuple[str, ...]) -> None:
        if name in above:
            raise ValueError(f"{PAGE / name}: imports itself by way of {', '.join(above)}")
        if name in sources:
            return
        sources[name] = (PAGE / name).read_text("ascii")
        for other in _IMPORT.findall(sources[name]):
            visit(other, (*above, name))
        order.append(name)

    for name in first:
        visit(name, ())
    exported = [export for name in order for export in _EXPORT.findall(sources[name])]
    twice = {export for export in exported if exported.count(export) > 1}
    if twice:
        raise ValueError(f"{PAGE}: exported by two modules: {', '.join(sorted(twice))}")
    script = "".join(_scoped(name, _IMPORT.sub("", sources[name])) for name in order)
    if "</script" in script.lower() or "<!--" in script:
        raise ValueError(f"{PAGE}: a script holds </script or <!--, which would end its element")
    return script


def _scoped(name: str, source: str) -> str:
    exports = ", ".join(_EXPORT.findall(source))
    body = re.sub(r"^export ", "", source, flags=re.MULTILINE)
    return (
        f"// {name}\nconst {{ {exports} }} = (() => {{\n{body}\nreturn {{ {exports} }};\n}})();\n"
        if exports
        else body
    )
