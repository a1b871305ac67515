"""A command, its wall time and the largest size of all its processes together."""

import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import psutil

from benchmarks.interleaved import ROOT
from tinylm.host.command import CommandFailed

EVERY_S = 0.2


def tree_mib(process: psutil.Process) -> float:
    """Proportional size of a process and all its descendants, in MiB: pages that they share count once."""
    total = 0
    for one in [process, *process.children(recursive=True)]:
        try:
            total += one.memory_full_info().pss
        except psutil.Error:  # it has just exited
            continue
    return total / (1 << 20)


def run_command(*command: str, folder: Path = ROOT, sampled: bool = False) -> tuple[float, float]:
    """Run `python -m command` in a folder, with this repository's code; CommandFailed if it fails.

    -> (seconds, MiB at the peak of all its processes where `sampled`, else 0)
    """
    peak, ended = 0.0, threading.Event()

    def sample(pid: int) -> None:
        nonlocal peak
        try:
            own = psutil.Process(pid)
            while not ended.is_set():
                peak = max(peak, tree_mib(own))
                ended.wait(EVERY_S)
        except psutil.Error:  # the process itself has exited
            pass

    start = time.perf_counter()
    process = subprocess.Popen(
        [sys.executable, "-m", *command], cwd=folder, env=os.environ | {"PYTHONPATH": str(ROOT)},
        stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    if sampled:
        threading.Thread(target=sample, args=[process.pid], daemon=True).start()
    _, errors = process.communicate()
    seconds = time.perf_counter() - start
    ended.set()
    if process.returncode:
        raise CommandFailed(f"{' '.join(command)}: {errors.strip()[-400:]}")
    return seconds, peak
