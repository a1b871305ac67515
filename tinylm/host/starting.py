"""The first thing that `python -m` of ours does; it imports nothing that takes time."""

import signal
import sys


def default_signals() -> None:
    """Let Ctrl-C end this process silently until `guard` takes over. For `python -m`, before slow imports."""
    if sys.argv[0] == "-m" and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
