"""Kill, fill and damage a small pipeline at random moments, then compare its bytes: `python -m tests.torture.run 100`.

Each round starts from nothing and ends with `make repro` done and its bytes compared with those of a run that nothing
disturbed. Kills are counted by whom they hit: the stage, dvc, or the whole process group.
"""

import argparse
import atexit
import collections
import contextlib
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil

from tests.support.clone import SMALL, new_clone

ROOT = Path(__file__).parents[2]
KINDS = ("the stage", "dvc", "the whole process group", "make")
ORPHANS = ("is already running here", "Unable to acquire lock", "is busy, it is being blocked by")  # ours; DVC's two
REMEDY = re.compile(r"rm (?P<file>\S+) and run dvc repro -f -s (?P<stage>[\w@]+)")
AGAIN = "run make repro again"
NAMESPACES = (
    subprocess.run(["unshare", "-rm", "mount", "-t", "tmpfs", "none", "/mnt"], capture_output=True).returncode == 0
)
# What may differ from one start to the next without changing a byte; libraries' threads are set by runtime.threads.
ELSEWHERE = (
    {},
    {"TZ": "Asia/Tokyo", "LC_ALL": "tr_TR.UTF-8", "PYTHONHASHSEED": "5"},
    {"OMP_NUM_THREADS": "2", "MKL_NUM_THREADS": "3", "CXX": "g++"},
    {"XDG_CACHE_HOME": f"{tempfile.gettempdir()}/tinylm-torture"},
)
LEFT_OUT = {"pictures", "report"}  # hold or draw times


def written(folder: Path) -> dict[str, bytes]:
    """Every file of the pipeline under a final name, but for those that hold or draw times."""
    files = [p for name in ("data", "models", "metrics", "plots") for p in (folder / name).rglob("*") if p.is_file()]
    named = [path.relative_to(folder) for path in files]
    kept = [p for p in named if "_time" not in p.name and not LEFT_OUT & set(p.parts)]
    return {str(path): (folder / path).read_bytes() for path in kept}


class Torture:
    """One copy of the repository, in which faults are made and counted; `stage`: where its pipeline ends."""

    def __init__(self, clone: Any, seed: int, stage: str = "") -> None:
        self.clone, self.stage = clone, stage
        self.path: Path = clone.path
        self.random = random.Random(seed)
        self.table: collections.Counter[tuple[str, str]] = collections.Counter()
        self.expected: dict[str, bytes] = {}

    def start(self, before: str = "") -> subprocess.Popen[str]:
        """`make repro` in a process group of its own; `before` (shell): in namespaces of its own, as their root."""
        words = ["make", "-o", "setup", f"BIN={Path(sys.executable).parent}", "repro", f"STAGE={self.stage}"]
        if before:
            space = ["unshare", "-rmn"] if NAMESPACES else []  # no network either: nothing here needs one
            words = [*space, "sh", "-c", f'{before} && exec "$@"', "sh", *words]
        with open(self.path.parent / "last.log", "w", encoding="utf-8") as log:
            self.running = subprocess.Popen(
                words, cwd=self.path, env=self.clone.environment(**self.random.choice(ELSEWHERE)), stdout=log,
                stderr=subprocess.STDOUT, text=True, start_new_session=True,
            )  # fmt: skip
        return self.running

    def end(self) -> None:
        """Leave nothing running, however this script ends."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.running.pid, signal.SIGKILL)
        for orphan in self.stages("dvc"):
            orphan.kill()

    def log(self) -> str:
        return (self.path.parent / "last.log").read_text(encoding="utf-8", errors="replace")

    def heed(self, fault: str, code: int) -> int:
        """Do what a refusal of damaged bytes says: rm FILE and dvc repro -f -s STAGE, or `make repro` again."""
        for _ in range(5):
            said = REMEDY.search(self.log())
            if code == 0 or not (said or AGAIN in self.log()):
                break
            self.table[fault, "refused, and the line says what to do"] += 1
            if said and AGAIN not in self.log():
                (self.path / said["file"]).unlink(missing_ok=True)
                self.clone.dvc("repro", "-f", "-s", said["stage"], code=None)
            code = self.start().wait()
        return code

    def finish(self, fault: str) -> None:
        """`make repro` to its end; then the bytes."""
        code = self.start().wait()
        if code and any(words in self.log() for words in ORPHANS):  # refused, until what was left alone has ended
            self.table["an orphaned stage or dvc still works", "a second one is refused"] += 1
            self.wait_for_orphans()
            code = self.start().wait()
        code = self.heed(fault, code)
        found = written(self.path)
        same = code == 0 and found == self.expected
        if "Traceback" in self.log():
            self.table[fault, "A TRACEBACK"] += 1
        if not same:
            differing = {name for name in {**found, **self.expected} if found.get(name) != self.expected.get(name)}
            print(f"{fault}: {sorted(differing)}\n{self.log()[-3000:]}")
        self.table[fault, "the bytes of an undisturbed run" if same else f"OTHER BYTES (exit code {code})"] += 1

    def stages(self, *others: str) -> list[psutil.Process]:
        """Processes of stages here, and of the commands named."""
        found = []
        for process in psutil.process_iter(["cmdline", "cwd"]):
            words = process.info["cmdline"] or []
            ours = any(word.startswith("stages.") or Path(word).name in others for word in words)
            if process.info["cwd"] == str(self.path) and ours:
                found.append(process)
        return found

    def dvc(self, made: subprocess.Popen[str]) -> list[psutil.Process]:
        """The dvc that `make repro` has started; a shell stands between them."""
        found = []
        with contextlib.suppress(psutil.NoSuchProcess):
            for child in psutil.Process(made.pid).children(recursive=True):
                with contextlib.suppress(psutil.NoSuchProcess):
                    found += [child] if "dvc" in [Path(word).name for word in child.cmdline()[:2]] else []
        return found

    def wait_for_orphans(self) -> None:
        while orphans := self.stages("dvc"):  # dvc starts one stage after the other
            if psutil.wait_procs(orphans, timeout=240)[1]:
                break

    def redate(self) -> None:
        """Give what is in runs/ random dates: a clock may jump."""
        for path in sorted((self.path / "runs").rglob("*")):
            days = self.random.uniform(-400.0, 400.0)
            os.utime(path, (time.time() + days * 86400,) * 2)

    def kill(self, kind: str, after_s: float) -> bool:
        """Start, wait, kill; False where the pipeline was done before."""
        self.redate()
        process = self.start()
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(after_s)
            return False
        if kind == "the whole process group":
            os.killpg(process.pid, signal.SIGKILL)
        elif kind == "make":  # dvc goes on without it
            process.kill()
        else:
            while not (found := self.dvc(process) if kind == "dvc" else self.stages()):  # before it, or between two
                if process.poll() is not None:
                    return False
                time.sleep(0.05)
            for victim in found:
                with contextlib.suppress(psutil.NoSuchProcess):
                    victim.kill()
        process.wait()
        return True

    def clean(self) -> None:
        """As after a clone: nothing made, no cache."""
        self.wait_for_orphans()
        for name in ("data", "models", "runs", "report", "metrics", "plots", ".dvc/cache", ".dvc/tmp", "dvc.lock"):
            path = self.path / name
            shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)

    def kills(self, count: int, longest_s: float) -> None:
        """So many kills, each at a random moment; whenever the pipeline is done, its bytes are compared anew."""
        self.clean()
        done = 0
        while done < count:
            kind = KINDS[done % len(KINDS)]
            if self.kill(kind, self.random.uniform(0.5, longest_s)):
                done += 1
                self.table[f"kill -9 of {kind}", "taken up again by the next `make repro`"] += 1
                if "half-written" in self.log():
                    self.table["dvc.lock half-written", "restored, and said"] += 1
                print(f"{done} of {count} kills", flush=True)
            else:
                self.finish("a round of kills")
                self.clean()
        self.finish("a round of kills")

    def damaged(self, fault: str, damage: Callable[[], object]) -> None:
        """Kill in the middle, damage a file, run to the end."""
        self.clean()
        self.kill("the whole process group", self.random.uniform(8.0, 20.0))
        damage()
        self.finish(fault)

    def flip(self, *folders: str, cut: bool = False) -> None:
        """Flip a bit of a random file, or cut it off."""
        files = [
            p for name in folders for p in sorted((self.path / name).rglob("*")) if p.is_file() and p.stat().st_size
        ]
        if files:
            path = self.random.choice(files)
            mode = path.stat().st_mode
            path.chmod(0o644)
            content = bytearray(path.read_bytes())
            content[self.random.randrange(len(content))] ^= 1 << self.random.randrange(8)
            path.write_bytes(content[: len(content) // 2] if cut else content)
            path.chmod(mode)  # DVC trusts what is read-only in its cache

    def cut_lock(self) -> None:
        lock = self.path / "dvc.lock"
        if lock.exists():
            text = lock.read_bytes()
            lock.write_bytes(text[: self.random.randrange(len(text))])

    def damaged_cache(self, cut: bool) -> None:
        """A whole run, a damaged file in DVC's cache, what the stages made gone: DVC restores from there."""
        self.clean()
        self.start().wait()
        for name in ("data", "models", "report"):
            shutil.rmtree(self.path / name, ignore_errors=True)
        self.flip(".dvc/cache/files", cut=cut)
        self.finish("a file cut off in the cache" if cut else "a bit flipped in the cache")

    def short_of(self, fault: str, name: str, before: str) -> None:
        """Run where folder `name` is `before` (shell), which must end in one line; then where it is not."""
        self.clean()
        (self.path / name).mkdir(parents=True, exist_ok=True)
        code = self.start(before).wait()
        if "Traceback" in self.log():
            self.table[fault, "A TRACEBACK"] += 1
        said = ("No space left", "Read-only file system")  # in DVC's lines, where it is DVC that writes or removes
        errors = [s for s in self.log().splitlines() if s.startswith("error: ") or any(word in s for word in said)]
        told = "one line names it, exit code not 0" if code and errors else "DVC names it" if errors else "room enough"
        self.table[fault, told if code == 0 or errors else f"OTHERWISE (exit code {code})"] += 1
        if code and not errors:
            print(self.log()[-3000:])
        self.finish(fault)

    def small_disk(self) -> None:
        """A disk of some megabytes under one folder, or a limit on the size of each file."""
        kib = self.random.choice((16, 64, 256, 1024, 4096))
        name = self.random.choice(("data", "runs", "metrics", "plots", ".dvc/cache"))  # not models: DVC removes it
        mount = f"mount -t tmpfs -o size={kib}k none {name}" if NAMESPACES else f"ulimit -f {2 * kib}"
        self.short_of("a disk of 16 KiB to 4 MiB", name, mount)

    def read_only(self) -> None:
        name = self.random.choice(("data", "models", "runs", "metrics", "plots"))
        self.short_of("a read-only folder", name, f"mount --bind {name} {name} && mount -o remount,ro,bind {name}")

    def offline(self) -> None:
        """All of it where there is no network but a loopback that is down."""
        self.clean()
        code = self.start("true").wait()
        same = code == 0 and written(self.path) == self.expected
        told = "the bytes of an undisturbed run" if same else f"OTHER BYTES (exit code {code})"
        self.table["a namespace without a network", told] += 1

    def two_at_once(self) -> None:
        self.clean()
        processes = [self.start(), self.start()]
        codes = [process.wait() for process in processes]
        self.table["two at once", f"exit codes {sorted(code != 0 for code in codes).count(True)} refused"] += 1
        self.finish("two at once")

    def undisturbed(self) -> float:
        start = time.perf_counter()
        code = self.start().wait()
        if code:
            raise SystemExit(f"the undisturbed run failed\n{self.log()[-3000:]}")
        self.expected = written(self.path)
        return time.perf_counter() - start


def long_clone(folder: Path) -> Any:
    """A copy of the repository whose training takes a few seconds."""
    clone = new_clone(folder / "clone")
    shutil.copy(ROOT / "tinylm/presets/storybook.yaml", clone.path / "params.yaml")
    clone.set({**SMALL, "train.tokens": 30000, "seeds.more": []})
    clone.commit("longer")
    return clone


def everything(torture: Torture, chosen: argparse.Namespace, seconds: float) -> None:
    """All kills, then each damage as often as asked."""
    torture.kills(chosen.kills, min(12.0, seconds))
    for number in range(chosen.damages):
        torture.damaged("a bit flipped in runs/", lambda: torture.flip("runs"))
        torture.damaged("a file cut off in runs/", lambda: torture.flip("runs", cut=True))
        torture.damaged("a bit flipped in data/ or models/", lambda: torture.flip("data", "models"))
        torture.damaged("a file cut off in data/ or models/", lambda: torture.flip("data", "models", cut=True))
        torture.damaged_cache(cut=False)
        torture.damaged_cache(cut=True)
        torture.small_disk()
        if NAMESPACES:
            torture.read_only()
            torture.offline()
        torture.damaged("dvc.lock cut off", torture.cut_lock)
        torture.two_at_once()
        print(f"each damage {number + 1} of {chosen.damages} times", flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("kills", type=int, nargs="?", default=100)
    parser.add_argument("--damages", type=int, default=3, help="of each kind")
    parser.add_argument("--seed", type=int, default=1)
    chosen = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        torture = Torture(long_clone(Path(folder)), chosen.seed)
        atexit.register(torture.end)
        seconds = torture.undisturbed()
        print(f"undisturbed: {seconds:.0f} s, {len(torture.expected)} files", flush=True)
        try:
            everything(torture, chosen, seconds)
        finally:  # a run that is ended early shows what it has seen
            print(f"\n{'fault':36} | times | what came out")
            for (fault, outcome), times in sorted(torture.table.items()):
                print(f"{fault:36} | {times:5} | {outcome}")
        return int(any(outcome.isupper() or "OTHER" in outcome for _, outcome in torture.table))


if __name__ == "__main__":
    sys.exit(main())
