"""Progress of long work: a bar on a terminal, elsewhere a line every few seconds."""

import contextlib
import io
import sys
import threading
from collections.abc import Iterator
from typing import Any

from tqdm import tqdm

# Once in each process, before its first bar:
tqdm.monitor_interval = 0  # no thread, since stages start processes
tqdm.set_lock(threading.RLock())  # tqdm's own lock has a semaphore, which a killed process leaks

EVERY_S = 5.0  # seconds between two lines where there is no terminal
LINE = "{desc}: {percentage:3.0f}% of {total_fmt}{unit}, {remaining} left{postfix}"
LINE_WITHOUT_TOTAL = "{desc}: {n_fmt}{unit}{postfix}"


class _Lines(io.TextIOBase):
    """Prints each state of a bar as a line of its own, for logs and pipes."""

    def write(self, text: str) -> int:
        line = text.strip()
        if line:
            print(line, flush=True)
        return len(text)


class Progress:
    """Shows progress, and the time left if the total is known.

    label: in front of every line, where several processes print. if_slow: for work that mostly takes
    less than EVERY_S: a terminal shows the bar only after that time, and removes it at the end.
    """

    def __init__(
        self, what: str, total: int | None, unit: str, label: str = "", if_slow: bool = False
    ) -> None:
        self._label = label
        options: dict[str, Any] = {"dynamic_ncols": True}
        if if_slow:
            options |= {"delay": EVERY_S, "leave": False}
        if not sys.stderr.isatty():
            line = LINE_WITHOUT_TOTAL if total is None else LINE
            options = {"file": _Lines(), "bar_format": line, "delay": EVERY_S, "leave": False}
            options |= {"mininterval": EVERY_S, "miniters": 1, "position": 0}  # not below others
        options["unit_scale"] = total is None or total >= 1000  # 12.3k, but 3 rather than 3.00
        self._bar = tqdm(total=total, desc=label + what, unit=f" {unit}", **options)

    def __enter__(self) -> "Progress":
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.close()

    def resume(self, done: int) -> None:
        """Start the clock now. `done` units of an earlier run do not count for the time left."""
        self._bar.initial = done
        self._bar.n = done
        self._bar.unpause()

    def advance(self, amount: int, note: str = "") -> None:
        """Report that `amount` more units are done; `note` is shown at the end of the line."""
        self._bar.set_postfix_str(note, refresh=False)
        self._bar.update(amount)

    def write(self, text: str) -> None:
        """Print a line without breaking the bar."""
        self._bar.write(self._label + text)
        sys.stdout.flush()


@contextlib.contextmanager
def seconds_shown(what: str) -> Iterator[None]:
    """Show how many seconds the block has taken so far, for libraries that report no progress."""
    done = threading.Event()
    with Progress(what, None, "s", if_slow=True) as progress:

        def count() -> None:
            while not done.wait(1.0):
                progress.advance(1)

        thread = threading.Thread(target=count, daemon=True)
        thread.start()
        try:
            yield
        finally:
            done.set()
            thread.join()
