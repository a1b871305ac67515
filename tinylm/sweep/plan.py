"""A sweep: its runs and what each has come to.

Everything is in runs/sweeps/NAME, where each process and host that works on it finds it: sweep.json says what is run;
a folder for each run has `log.txt` (a process that works on the run holds a lock on it), `progress.json`, the run's own
`runs/` with its snapshots, and once it has ended `state.json`.
"""

import contextlib
import dataclasses
import itertools
import json
import re
import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tinylm.base.config import PARAMS_FILE, InputError, parse_yaml
from tinylm.base.files import read_json, write_json
from tinylm.host.params import read_sections, rule_errors
from tinylm.host.processes import locked
from tinylm.host.progress import duration
from tinylm.presets.write import Values, flatten, merge

FOLDER = Path("runs/sweeps")
DONE, FAILED, STOPPED, RUNNING, WAITING = "done", "failed", "stopped", "running", "waiting"
SHARED = (
    "vocab",
    ("data", "vocab", "embedding"),
)  # the last stage that runs share, and the sections that decide it
TIMED = (
    "beam_bench",
    "kv_bench",
    "accum_sweep",
    "ckpt_bench",
    "report",
)  # stages whose times others would disturb
MOST = 9999  # runs of a sweep
SHOWN = 40  # runs that are listed when a sweep has ended
_NAME = re.compile(r"[A-Za-z0-9][\w-]{0,60}")
State = dict[str, Any]


@dataclasses.dataclass(frozen=True)
class Sweep:
    """What is run. Runs are numbered from 1; `runs` has the values in which each differs from params.yaml."""

    name: str
    baseline: str  # the commit that the experiments belong to
    commit: str  # what was in the folder: code and parameters of every run
    targets: list[str]  # the stage that each run ends with
    runs: list[Values]
    refused: dict[str, str]  # number of a run whose values are not allowed -> why
    memory_gib: float | None = None  # of a run
    halving: list[int] | None = (
        None  # updates until a run can be stopped, and the factor; None: all go to their end
    )
    trials: list[int] = dataclasses.field(default_factory=list)  # each run's in Optuna's journal
    timed: bool = False  # a run's stages really run, in one piece: its times are wanted

    @property
    def folder(self) -> Path:
        """Where the sweep is, as an absolute path."""
        return _root() / FOLDER / self.name

    @property
    def numbers(self) -> range:
        """Of all runs."""
        return range(1, len(self.runs) + 1)

    def run(self, number: int) -> Path:
        """Folder of a run."""
        return self.folder / f"{number:04d}"

    def experiment(self, number: int) -> str:
        """Name of the run's DVC experiment."""
        return f"{self.name}-{number:04d}"

    def label(self, number: int) -> str:
        """The run's values, short: lr=0.0003 layers=2 seed=1; or the stage that it alone ends with."""
        target = [self.targets[number - 1]] if "@" in self.targets[number - 1] else []
        values = self.runs[number - 1].items()
        return " ".join([*target, *(f"{key.rpartition('.')[2]}={value}" for key, value in values)])

    def state(self, number: int) -> State:
        """How a run ended; {} if it has not."""
        return _read(self.run(number) / "state.json")

    def figures(self, number: int) -> State:
        """What a run that is done counted and scored, and where; {} for one of a single seed of `seeds.more`."""
        return _read(self.run(number) / "figures.json")

    def progress(self, number: int) -> State:
        """How far a run got: update, tokens and held-out loss of its last validation, and how often it was begun."""
        return _read(self.run(number) / "progress.json")

    def end(self, number: int, **state: Any) -> None:
        """Write how a run ended."""
        write_json(self.run(number) / "state.json", state)

    def begin_again(self) -> list[int]:
        """Forget what failed, but for values that are not allowed; returns the runs that are left to do."""
        for number in self.numbers:
            if self.state(number).get("state") == FAILED and str(number) not in self.refused:
                (self.run(number) / "state.json").unlink()
                (self.run(number) / "progress.json").unlink(missing_ok=True)
        return [number for number in self.numbers if not self.state(number)]


def _root() -> Path:
    """The pipeline's folder; a worker is in a folder of the sweep below it."""
    here = Path.cwd()
    return next(
        (above.parents[1] for above in here.parents if above.parts[-2:] == FOLDER.parts), here
    )


def _read(path: Path) -> State:
    with contextlib.suppress(InputError):
        return dict(read_json(path))
    return {}


def open_sweep(name: str | None) -> Sweep:
    """A sweep by its name, or the one that was begun last. Raises InputError."""
    found = sorted((_root() / FOLDER).glob("*/sweep.json"), key=lambda path: path.stat().st_mtime)
    names = [path.parent.name for path in found]
    if not found or name not in (None, *names):
        begin = "begin one with tinylm sweep -S KEY=VALUE,VALUE"
        raise InputError(
            f"{FOLDER}: no sweep {name}; allowed: {' | '.join(names)}"
            if names
            else f"no sweep yet; {begin}"
        )
    return Sweep(**read_json(found[names.index(name) if name else -1].parent / "sweep.json"))


def new_name(wanted: str | None) -> str:
    """The name of a new sweep: as wanted, or sweep-1, sweep-2 and so on. Raises InputError."""
    if wanted is None:
        return next(
            name for n in itertools.count(1) if not (FOLDER / (name := f"sweep-{n}")).exists()
        )
    if not _NAME.fullmatch(wanted):
        raise InputError(f"--name {wanted}; allowed: letters, digits, - and _, at most 61")
    if (FOLDER / wanted).exists():
        raise InputError(
            f"--name {wanted}: {FOLDER / wanted} is there; --resume {wanted} goes on with it"
        )
    return wanted


def product(axes: Mapping[str, Sequence[Any]], seeds: Sequence[int]) -> list[Values]:
    """The values of every run: all settings with one seed before the next seed."""
    settings = [dict(zip(axes, values)) for values in itertools.product(*axes.values())]
    seeded: list[Values] = [{"train.seed": seed} for seed in seeds] or [{}]
    return [setting | seed for seed in seeded for setting in settings]


def params_text(base: str, values: Values) -> str:
    """params.yaml with a run's values, comments kept. Raises InputError for a key that it lacks."""
    sections: dict[str, dict[str, Any]] = {}
    for key, value in values.items():
        section, _, name = key.partition(".")
        sections.setdefault(section, {})[name] = value
    return merge(base, json.dumps(sections), "-S")  # JSON is YAML


def problem(base: str, values: Values) -> str:
    """Why a run of these values cannot begin, in one line; "" if it can."""
    params = parse_yaml(params_text(base, values), PARAMS_FILE)
    sections, errors = read_sections(params)
    errors += rule_errors(sections)
    if not errors:
        return ""
    more = f" (and {len(errors) - 1} more)" if len(errors) > 1 else ""
    return f"{errors[0]}{more}"


def shared_values(params: Mapping[str, Any]) -> Values:
    """The parameters that decide what runs share."""
    return flatten({name: params.get(name) for name in SHARED[1]})


def now(sweep: Sweep, number: int) -> str:
    """The state of a run in a word."""
    if found := sweep.state(number).get("state"):
        return str(found)
    log = sweep.run(number) / "log.txt"
    if not log.exists():
        return WAITING
    with locked(log) as free:
        return WAITING if free else RUNNING


def _cells(sweep: Sweep, number: int) -> list[str]:
    state, progress = sweep.state(number), sweep.progress(number)
    loss = state.get("held_out", progress.get("held_out"))
    seconds = state.get("seconds")
    why = state.get(
        "why", "" if not progress.get("update") or state else f"update {progress['update']:,}"
    )
    shown = "-" if loss is None else f"{loss:.4f}"
    return [
        str(number),
        sweep.label(number),
        now(sweep, number),
        shown,
        "" if seconds is None else f"{seconds:.1f} s",
        why,
    ]


def table(sweep: Sweep, numbers: Sequence[int]) -> str:
    """The runs in aligned columns: values, state, held-out loss in nats per token, time, and why one failed."""
    rows = [
        ["run", "values", "state", "held-out loss", "time", ""],
        *(_cells(sweep, number) for number in numbers),
    ]
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    return "\n".join("  ".join(map(str.ljust, row, widths)).rstrip() for row in rows)


def summary(sweep: Sweep, workers: int = 1) -> str:
    """How many runs are in which state, and about how long the rest takes so many workers."""
    states = [now(sweep, number) for number in sweep.numbers]
    counts = [
        f"{states.count(state)} {state}"
        for state in (DONE, STOPPED, FAILED, RUNNING, WAITING)
        if state in states
    ]
    ended = [sweep.state(number).get("seconds") for number in sweep.numbers]
    times = [seconds for seconds in ended if seconds]
    left = states.count(RUNNING) + states.count(WAITING)
    time_left = (
        f", about {duration(statistics.fmean(times) * left / workers)} left"
        if left and times
        else ""
    )
    return f"{sweep.name}: {', '.join(counts)} of {len(states)} runs{time_left}"
