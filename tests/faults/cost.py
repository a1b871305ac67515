"""What safety costs: `python -m tests.faults.cost` (make cost).

Runs the stages of params.yaml in a folder of its own, each in a process as DVC starts it, and adds up the time spent
inside the calls that are there for nothing else: snapshots, SHA-256 sums, fsync with its rename and reservation, checks
of what is read. A call inside another counts once, with the outer one. Measured inside one run, the shares do not
depend on how busy the machine is. Last, one training with a snapshot a second and one without, in turn: what a snapshot
costs the updates around it as well.
"""

import argparse
import functools
import importlib
import itertools
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
KINDS = ("snapshots", "sums", "fsync", "checks")
WRAPPED = {  # module -> its functions, or Class.method, by kind; modules in the order in which they are imported
    "hashlib": {"sha256": "sums"},
    "os": {"fsync": "fsync", "posix_fallocate": "fsync", "replace": "fsync", "rename": "fsync"},
    "tinylm.host.processes": {"check_writable": "checks", "sweep": "checks"},
    "tinylm.base.files": dict.fromkeys(("sha256", "_digest", "write_sums", "check_sha256", "check_sums"), "sums"),
    "tinylm.text.vectors.source": {"check_vectors": "checks"},
    "tinylm.presets.sections": {"stage_params": "checks"},
    "tinylm.text.tokens.token_store": {"TokenStore.__init__": "checks"},
    "tinylm.model.checkpoint": {"_misfit": "checks"},
    "tinylm.training.snapshot": {
        "fingerprint": "snapshots",
        **{f"Snapshots.{name}": "snapshots" for name in ("save", "keep", "copy_kept", "latest", "finish")},
    },
    "tinylm.training.loop": {"_Run.state": "snapshots"},
}


class Timer:
    """Seconds and calls of each kind."""

    def __init__(self) -> None:
        self.seconds, self.calls, self.inside = dict.fromkeys(KINDS, 0.0), dict.fromkeys(KINDS, 0), False

    def timed(self, call: Callable[..., Any], kind: str) -> Callable[..., Any]:
        @functools.wraps(call)
        def timed(*arguments: Any, **named: Any) -> Any:
            if self.inside:
                return call(*arguments, **named)
            self.inside, start = True, time.perf_counter()
            try:
                return call(*arguments, **named)
            finally:
                self.inside = False
                self.seconds[kind] += time.perf_counter() - start
                self.calls[kind] += 1

        return timed

    def install(self, put: Callable[[Any, str, Any], None] = setattr) -> None:
        """Put the timers in place: before a stage is imported, which binds names of these modules."""
        for module, names in WRAPPED.items():
            for name, kind in names.items():
                place = importlib.import_module(module)
                for part in name.split(".")[:-1]:
                    place = getattr(place, part)
                last = name.rpartition(".")[2]
                put(place, last, self.timed(getattr(place, last), kind))


def run_stage(words: list[str], told: str) -> int:
    """One stage in this process; what it cost goes to the file `told`."""
    started = time.perf_counter()
    sys.argv = words
    timer = Timer()
    timer.install()
    from tinylm.host.command import guard

    code = guard(importlib.import_module(f"stages.{words[0]}").main)
    whole = time.perf_counter() - started
    Path(told).write_text(json.dumps({"whole": whole, "seconds": timer.seconds, "calls": timer.calls}), "utf-8")
    return code


def commands(params: dict[str, Any]) -> Iterator[list[str]]:
    """The stages in the order of dvc.yaml, its matrices unfolded."""
    import yaml

    stages = yaml.safe_load((ROOT / "dvc.yaml").read_text("utf-8"))["stages"]
    for name, stage in stages.items():
        lists = {"accumulation": params["accum_sweep"]["settings"], "seed": params["seeds"]["more"]}
        for values in itertools.product(*(lists[key] for key in stage.get("matrix", {}))):
            yield [name, *map(str, values)]


def plant(folder: Path, params: str) -> None:
    """What the stages need of the repository."""
    (folder / "params.yaml").write_text(params, "utf-8")
    for name in ("stages", "tinylm", "docs", "tests"):
        (folder / name).symlink_to(ROOT / name)


def measure(folder: Path, words: list[str]) -> dict[str, Any]:
    """Run one stage in a process of its own and read back what it cost."""
    told = folder / ".cost.json"
    command = [sys.executable, "-m", "tests.faults.cost", "--stage", *words, "--told", str(told)]
    done = subprocess.run(command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if done.returncode:
        raise SystemExit(f"{' '.join(words)}: exit code {done.returncode}\n{done.stdout[-2000:]}")
    return json.loads(told.read_text("utf-8"))


def row(name: str, found: dict[str, Any]) -> str:
    parts = [f"{found['seconds'][kind]:.3f} ({found['calls'][kind]})" for kind in KINDS]
    share = sum(found["seconds"].values()) / found["whole"]
    return f"| {name} | {found['whole']:.1f} | {' | '.join(parts)} | {share:.2%} |"


def added(found: list[dict[str, Any]]) -> dict[str, Any]:
    both = {key: {kind: sum(f[key][kind] for f in found) for kind in KINDS} for key in ("seconds", "calls")}
    return {"whole": sum(f["whole"] for f in found), **both}


def compare_training(folder: Path, text: str, tokens: int, rounds: int) -> str:
    """Short trainings with a snapshot a second and without any until the end, in turn."""
    import yaml

    params = yaml.safe_load(text)
    params["train"] |= {"stop_after": tokens, "validate_every": 10**6, "sample_every": 10**6}
    taken: dict[float, list[float]] = {1.0: [], 1e9: []}
    calls = {}
    for _ in range(rounds):
        for every_s, seconds in taken.items():
            params["runtime"]["snapshot_every_s"] = every_s
            (folder / "params.yaml").write_text(yaml.safe_dump(params), "utf-8")
            calls[every_s] = measure(folder, ["train"])["calls"]["snapshots"]
            seconds.append(json.loads((folder / "metrics/train_time.json").read_text("utf-8"))["seconds"])
    with_them, without = (statistics.median(seconds) for seconds in taken.values())
    more = (calls[1.0] - calls[1e9]) // 2  # Run.snapshot and Snapshots.save of each
    each = (with_them - without) / max(more, 1)
    return (
        f"train, {tokens:,} tokens, median of {rounds} in turn: {with_them:.1f} s with {more} snapshots more, "
        f"{without:.1f} s without: {each * 1000:.0f} ms a snapshot with all that it disturbs, "
        f"{each / 30:.2%} of a run at one in 30 s (each: {list(taken.values())})"
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--stage", nargs="+", help=argparse.SUPPRESS)
    parser.add_argument("--told", help=argparse.SUPPRESS)
    parser.add_argument("--params", default="params.yaml", metavar="FILE", help="(default %(default)s)")
    parser.add_argument("--tokens", type=int, default=250_000, help="of the trainings that are compared; 0: none")
    parser.add_argument("--rounds", type=int, default=3)
    chosen = parser.parse_args()
    if chosen.stage:
        return run_stage(chosen.stage, chosen.told)
    import yaml

    text = Path(chosen.params).read_text("utf-8")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        plant(folder, text)
        print(f"| stage | s | {' | '.join(f'{kind}, s (calls)' for kind in KINDS)} | share |")
        print(f"|{'---|' * (len(KINDS) + 3)}")
        found = {}
        for words in commands(yaml.safe_load(text)):
            found[" ".join(words)] = measure(folder, words)
            print(row(" ".join(words), found[" ".join(words)]), flush=True)
        print(row("all", added(list(found.values()))))
        snapshots = sum(f["seconds"]["snapshots"] for f in found.values())
        print(f"snapshots: {snapshots / found['train']['whole']:.2%} of stage train")
        if chosen.tokens:
            print(compare_training(folder, text, chosen.tokens, chosen.rounds))
    return 0


if __name__ == "__main__":
    sys.exit(main())
