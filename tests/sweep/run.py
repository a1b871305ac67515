"""Many short runs, random kills and a lost host; then the cost of a run beside other engines.

`python -m tests.sweep.run --runs 20 --kills 5` makes a small clone, lets two workers do a sweep in it while workers and
stages are killed at random and once everything at the same time, and compares each experiment's dvc.lock with that of
the same run by `dvc exp run` (of as many as --compare says). `--overhead 10` times so many runs by `tinylm sweep`, `dvc
queue`, `dvc exp run --temp` and submitit's local executor: seconds a run beyond those of its stages' own main().
"""

import argparse
import json
import shutil
import statistics
import sys
import tempfile
import time
from pathlib import Path

from tests.support.clone import Clone
from tests.sweep import rig


def proof(
    folder: Path,
    runs: int,
    kills: int,
    compared: int,
    tokens: int,
    between: float,
    seed: int,
    to: str,
) -> None:
    """The sweep with its troubles; asserts that nothing is lost, counted twice or of other bytes."""
    clone, serial = (rig.lab(folder / name, train__tokens=tokens) for name in ("clone", "serial"))
    seeds = ",".join(map(str, range(1, runs // 2 + 1)))
    log = folder / "sweep.log"
    began = time.monotonic()
    words = ("-S", "train.lr=1e-3,3e-3", "--seeds", seeds, "--to", to)
    process = rig.start(clone, *words, "--workers", "2", "--name", "s", log=log)
    dealt = rig.kill_at_random(process, kills // 2, 2 * between, seed)
    while (
        ended := len([*clone.path.glob("runs/sweeps/s/*/state.json")])
    ) < runs // 3 and process.poll() is None:
        time.sleep(0.5)
    rig.lose_host(process)
    print(f"{dealt} kills, then the whole host was lost after {ended} of {runs} runs", flush=True)
    process = rig.start(clone, "--resume", "s", "--workers", "2", log=log)
    try:
        dealt += rig.kill_at_random(process, kills - dealt, 2 * between, seed + 1)
        code = process.wait()
    finally:
        rig.lose_host(process)
    took = time.monotonic() - began
    assert code == 0, log.read_text()[-3000:]
    recorded = rig.locks(clone)
    assert sorted(recorded) == [f"s-{n:04d}" for n in range(1, runs + 1)], "lost or counted twice"
    assert log.read_text().count(" done in ") >= runs - ended
    values = json.loads((clone.path / "runs/sweeps/s/sweep.json").read_text())["runs"]
    chosen = range(0, runs, max(1, runs // max(compared, 1)))
    for index in chosen:
        other = rig.serially(serial, values[index], to)
        found = recorded[f"s-{index + 1:04d}"]
        assert {name: found[name] for name in other} == other, f"run {index + 1}: other bytes"
    own = [
        json.loads(path.read_text())["seconds"]
        for path in clone.path.glob("runs/sweeps/s/*/state.json")
    ]
    print(
        f"{runs} runs of {statistics.median(own):.1f} s (median) on two workers, {dealt} kill -9 at random and a lost "
        f"host, {took:.0f} s: none lost, none counted twice; {len(chosen)} of them run serially by dvc exp run: equal "
        "hashes of every output"
    )


def _timed(clone: Clone, *words: str) -> float:
    began = time.monotonic()
    done = rig.plain(clone, *words)
    assert done.returncode == 0, done.stdout
    return time.monotonic() - began


JOB = """\
import os, subprocess, sys, submitit
def job(seed):
    folder = f"../job{seed}"
    subprocess.run(["cp", "-r", ".", folder], check=True)
    text = open(f"{folder}/params.yaml").read()
    head, _, tail = text.rpartition("\\ndecode:")
    open(f"{folder}/params.yaml", "w").write(head.replace("  seed: 1", f"  seed: {seed}") + "\\ndecode:" + tail)
    for stage in ("train", "evaluate"):
        subprocess.run([sys.executable, "-m", f"stages.{stage}"], cwd=folder, check=True, stdout=subprocess.DEVNULL)
executor = submitit.AutoExecutor(folder="../submitit", cluster="local")
executor.update_parameters(timeout_min=60)
for seed in map(int, sys.argv[1].split(",")):  # one worker: one after the other
    executor.submit(job, seed).result()
"""


def overhead(folder: Path, runs: int, tokens: int) -> None:
    """Seconds a run, and how many of them are not its stages' own, by engine; one run at a time."""
    seeds = list(range(2, runs + 2))
    listed = ",".join(map(str, seeds))
    rows: list[tuple[str, float, float]] = []

    first = rig.lab(folder / "first" / "clone", train__tokens=tokens)
    first.dvc("repro", "evaluate")
    first.commit("run")
    shutil.rmtree(first.path / "runs")

    def ready(name: str) -> Clone:
        shutil.copytree(folder / "first", folder / name, symlinks=True)
        return Clone(folder / name / "clone")

    clone = ready("sweep")
    took = _timed(
        clone, sys.executable, "-m", "tinylm.cli", "sweep", "--seeds", listed, "--workers", "1"
    )
    states = [
        json.loads(path.read_text())
        for path in sorted(clone.path.glob("runs/sweeps/*/*/state.json"))
    ]
    own = sum(state["stage_s"] for state in states)
    rows.append(("tinylm sweep, with its start", took / runs, own / runs))
    further = [
        sum(state[part] for state in states[1:]) / (runs - 1) for part in ("seconds", "stage_s")
    ]
    rows.append(("tinylm sweep, a further run", further[0], further[1]))

    clone = ready("queue")
    for seed in seeds:
        _timed(clone, "dvc", "exp", "run", "--queue", "-S", f"train.seed={seed}", "evaluate")
    began = time.monotonic()
    _timed(clone, "dvc", "queue", "start")
    while (status := clone.dvc("queue", "status")).count("Success") < runs:
        assert "Failed" not in status, status
        time.sleep(0.5)
    rows.append(
        ("dvc queue start, queueing not counted", (time.monotonic() - began) / runs, own / runs)
    )
    clone.dvc("queue", "stop", "--kill")

    clone = ready("temp")
    took = sum(
        _timed(clone, "dvc", "exp", "run", "--temp", "-S", f"train.seed={seed}", "evaluate")
        for seed in seeds
    )
    rows.append(("dvc exp run --temp", took / runs, own / runs))

    clone = ready("submitit")
    (clone.path / "job.py").write_text(JOB)
    took = _timed(clone, sys.executable, "job.py", listed)
    rows.append(("submitit local, nothing recorded", took / runs, own / runs))
    print(
        f"\n{runs} runs of stages train and evaluate, whose own time is {own / runs:.2f} s a run in a warm process"
    )
    print(f"{'engine':40}  {'s a run':>8}  {'overhead':>8}")
    for name, took, own in rows:
        print(f"{name:40}  {took:8.2f}  {took - own:8.2f}")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--runs", type=int, default=20, help="an even number")
    parser.add_argument("--kills", type=int, default=6)
    parser.add_argument("--compare", type=int, default=5, help="runs that are run serially too")
    parser.add_argument("--tokens", type=int, default=20000, help="of a run")
    parser.add_argument(
        "--between", type=float, default=5.0, metavar="S", help="mean seconds between two kills"
    )
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--to", default="evaluate", help="the last stage of a run")
    parser.add_argument(
        "--overhead", type=int, metavar="RUNS", help="the table, instead of the proof"
    )
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        if arguments.overhead:
            overhead(Path(folder), arguments.overhead, arguments.tokens)
        else:
            keys = ("runs", "kills", "compare", "tokens", "between", "seed", "to")
            proof(Path(folder), *(vars(arguments)[key] for key in keys))


if __name__ == "__main__":
    main()
