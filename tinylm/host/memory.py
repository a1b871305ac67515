"""Peak memory of this process and of its workers, for *_time.json."""

import resource
import sys

MIB = 1 << 20
_workers_mib = 0.0


def own_peak_mib() -> float:
    """The most memory that this process ever had resident.

    From /proc where there is one: `getrusage` would count what the parent had when it started this process.
    """
    try:
        with open("/proc/self/status", encoding="ascii", errors="replace") as handle:
            for line in handle:
                if line.startswith("VmHWM:"):
                    return int(line.split()[1]) / 1024
    except (OSError, ValueError, IndexError):
        pass
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / MIB if sys.platform == "darwin" else peak / 1024


def note_workers(mib: float) -> None:
    """Say what a group of worker processes had at their peaks, added up; the largest group counts."""
    global _workers_mib
    _workers_mib = max(_workers_mib, mib)


def peak_figures() -> dict[str, float]:
    """peak_mib: of this process and its workers together, each at its own peak; workers_peak_mib of that, if any.

    An upper bound: pages that the processes share count for each, and their peaks need not come at one time.
    """
    own = own_peak_mib()
    workers = {"workers_peak_mib": round(_workers_mib, 1)} if _workers_mib else {}
    return {"peak_mib": round(own + _workers_mib, 1), **workers}
