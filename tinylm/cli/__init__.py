"""The command `tinylm`."""

from tinylm.host.starting import default_signals

default_signals()

from tinylm.cli.arguments import main  # noqa: E402

__all__ = ["main"]
