"""The command `tinylm`."""

from tinylm.cli.arguments import main

__all__ = ["main"]
