"""Progress of long work: a bar on a terminal, elsewhere a line every few seconds."""

import sys
import time
from typing import Any

from tqdm import tqdm


def duration(seconds: float) -> str:
    """Seconds in the unit that a person would use: 59 s, 3 min, 2 h 12 min."""
    if seconds < 100:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    if minutes < 100:
        return f"{minutes} min"
    return f"{minutes // 60} h {minutes % 60} min"


class Progress:
    """Counts units of work and shows how far it is; the time left too, if the total is known."""

    def __init__(self, what: str, total: int | None, unit: str, every_s: float = 5.0) -> None:
        self.what = what
        self.unit = unit
        self.every_s = every_s
        self.total = None if total is None else max(total, 1)
        self.done = 0
        self._last_line = time.monotonic()
        self._first: tuple[float, int] | None = None  # time and units when the first were done
        self._bar: Any = None
        if sys.stderr.isatty():
            self._bar = tqdm(
                total=total, desc=what, unit=f" {unit}", unit_scale=True, dynamic_ncols=True
            )

    def __enter__(self) -> "Progress":
        return self

    def __exit__(self, *_: object) -> None:
        if self._bar is not None:
            self._bar.close()

    def resume(self, done: int) -> None:
        """Report that an earlier run did `done` units: they do not count for the time left."""
        self.done = done
        if self._bar is not None:
            self._bar.initial = done
            self._bar.n = done

    def advance(self, amount: int, note: str = "") -> None:
        """Report that `amount` more units are done; `note` is shown at the end of the line."""
        self.done += amount
        if self._bar is not None:
            self._bar.set_postfix_str(note, refresh=False)
            self._bar.update(amount)
            return
        now = time.monotonic()
        if self._first is None:
            self._first = (now, self.done)
        if now - self._last_line >= self.every_s:
            self._last_line = now
            parts = [f"{self.what}: {self._how_far()} {self.unit}", self._time_left(now), note]
            print(", ".join(part for part in parts if part), flush=True)

    def _how_far(self) -> str:
        if self.total is None:
            return f"{self.done:,}"
        return f"{min(self.done / self.total, 1):4.0%} of {self.total:,}"

    def _time_left(self, now: float) -> str:
        """The time left, once enough is done to estimate it."""
        if self.total is None or self._first is None:
            return ""
        first_time, first_done = self._first
        if now - first_time < self.every_s / 2 or self.done == first_done:
            return ""
        seconds_per_unit = (now - first_time) / (self.done - first_done)
        return f"{duration(seconds_per_unit * max(self.total - self.done, 0))} left"

    def write(self, text: str) -> None:
        """Print a line without breaking the bar."""
        if self._bar is not None:
            self._bar.write(text)
        else:
            print(text, flush=True)
