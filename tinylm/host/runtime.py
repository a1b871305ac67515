"""How a command runs on this machine: threads, device, progress; only the thread count can change a result."""

import ctypes
import dataclasses
import importlib.metadata
import os
import platform
import sys
import time
from collections.abc import Mapping
from typing import Any

from tinylm.base.config import setting
from tinylm.base.machine import instructions

MOST_THREADS = 1024


@dataclasses.dataclass(frozen=True, kw_only=True)
class RuntimeSettings:
    """Section `runtime`; no stage lists it."""

    threads: int = setting(low=1, high=MOST_THREADS)
    workers: int | None = setting(low=1, high=1024)
    device: str = setting(choices=("auto", "cpu", "cuda"))
    log_every_s: float = setting(above=0.0)
    snapshot_every_s: float = setting(above=0.0)
    logger: str = setting(choices=("none", "wandb", "dvclive"))


def share_cores() -> None:
    """Let idle OpenMP threads spin for only a few microseconds, then sleep. Call it before torch is imported.

    By default they spin for milliseconds, and so take the core from the very thread they wait for as soon as anything
    else runs on the machine. Training of the default model on 2 cores of an AMD EPYC, single runs of 40 updates,
    2026-11-21: 3,500 tokens/s by default and 4,900 with this while one other process was busy; 1,000 to 1,500 by
    default while a test suite ran; 11,300 and 13,200 with nothing else running.
    """
    os.environ.setdefault("GOMP_SPINCOUNT", "1000")


def bound_kernel_caches() -> None:
    """Let oneDNN keep the kernels of 64 shapes, not of 1,024. Call it before torch is imported.

    Products in bf16 are oneDNN's, which makes a kernel for each shape, about 0.5 MiB of heap each. Rows of stories have
    many lengths: after 50,000 tokens of the default model in bf16 the heap is 750 MiB by default and 284 with this,
    at 16.1 s of processor time and 15.3 (single runs, one thread of an AMD EPYC, other jobs running, 2026-11-22).
    """
    for cache in (
        "ONEDNN_PRIMITIVE_CACHE_CAPACITY",
        "LRU_CACHE_CAPACITY",
    ):  # oneDNN's own, and torch's around it
        os.environ.setdefault(cache, "64")


def keep_freed_memory() -> None:
    """Let the C library keep freed memory for the next tensors, of all threads, instead of returning it to the system.

    Every training step frees and takes the same large buffers, and a page that comes back from the system is cleared
    first: 24,500 page faults in a step of 2,048 tokens at word-50k's shape, 0 to 3 with this. Does nothing if the C
    library is not glibc.
    """
    trim_threshold, mmap_threshold, arenas = -1, -3, -8  # M_* of malloc.h
    try:
        library = ctypes.CDLL(None)
        library.mallopt(mmap_threshold, 1 << 30)
        library.mallopt(trim_threshold, (1 << 31) - 1)
        library.mallopt(arenas, 1)  # a second arena is of 64 MiB, and freed whenever it is empty
    except (AttributeError, OSError):
        pass


def duration(seconds: float) -> str:
    """Seconds in the unit that a person would name: 59 s, 3 min, 2 h 12 min."""
    if seconds < 100:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 100 else f"{minutes // 60} h {minutes % 60} min"


class Progress:
    """On a terminal, a progress bar, with time left if the total is known; elsewhere a line every few seconds.

    Time left is judged by what was done since the first units were: before them, work is only set up.
    """

    def __init__(self, what: str, total: int | None, unit: str, every_s: float = 5.0) -> None:
        self.what, self.unit, self.every_s = what, unit, every_s
        self.total = None if total is None else max(total, 1)
        self.last = time.monotonic()
        self.begun: tuple[float, int] | None = None  # when the first units were done, and how many
        self.done = 0
        self.bar: Any = None
        if sys.stderr.isatty():
            from tqdm import tqdm

            self.bar = tqdm(
                total=total, desc=what, unit=f" {unit}", unit_scale=True, dynamic_ncols=True
            )

    def __enter__(self) -> "Progress":
        return self

    def __exit__(self, *_: object) -> None:
        if self.bar is not None:
            self.bar.close()

    def resume(self, done: int) -> None:
        """Report that `done` units were done earlier: they count, but not for the time left."""
        self.done = done
        if self.bar is not None:
            self.bar.initial = self.bar.n = done

    def advance(self, amount: int, note: str = "") -> None:
        """Report that `amount` more units are done; `note` is shown after the bar."""
        self.done += amount
        if self.bar is not None:
            self.bar.set_postfix_str(note, refresh=False)
            self.bar.update(amount)
            return
        now = time.monotonic()
        if self.begun is None:
            self.begun = now, self.done
        if now - self.last < self.every_s:
            return
        self.last = now
        how_far = (
            f"{self.done:,}"
            if self.total is None
            else f"{min(self.done / self.total, 1):4.0%} of {self.total:,}"
        )
        print(
            f"{self.what}: {how_far} {self.unit}{self._left(now)}{note and ', ' + note}", flush=True
        )

    def _left(self, now: float) -> str:
        """Time left, once enough was done to judge it by."""
        since, earlier = self.begun or (now, self.done)
        if self.total is None or now - since < self.every_s / 2 or self.done == earlier:
            return ""
        return f", {duration((now - since) * max(self.total - self.done, 0) / (self.done - earlier))} left"

    def write(self, text: str) -> None:
        """Print a line without breaking the bar."""
        if self.bar is not None:
            self.bar.write(text)
        else:
            print(text, flush=True)


def _cpu_name() -> str:
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as handle:
            for line in handle:
                if line.startswith("model name"):
                    return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()


def conditions(device: Any, threads: int, processes: int = 1) -> dict[str, Any]:
    """What a timing was taken on: processor, cores, threads, device (a torch.device, or None), versions and day.

    device None: of a stage that computes without torch, whose instructions do not matter.
    processes: how many shared the work, each with this many threads; given if there are several.
    """
    card = None
    if device is not None and device.type == "cuda":
        import torch

        card = torch.cuda.get_device_name(device)
    return {
        "cpu": _cpu_name(),
        "cores": len(os.sched_getaffinity(0)),
        "threads": threads,
        **({"processes": processes} if processes > 1 else {}),
        "device": card or "cpu",
        **({} if device is None else instructions()),
        "torch": importlib.metadata.version("torch"),
        "python": platform.python_version(),
        "date": time.strftime("%Y-%m-%d"),
    }


def in_words(conditions: Mapping[str, Any]) -> str:
    """Conditions in one line."""
    return ", ".join(f"{name} {value}" for name, value in conditions.items())
