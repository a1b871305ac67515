"""Peak memory of this process and of its workers, for *_time.json."""

import resource
import sys

MIB = 1 << 20
_workers_mib = 0.0


def own_peak_mib() -> float:
    """The peak resident memory of this process.

    From /proc if it exists: `getrusage` would count what the parent had when it started this process.
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
    """Report the sum of the peaks of a group of worker processes; the largest group counts."""
    global _workers_mib
    _workers_mib = max(_workers_mib, mib)


def peak_figures() -> dict[str, float]:
    """peak_mib: of this process and its workers together, each at its own peak; workers_peak_mib: the workers alone.

    An upper bound: shared pages count for each process, and the peaks need not coincide.
    """
    own = own_peak_mib()
    workers = {"workers_peak_mib": round(_workers_mib, 1)} if _workers_mib else {}
    return {"peak_mib": round(own + _workers_mib, 1), **workers}
