"""The command `tinylm`."""

from tinylm.host.starting import default_signals, own_repository

default_signals()
own_repository()

from tinylm.cli.arguments import main  # noqa: E402

__all__ = ["main"]
