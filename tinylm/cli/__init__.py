"""The command `tinylm`."""

from tinylm.base.starting import start_command

start_command()

from tinylm.cli.command import main  # noqa: E402

__all__ = ["main"]
