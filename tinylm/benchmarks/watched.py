"""A command, its wall time and the largest size of all its processes together."""

import subprocess
import time
from collections.abc import Sequence
from pathlib import Path

import psutil

from tinylm.host.command import CommandFailed

EVERY_S = 0.2


def tree_mib(process: psutil.Process) -> float:
    """Proportional size of a process and all below it, in MiB: pages that they share count once."""
    total = 0
    for one in [process, *process.children(recursive=True)]:
        try:
            total += one.memory_full_info().pss
        except psutil.Error:  # it has just ended
            continue
    return total / (1 << 20)


def watch(command: Sequence[str], folder: Path) -> tuple[float, float]:
    """(seconds, MiB at the peak) of a command run in a folder. Raises CommandFailed where it fails."""
    start, peak = time.perf_counter(), 0.0
    with subprocess.Popen(command, cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as process:
        own = psutil.Process(process.pid)
        while process.poll() is None:
            try:
                peak = max(peak, tree_mib(own))
            except psutil.Error:
                break
            time.sleep(EVERY_S)
        _, said = process.communicate()
        seconds = time.perf_counter() - start
    if process.returncode:
        raise CommandFailed(f"{' '.join(command)}: {said.strip()[-400:]}")
    return seconds, peak
