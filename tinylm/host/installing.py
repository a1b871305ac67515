"""Run pip or uv for `make setup` and say every few seconds how far it is: `python -m tinylm.host.installing COMMAND`.

Only Python itself is needed: the environment is still empty then. pip says what it fetches; of a command that says
nothing, the seconds are told. What the command printed last is shown if it fails.
"""

import collections
import re
import subprocess
import sys
import threading
import time
from collections.abc import Iterable
from dataclasses import dataclass

EVERY_S = 10.0
LAST_LINES = 30
_FETCHED = re.compile(
    r"\s*(?:Downloading|Using cached|Processing) (?:\S*/)?([\w.]+)-[^\s/]+(?: \(([\d.]+) (\w+)\))?$"
)
_MB = {"bytes": 1e-6, "kB": 1e-3, "MB": 1.0, "GB": 1e3}


@dataclass
class Progress:
    """What the lines that pip printed so far say."""

    packages: int = 0
    mb: float = 0.0
    now: str = ""

    def read(self, line: str) -> None:
        """One line of pip: a package that it begins to fetch, or that all are being installed."""
        if line.startswith("Installing collected packages"):
            self.now = f"installing {line.count(',') + 1} packages"
        elif (found := _FETCHED.match(line)) and ".metadata" not in line:
            self.packages += 1
            self.mb += float(found[2] or 0) * _MB.get(found[3], 0.0)
            self.now = f"at {found[1]}" + (f", {found[2]} {found[3]}" if found[2] else "")

    def __str__(self) -> str:
        found = f"{self.packages} packages found, {self.mb:,.0f} MB" if self.packages else ""
        return "; ".join(part for part in (found, self.now) if part) or "at work"


def _tell(progress: Progress, ended: threading.Event) -> None:
    begun = time.monotonic()
    while not ended.wait(EVERY_S):
        print(f"  {time.monotonic() - begun:3.0f} s: {progress}", flush=True)


def run(command: list[str]) -> int:
    """The command's exit code."""
    progress, ended = Progress(), threading.Event()
    last: collections.deque[str] = collections.deque(maxlen=LAST_LINES)
    teller = threading.Thread(target=_tell, args=(progress, ended), daemon=True)
    begun = time.monotonic()
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace"
    ) as process:
        teller.start()
        lines: Iterable[str] = process.stdout or ()
        for line in lines:
            progress.read(line)
            last.append(line)
    ended.set()
    teller.join()
    if process.returncode:
        print("".join(last), end="", file=sys.stderr, flush=True)
    said = f"{progress.packages} packages, {progress.mb:,.0f} MB, " if progress.packages else ""
    outcome = "done" if process.returncode == 0 else f"failed with exit code {process.returncode}"
    print(f"  {outcome}: {said}{time.monotonic() - begun:.0f} s", flush=True)
    return process.returncode


if __name__ == "__main__":
    try:
        sys.exit(run(sys.argv[1:]))
    except KeyboardInterrupt:
        sys.exit(130)
