"""What a sweep is: its runs and the state of each.

Everything is in runs/sweeps/NAME, where every process and host that works on it finds it.
sweep.json lists the runs. Each run has a folder with its own `runs/`, which has its snapshots, and
`log.txt`. A process that works on the run holds a lock on the log. `experiment` holds the commit of
the run's DVC experiment, and `state.json` is written once the run has ended.
"""

import contextlib
import dataclasses
import itertools
import json
import re
from pathlib import Path
from typing import Any

from tinylm.base.config import PARAMS_FILE, InputError, parse_yaml
from tinylm.base.files import read_json, write_json
from tinylm.base.processes import locked
from tinylm.experiments.git import git
from tinylm.params.params import params_from
from tinylm.params.presets.write import Values, merge

FOLDER = Path("runs/sweeps")
DONE, FAILED, RUNNING, WAITING = "done", "failed", "running", "waiting"
STATES = (DONE, FAILED, RUNNING, WAITING)
_NAME = re.compile(r"[A-Za-z0-9][\w-]{0,60}")
State = dict[str, Any]


@dataclasses.dataclass(frozen=True)
class Sweep:
    """The definition of a sweep. Runs are numbered from 1.

    baseline: the commit of the experiments. commit: code and parameters of every run.
    target: the stage that each run ends with. runs: in what each differs from params.yaml.
    """

    name: str
    baseline: str
    commit: str
    target: str
    runs: list[Values]

    @property
    def folder(self) -> Path:
        """The sweep's folder, as an absolute path."""
        return _root() / FOLDER / self.name

    @property
    def numbers(self) -> range:
        """The numbers of all runs."""
        return range(1, len(self.runs) + 1)

    def run(self, number: int) -> Path:
        """The folder of a run."""
        return self.folder / f"{number:04d}"

    def experiment(self, number: int) -> str:
        """The name of the run's DVC experiment."""
        return f"{self.name}-{number:04d}"

    def label(self, number: int) -> str:
        """The run's values, short: lr=0.0003 layers=2 seed=1."""
        values = self.runs[number - 1].items()
        return " ".join(f"{key.rpartition('.')[2]}={value}" for key, value in values)

    def state(self, number: int) -> State:
        """How a run ended; {} if it has not."""
        return _read(self.run(number) / "state.json")

    def metrics(self, number: int) -> State:
        """The metrics of stage train of a run that is done."""
        return _read(self.run(number) / "metrics.json")

    def end(self, number: int, **state: Any) -> None:
        """Write how a run ended."""
        write_json(self.run(number) / "state.json", state)

    def retry_failed(self) -> None:
        """Forget the failures: these runs are begun again, from their snapshots."""
        for number in self.numbers:
            if self.state(number).get("state") == FAILED:
                (self.run(number) / "state.json").unlink()

    def left(self) -> list[int]:
        """The runs that have not ended."""
        return [number for number in self.numbers if not self.state(number)]


def _root() -> Path:
    """The pipeline's folder; a worker is in a folder of the sweep below it."""
    here = Path.cwd()
    for parent in here.parents:
        if parent.parts[-2:] == FOLDER.parts:
            return parent.parents[1]
    return here


def _read(path: Path) -> State:
    with contextlib.suppress(InputError):
        return dict(read_json(path))
    return {}


def open_sweep(name: str | None) -> Sweep:
    """A sweep by its name, or the one that was begun last. Raises InputError."""
    files = list((_root() / FOLDER).glob("*/sweep.json"))
    if not files:
        raise InputError("there is no sweep yet; start one with tinylm sweep -S KEY=VALUE,VALUE")
    by_name = {path.parent.name: path for path in files}
    if name is None:
        newest = max(files, key=lambda path: path.stat().st_mtime)
    elif name in by_name:
        newest = by_name[name]
    else:
        raise InputError(f"NAME: expected one of {', '.join(sorted(by_name))}, got {name}")
    return Sweep(**read_json(newest))


def _names_with_experiments() -> set[str]:
    """The names of all sweeps that have experiments, NAME-0001 and so on; a removed sweep may still have some."""
    listed = git("for-each-ref", "--format=%(refname:lstrip=4)", "refs/exps").splitlines()
    found = [re.fullmatch(r"(.+)-\d{4,}", experiment) for experiment in listed]
    return {name[1] for name in found if name}


def new_name(wanted: str | None) -> str:
    """The name of a new sweep: as wanted, or sweep-1, sweep-2 and so on. Raises InputError."""
    used = _names_with_experiments()
    if wanted is None:
        names = (f"sweep-{number}" for number in itertools.count(1))
        return next(name for name in names if name not in used and not (FOLDER / name).exists())
    if not _NAME.fullmatch(wanted):
        raise InputError(f"--name: expected at most 61 letters, digits, - and _, got {wanted}")
    if (FOLDER / wanted).exists():
        raise InputError(f"--name: {wanted} exists; --resume {wanted} continues it")
    if wanted in used:
        raise InputError(
            f"--name: experiments named {wanted}-0001 and so on exist; choose another name, or remove "
            "them with dvc exp remove"
        )
    return wanted


def params_text(base: str, values: Values) -> str:
    """params.yaml with a run's values, comments kept. Raises InputError for an unknown key.

    The seeds of a sweep are runs of their own, so `seeds.more` is empty where a run sets its seed.
    """
    if "train.seed" in values:
        values = {"seeds.more": []} | values
    sections: dict[str, dict[str, Any]] = {}
    for key, value in values.items():
        section, _, name = key.partition(".")
        sections.setdefault(section, {})[name] = value
    return merge(base, json.dumps(sections), "-S")  # JSON is YAML


def check_values(base: str, values: Values) -> None:
    """Raise InputError with the first reason why a run of these values cannot begin."""
    try:
        params_from(parse_yaml(params_text(base, values), PARAMS_FILE))
    except InputError as error:
        raise InputError(str(error).partition("\n")[0]) from None


def current_state(sweep: Sweep, number: int) -> str:
    """The state of a run in a word.

    Whether a run is going on is found by trying its lock, for an instant. A worker that wants
    the lock in that instant tries again (`worker.Worker.work`).
    """
    if state := sweep.state(number).get("state"):
        return str(state)
    log = sweep.run(number) / "log.txt"
    if not log.exists():
        return WAITING
    with locked(log) as handle:
        return RUNNING if handle is None else WAITING


def _row(sweep: Sweep, number: int) -> dict[str, Any]:
    state = sweep.state(number)
    loss = state.get("held_out")
    return {
        "run": number,
        "values": sweep.label(number),
        "state": current_state(sweep, number),
        "held-out loss": "-" if loss is None else f"{loss:.4f}",
        "time": f"{state['seconds']:.1f} s" if "seconds" in state else "",
        "": state.get("why", ""),
    }


def table(sweep: Sweep) -> str:
    """The runs in columns: values, state, held-out loss (nats per token), time, why; a summary."""
    import pandas as pd

    rows = [_row(sweep, number) for number in sweep.numbers]
    return f"{pd.DataFrame(rows).to_string(index=False)}\n{summary(sweep)}"


def summary(sweep: Sweep) -> str:
    """The number of runs in each state."""
    states = [current_state(sweep, number) for number in sweep.numbers]
    counts = [f"{states.count(state)} {state}" for state in STATES if state in states]
    return f"{sweep.name}: {', '.join(counts)} of {len(states)} runs"
