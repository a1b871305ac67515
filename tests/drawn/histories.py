"""A property of commands in any order: what is computed follows from settings and data, not from what was run before."""

import contextlib
import dataclasses
import functools
import json
import os
import random
import shutil
import signal
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import dvc.stage.run
import pandas as pd
import pytest
from dvc.exceptions import DvcException, ReproductionError
from dvc.repo import Repo

from tests.drawn.corpora import encoded
from tests.drawn.cuts import PowerCut, counted, outputs_of, sums
from tests.drawn.drawing import DrawnRun, is_legal
from tests.drawn.properties import ALONE, holds
from tests.drawn.refusals import ended
from tests.drawn.reruns import DVC_FOLDERS, draw_edits
from tests.drawn.running import Refused, in_folder, plant_run, run_stage
from tests.support.clone import set_params
from tests.support.stages import ROOT, STORIES, run
from tinylm.base.command import CommandFailed
from tinylm.experiments import comparison, new_sweep, slots, sweeps, worker
from tinylm.experiments.git import git
from tinylm.experiments.provenance import read_status
from tinylm.experiments.results import RevisionResult, plain_value, read_result
from tinylm.experiments.revisions import WORKSPACE, opened
from tinylm.params.presets.write import flatten, merge
from tinylm.run.lock import outdated, read_lock

STAGES = ("download", "vocab", "train", "evaluate")
LAST = STAGES[-1]
READ_BY_EVALUATE = (
    "data/stories/",
    "data/vocab/",
    "data/tokens/",
    "data/figures/download",
    "data/figures/train",
    "models/",
)
SECTIONS = (
    "data",
    "vocab",
    "embedding",
    "model",
    "train",
    "decode",
    "cache",
    "evaluate",
)  # that they read
STEPS = 7  # of one history
EDITS = 3
CODE = "tinylm/train/muon.py"  # which stages train and evaluate depend on
AUTHOR = {"GIT_CONFIG_GLOBAL": os.devnull}
AUTHOR |= {f"GIT_{role}_NAME": "test" for role in ("AUTHOR", "COMMITTER")}
AUTHOR |= {f"GIT_{role}_EMAIL": "test@localhost" for role in ("AUTHOR", "COMMITTER")}


@dataclass(frozen=True)
class State:
    """What a revision holds: the edits of the drawn settings, and how many rows and lines of code were added.

    The lines of code are comments, which change no result.
    """

    edits: tuple[tuple[str, str], ...] = ()  # (key, its value as JSON), sorted
    rows: int = 0
    lines: int = 0

    def changes(self) -> dict[str, Any]:
        """{key: value}."""
        return {key: json.loads(value) for key, value in self.edits}

    def with_values(self, values: dict[str, Any]) -> "State":
        """With other values of some keys."""
        changes = self.changes() | values
        edits = tuple(sorted((key, json.dumps(changes[key])) for key in changes))
        return dataclasses.replace(self, edits=edits)


@dataclass(frozen=True)
class Outcome:
    """What a new folder computes: {file: SHA-256} (`sums`), its perplexity and loss, or the line of an error.

    nats: the sum of the losses of all evaluation stories.
    """

    sums: dict[str, str]
    perplexity: float | None = None
    nats: float = 0.0
    error: str = ""


class History:
    """A repository in the current folder: commands that change it, and what must hold after each.

    said: the commands so far, for the message of a failure.
    """

    def __init__(self, drawn: DrawnRun, chooser: random.Random, home: Path) -> None:
        self.drawn = drawn
        self.chooser = chooser
        self.home = home
        self.said: list[str] = []
        self.state = State()
        self.computed: State | None = None  # the state that the results here are of
        self.has_other_times = False  # whether a stage was run by hand, so dvc.lock has other times
        self.states: dict[str, State] = {}  # of each commit and experiment
        self.experiments: list[str] = []
        self.outcomes: dict[State, Outcome] = {}
        self.is_tracked = chooser.random() < 0.5  # the data, by git
        candidates = draw_edits(drawn, chooser, SECTIONS)
        # Other texts would need the quoting rules of Hydra, by which DVC reads `-S`.
        self.edits = [
            edit for edit in candidates if not isinstance(edit[1], str) or edit[1].isidentifier()
        ]
        self.edits = self.edits[:EDITS]

    def begin(self) -> None:
        """Commit everything but the data, or with it."""
        shutil.copy(ROOT / ".gitignore", ".gitignore")
        shutil.copy(ROOT / ".dvcignore", ".dvcignore")
        for name in ("inputs/vocab", "inputs/vectors"):  # git keeps no empty folder
            Path(name, "README").touch()
        for name in ("stages", "tinylm", "dvc.yaml"):  # git and DVC follow no link
            os.unlink(name)
            if (ROOT / name).is_dir():
                shutil.copytree(ROOT / name, name, ignore=shutil.ignore_patterns("__pycache__"))
            else:
                shutil.copy(ROOT / name, name)
        shutil.copy(ROOT / "tinylm/params/presets/storybook.yaml", "params.yaml")
        set_params(Path(), flatten(self.drawn.params()))
        git("init", "-q", "-b", "main")
        Repo.init(".").close()
        if not self.is_tracked:
            ignored = Path(".git/info/exclude")
            ignored.write_text("".join(f"/{name}\n" for name in self.user_files()))
        self.commit()

    def user_files(self) -> list[str]:
        """The files and folders that are the user's own."""
        names = [*self.drawn.files.stories, "stories.jsonl", "inputs"]
        if self.drawn.files.world:
            names.append(self.drawn.files.path)
        return sorted({name.partition("/")[0] for name in names})

    # What is expected.

    def drawn_at(self, state: State) -> DrawnRun:
        return DrawnRun(self.drawn.changes | state.changes(), self.drawn.files)

    def outcome(self, state: State) -> Outcome:
        """What these settings and data give in a folder without a past."""
        state = dataclasses.replace(state, lines=0)
        if state not in self.outcomes:
            with tempfile.TemporaryDirectory(dir=self.home) as name, contextlib.chdir(name):
                plant_run(self.drawn_at(state), Path())
                add_rows(self.drawn, state.rows)
                self.outcomes[state] = computed()
        return self.outcomes[state]

    def may_be(self, state: State) -> bool:
        """Whether the settings are legal."""
        return is_legal(self.drawn.changes | state.changes())

    # Commands.

    def edit(self) -> None:
        """Set one key to its other value, or back."""
        self.set_state(self.other_state())

    def other_state(self) -> State:
        for key, value in self.chooser.sample(self.edits, len(self.edits)):
            section, _, name = key.partition(".")
            here = self.drawn_at(self.state).params()[section][name]
            other = value if here != value else self.drawn.params()[section][name]
            state = self.state.with_values({key: other})
            if self.may_be(state):
                return state
        return self.state

    def set_state(self, state: State) -> None:
        self.said.append(f"edit: {state}")
        self.state = state
        text = Path("params.yaml").read_text("utf-8")
        nested: dict[str, dict[str, Any]] = {}
        for key, value in self.values_of(state).items():
            section, _, name = key.partition(".")
            nested.setdefault(section, {})[name] = value
        Path("params.yaml").write_text(merge(text, json.dumps(nested), "edit"), encoding="utf-8")

    def values_of(self, state: State) -> dict[str, Any]:
        """The values of all keys that are ever edited."""
        params = flatten(self.drawn_at(state).params())
        return {key: params[key] for key, _ in self.edits}

    def add_row(self) -> None:
        """Add a row to the data."""
        self.said.append("a row is added to the data")
        self.state = dataclasses.replace(self.state, rows=self.state.rows + 1)
        add_rows(self.drawn, self.state.rows)

    def add_line(self) -> None:
        """Add a comment to the code of stage train."""
        self.said.append(f"a comment is added to {CODE}")
        self.state = dataclasses.replace(self.state, lines=self.state.lines + 1)
        with open(CODE, "a", encoding="utf-8") as handle:
            handle.write("# one more line\n")

    def repro(self) -> None:
        """`dvc repro evaluate`."""
        self.said.append("dvc repro evaluate")
        self.finish(reproduced)

    def finish(self, command: Callable[[], str]) -> None:
        """A command that brings the results up to date; it gives the line of its error."""
        expected = self.outcome(self.state)
        error = self.attempt(command)
        assert error == expected.error, f"expected {expected.error!r}, got {error!r}"
        self.computed = None if error else self.state
        self.has_other_times = False

    def attempt(self, command: Callable[[], str]) -> str:
        """The line of its error; a snapshot of other settings is removed, as the message says."""
        error = command()
        if "changed since" in error:
            self.said.append("rm -r runs/train, and again")
            assert "rm -r runs/train" in error, error
            shutil.rmtree("runs/train")
            error = command()
        return error

    def cut(self) -> None:
        """A training that a signal or a power cut ends."""
        if self.outcome(self.state).error:
            return
        by = self.chooser.choice([signal.SIGTERM, signal.SIGINT, None])
        cut_at = self.chooser.randint(1, 30)
        what = by.name if by else "a power cut"
        self.said.append(f"dvc repro evaluate, cut by {what} at moment {cut_at}")

        def act(moment: int) -> None:
            if moment == cut_at:
                if by is None:
                    raise PowerCut
                signal.raise_signal(by)

        with counted(act), pytest.MonkeyPatch.context() as patch, contextlib.suppress(PowerCut):
            patch.setattr(dvc.stage.run, "cmd_run", ends_as_a_process)
            reproduced()
        for name in ("rwlock", "lock"):
            Path(".dvc/tmp", name).unlink(missing_ok=True)
        self.computed = None

    def train_alone(self) -> None:
        """`dvc repro train`: results of stage evaluate are those of an older model, unless nothing changed for it."""
        if self.computed == self.state:
            self.edit()
        now = self.outcome(self.state)
        if self.computed is None or now.error:
            return
        before = self.outcome(self.computed)
        self.said.append("dvc repro train")
        error = self.attempt(functools.partial(reproduced, "train"))
        assert error == "", error
        older = outdated(read_lock("."), STAGES)
        is_older = any(
            before.sums.get(path) != now.sums.get(path)
            for path in before.sums | now.sums
            if path.startswith(READ_BY_EVALUATE)
        )
        assert older == ([LAST] if is_older else []), f"older: expected {is_older}, got {older}"
        with opened([WORKSPACE]) as (here,):
            result = read_result(here)
        assert (result.perplexity is None) == (is_older or before.perplexity is None), result
        self.computed = None

    def by_hand(self) -> None:
        """`python -m stages.NAME` of a run that is up to date: it writes the same."""
        if self.computed == self.state:
            self.has_other_times = True
            stage = self.chooser.choice(STAGES)
            self.said.append(f"python -m stages.{stage}")
            run_stage(stage)

    def experiment(self) -> None:
        """`dvc exp run -S KEY=VALUE evaluate`."""
        state = self.other_state()
        if self.outcome(state).error:
            return
        name = f"e{len(self.said)}"
        values = self.values_of(state)
        options = [f"{key}={json.dumps(value)}" for key, value in values.items()]
        self.said.append(f"dvc exp run --name {name} -S {' -S '.join(options)} {LAST}")
        self.state = state

        def command() -> str:
            with Repo(".") as repo:
                return error_of(
                    lambda: repo.experiments.run(targets=[LAST], params=options, name=name)
                )

        self.finish(command)
        self.states[name] = state
        self.experiments.append(name)

    def sweep(self) -> None:
        """`tinylm sweep -S KEY=VALUE,VALUE`, by one worker."""
        states = [self.state, self.other_state()]
        key_values = [self.values_of(state) for state in states]
        different = [key for key, _ in self.edits if key_values[0][key] != key_values[1][key]]
        if not different:
            return
        key = different[0]
        given = ",".join(json.dumps(values[key]) for values in key_values)
        self.said.append(f"tinylm sweep -S {key}={given}")
        runs = new_sweep.grid([f"{key}={given}"])
        sweep = new_sweep.begin(runs, LAST)
        slot = sweep.folder / "slots/here-0"
        slots.make_slot(sweep, slot)
        with contextlib.chdir(slot), pytest.MonkeyPatch.context() as patch:
            patch.setattr(dvc.stage.run, "cmd_run", dvc.stage.run.cmd_run)
            patch.setattr(worker.Worker, "run_stage", lambda self, stage: run_as_dvc(stage))
            worker.Worker(sweep).work()
        for number, state in zip(sweep.numbers, states):
            expected, end = self.outcome(state), sweep.state(number)
            if expected.error:
                assert end["state"] == sweeps.FAILED, f"run {number}: expected failed, got {end}"
                # Added because the error is raised in this process.
                hint = " (TINYLM_DEBUG=1 shows where)"
                why = end["why"].removesuffix(hint)
                assert why, f"run {number} failed without a reason"
                assert why in expected.error, f"{why!r}, expected {expected.error!r}"
                continue
            assert end["state"] == sweeps.DONE, f"run {number}: expected done, got {end}"
            self.states[sweep.experiment(number)] = state
            self.experiments.append(sweep.experiment(number))
        assert sweeps.table(sweep)

    def another_sweep(self) -> None:
        """A sweep after `rm -r runs/sweeps`, which leaves the experiments of the earlier one."""
        if Path("runs/sweeps").exists():
            self.said.append("rm -r runs/sweeps; git worktree prune")
            shutil.rmtree("runs/sweeps")
            git("worktree", "prune")
            self.sweep()

    def remove_experiment(self) -> None:
        """`dvc exp remove NAME`."""
        if self.experiments:
            name = self.chooser.choice(self.experiments)
            self.said.append(f"dvc exp remove {name}")
            with Repo(".") as repo:
                repo.experiments.remove(name)
            self.experiments.remove(name)
            del self.states[name]

    def apply(self) -> None:
        """`dvc exp apply NAME`."""
        if not self.experiments:
            return
        name = self.chooser.choice(self.experiments)
        self.said.append(f"dvc exp apply {name}")
        with contextlib.suppress(DvcException), Repo(".") as repo:  # for stages that never ran
            repo.experiments.apply(name)
        self.restored(self.states[name])

    def restored(self, state: State) -> None:
        """Parameters and results of a revision are here; data that git does not track stays."""
        rows = state.rows if self.is_tracked else self.state.rows
        self.state = dataclasses.replace(state, rows=rows)
        self.computed = self.state if rows == state.rows else None
        self.has_other_times = False

    def commit(self) -> None:
        """`git commit`."""
        self.said.append("git commit")
        git("add", "-A")
        git("commit", "-q", "--allow-empty", "-m", f"commit {len(self.said)}")
        if self.computed == self.state:
            self.states[git("rev-parse", "HEAD")] = self.state

    def checkout(self) -> None:
        """`git checkout COMMIT`, `dvc checkout`."""
        commits = [name for name in self.states if name not in self.experiments]
        if not commits:
            return
        commit = self.chooser.choice(commits)
        self.said.append(f"git checkout {commit[:7]}; dvc checkout")
        git("checkout", "-q", "--force", commit)
        with contextlib.suppress(DvcException), Repo(".") as repo:
            repo.checkout(force=True)
        # Experiments belong to the commit that they began at.
        self.restored(self.states[commit])

    # What must hold.

    def check(self) -> None:
        """Results here, what tinylm says of them, and the comparison of all revisions."""
        if self.computed is not None:
            files = [path for stage in STAGES for path in outputs_of(stage)]
            expected, found = self.outcome(self.computed).sums, sums(files)
            names = expected | found
            different = sorted(name for name in names if expected.get(name) != found.get(name))
            assert not different, f"expected the bytes of a new folder, got others in {different}"
            stale, code = (set(stages) & set(STAGES) for stages in read_status())
            is_stale = dataclasses.replace(self.computed, lines=self.state.lines) != self.state
            assert bool(stale) == is_stale or self.has_other_times, (
                f"stale: expected {is_stale}, got {stale}"
            )
            assert bool(code) == (self.computed.lines != self.state.lines), f"changed code: {code}"
        self.check_comparison()

    def check_comparison(self) -> None:
        names = list(self.states)
        if self.computed is not None:
            names.append(WORKSPACE)
        if not names:
            return
        of_names = self.states | {WORKSPACE: self.computed}
        self.chooser.shuffle(names)
        with opened(names) as revisions:
            results = [read_result(revision) for revision in revisions]
        for result in results:
            self.check_result(result, of_names[result.name])
        compared = comparison.compare_settings(results)
        first = of_names[compared.results[0].name]
        for row in compared.rows:
            self.check_row(row, first, of_names[row.name])

    def check_result(self, result: RevisionResult, state: State) -> None:
        expected = self.outcome(state)
        is_here = result.name == WORKSPACE
        is_edited = is_here and (state != self.state or self.has_other_times)
        assert bool(result.notes) == is_edited, f"{result.name}: notes {result.notes}"
        found = result.perplexity
        assert found == expected.perplexity, (
            f"{result.name}: {found}, expected {expected.perplexity}"
        )
        seed = self.drawn_at(state).params()["train"]["seed"]
        assert list(result.stories) == [seed], f"{result.name}: seeds {list(result.stories)}"
        nats = result.stories[seed]["nats"].sum()
        assert nats == pytest.approx(expected.nats, rel=1e-9, nan_ok=True), f"{result.name}: {nats}"

    def check_row(self, row: comparison.Row, first: State, other: State) -> None:
        one, two = (flatten(self.drawn_at(state).params()) for state in (first, other))
        keys = {key for key in one if key.partition(".")[0] in SECTIONS}
        expected = {key for key in keys if plain_value(one[key]) != plain_value(two[key])}
        if first.rows != other.rows:
            expected.add(self.drawn.params()["data"]["path"])
        if first.lines != other.lines:
            expected.add(str(Path(CODE).parent))
        found = {line.partition(" ")[0] for line in row.differs}
        assert found == expected, f"{row.name} differs: expected {expected}, got {row.differs}"
        assert (row.verdict == comparison.SAME) == (not expected), f"{row.name}: {row.verdict}"
        assert row.is_same_setting == (expected <= {"train.seed"}), f"{row.name}: {row.verdict}"


def add_rows(drawn: DrawnRun, rows: int) -> None:
    """Add so many rows to the first data file, or lines without words to a world."""
    if drawn.files.world:
        path = Path(drawn.files.path, "slots.txt")
        path.write_text(
            drawn.files.world["slots.txt"] + "# one more line\n" * rows, encoding="utf-8"
        )
        return
    files = drawn.files.stories or {"stories.jsonl": STORIES}
    name = min(files)
    more = [f"One more row, number {number}." for number in range(rows)]
    Path(name).write_bytes(encoded([*files[name], *more], name, drawn.files.column))


def run_as_dvc(stage: Any) -> None:
    """Run DVC's stage `python -m stages.NAME` in this process."""
    run_stage(stage.cmd.removeprefix("python -m stages."))


def ends_as_a_process(stage: Any, dry: bool = False, run_env: Any = None) -> None:
    """Run DVC's stage in this process, so that a signal ends it as it ends a process."""
    code, lines = ended(lambda: run(stage.cmd.removeprefix("python -m stages.")))
    if code:
        raise CommandFailed(" ".join(lines))


def error_of(command: Callable[[], Any]) -> str:
    """The line of the error that ended a stage; "" if all went well."""
    try:
        command()
    except ReproductionError as error:
        cause: BaseException = error
        while cause.__cause__ is not None:
            cause = cause.__cause__
        return line_of(cause)
    return ""


def line_of(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}"


def reproduced(stage: str = LAST) -> str:
    """`dvc repro STAGE`: the line of its error."""
    with Repo(".") as repo:
        return error_of(lambda: repo.reproduce([stage]))


def computed() -> Outcome:
    """Run the stages here, one after another."""
    try:
        for stage in STAGES:
            run_stage(stage)
    except Exception as error:
        return Outcome({}, error=line_of(error))
    files = [path for stage in STAGES for path in outputs_of(stage)]
    metrics = json.loads(Path("metrics/evaluate.json").read_text("utf-8"))
    nats = pd.read_csv("data/evaluate/stories.csv")["nats"].sum()
    return Outcome(sums(files), metrics.get("perplexity"), nats)


@contextlib.contextmanager
def dvc_in_process(settings: Path) -> Iterator[None]:
    """DVC runs stages in this process, and keeps its own files in a folder."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            dvc.stage.run, "cmd_run", lambda stage, dry=False, run_env=None: run_as_dvc(stage)
        )
        patch.setenv("DVC_NO_ANALYTICS", "1")
        for name in DVC_FOLDERS:
            patch.setenv(name, str(settings))
        for name, value in AUTHOR.items():
            patch.setenv(name, value)
        yield


@holds(ALONE)
def a_history_of_commands_ends_as_a_new_folder_does(drawn: DrawnRun, folder: Path) -> None:
    """Edits, reruns, cuts, experiments, sweeps, commits and checkouts in a drawn order.

    After each command the results are those of a new folder with the same settings and data, to the byte; tinylm
    says which are stale; and the comparison gives each revision its own perplexity, losses and differences.
    """
    chooser = random.Random(drawn.number)
    home = folder / "repository"
    home.mkdir()
    plant_run(drawn, home)
    with in_folder(home), dvc_in_process(folder / ".settings"):
        history = History(drawn, chooser, folder)
        if history.outcome(State()).error:
            raise Refused(history.outcome(State()).error)
        history.begin()
        commands = [
            history.edit, history.edit, history.repro, history.repro, history.train_alone, history.cut, history.by_hand,
            history.experiment, history.sweep, history.another_sweep, history.remove_experiment,
            history.apply, history.commit, history.checkout, history.add_row, history.add_line
        ]  # fmt: skip
        try:
            history.repro()
            history.check()
            for command in chooser.choices(commands, k=STEPS):
                command()
                history.check()
            history.repro()
            history.check()
        except Exception as error:
            raise AssertionError("\n".join([*history.said, line_of(error)])) from error
