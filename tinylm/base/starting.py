"""Before the slow imports of a command: Ctrl-C, a check of its Python, and the libraries' defaults."""

import importlib.util
import os
import signal
import sys


def start_command() -> None:
    """Let Ctrl-C end the process silently until `run_command` runs, and refuse a Python without torch.

    Libraries read the environment when they are imported, so their defaults are set here:
    - idle OpenMP threads spin for microseconds before they sleep, not for milliseconds: spinning
      threads take the core from the thread that they wait for if another program is running;
    - oneDNN keeps the compiled kernels of 64 shapes instead of 1,024, at 0.5 MiB each, since rows
      of stories have many lengths;
    - torch asks Linux for pages of 2 MiB instead of 4 KiB for large tensors, which are read faster.
    """
    is_ours = os.path.basename(sys.argv[0]) in ("-m", "tinylm")
    if is_ours and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    os.environ.setdefault("GOMP_SPINCOUNT", "100")
    os.environ.setdefault("ONEDNN_PRIMITIVE_CACHE_CAPACITY", "64")
    os.environ.setdefault("LRU_CACHE_CAPACITY", "64")
    os.environ.setdefault("THP_MEM_ALLOC_ENABLE", "1")
    if importlib.util.find_spec("torch") is None:
        print(
            f"error: {sys.executable} lacks torch; run make setup, then source .venv/bin/activate",
            file=sys.stderr,
        )
        sys.exit(2)
