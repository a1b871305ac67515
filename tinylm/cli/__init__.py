"""The command `tinylm`."""

import sys

from tinylm.host.starting import default_signals, own_repository, wrong_python

default_signals()
own_repository()

try:
    from tinylm.cli.arguments import main
except ModuleNotFoundError:
    if wrong := wrong_python():
        print(f"error: {wrong}", file=sys.stderr)
        sys.exit(2)
    raise

__all__ = ["main"]
