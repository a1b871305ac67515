"""Peak memory of a process, for data/times, and how the C library treats freed memory."""

import ctypes
import resource
import sys


def own_peak_mib() -> float:
    """The peak resident memory of this process, in MiB.

    It is read from /proc if that exists: `getrusage` would count the parent's memory at the start.
    """
    try:
        with open("/proc/self/status", encoding="ascii", errors="replace") as handle:
            for line in handle:
                if line.startswith("VmHWM:"):
                    return int(line.split()[1]) / 1024
    except OSError:
        pass
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / (1 << 20) if sys.platform == "darwin" else peak / 1024


def keep_freed_memory() -> None:
    """Let the C library keep freed memory for the next tensors instead of returning it.

    Only glibc can. Every training step frees and takes the same large buffers, and the system clears
    each page that it hands out. A step of 2,048 tokens has 24,500 page faults, with this 0 to 3.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(-3, 1 << 30)  # M_MMAP_THRESHOLD of malloc.h
        mallopt(-1, (1 << 31) - 1)  # M_TRIM_THRESHOLD
        mallopt(-8, 1)  # M_ARENA_MAX: a second arena of 64 MiB is freed whenever it is empty
