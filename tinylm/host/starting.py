"""What must be known before the slow imports of a stage: that this is the Python, and the code, that the folder wants;
and what Ctrl-C does until then.

Old versions of Python read this file too, only to be told that they are old.
"""

from __future__ import annotations

import os
import re
import signal
import sys

OLDEST = (3, 11)


def _missing() -> list[str]:
    """The packages that tinylm requires and this Python does not have; tinylm itself if it is not installed."""
    from importlib.metadata import PackageNotFoundError, requires, version

    missing = []
    try:
        for requirement in requires("tinylm") or []:
            name = re.match(r"[\w.-]+", requirement)
            if name and "extra ==" not in requirement:
                try:
                    version(name[0])
                except PackageNotFoundError:
                    missing.append(name[0])
    except PackageNotFoundError:
        return ["tinylm"]
    return missing


def wrong_python() -> str:
    """Why this Python cannot run a stage, and what to type instead, in one line; "" if it can."""
    if sys.version_info < OLDEST:
        what = f"is Python {sys.version_info[0]}.{sys.version_info[1]}, which is too old"
    else:
        missing = _missing()
        if not missing:
            return ""
        what = f"lacks {missing[0]}" + (
            f" and {len(missing) - 1} more packages" if missing[1:] else ""
        )
    made = "" if os.path.exists(".venv/bin/activate") else "make setup, then "
    return f"{sys.executable} {what}; type {made}source .venv/bin/activate, and run it again"


def wrong_folder(stages: str) -> str:
    """Why `stages`, the folder whose code would run, is not the one in this folder, in one line; "" if it is.

    Where this folder has no stages, the caller chose those that run.
    """
    if not os.path.isdir("stages") or os.path.samefile(stages, "stages"):
        return ""
    here = os.path.realpath("stages")
    why = "unset PYTHONSAFEPATH" if os.environ.get("PYTHONSAFEPATH") else "unset PYTHONPATH"
    return f"{stages} would run, not {here}; {why}, and run it again"


def own_repository() -> None:
    """Let git find the repository of this folder, not the one whose hook started this process."""
    for name in ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_COMMON_DIR", "GIT_PREFIX"):
        os.environ.pop(name, None)


def default_signals() -> None:
    """Let Ctrl-C end this process silently until `guard` takes over. For our own commands, before slow imports."""
    ours = os.path.basename(sys.argv[0]) in ("-m", "tinylm")
    if ours and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
