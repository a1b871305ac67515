"""A run as a DVC experiment: DVC runs it in a separate folder, git keeps the result.

Such a folder (a slot) is used for one run after another, so that DVC copies its data only once.
"""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tinylm.base.config import PARAMS_FILE, InputError, parse_yaml
from tinylm.base.files import write_bytes
from tinylm.experiments.git import git
from tinylm.experiments.sweeps import Sweep, params_text
from tinylm.params.presets.write import Values

_OUTSIDE = ("data.path", "vocab.path", "embedding.path")  # may name files that git does not hold
_RECORDED = ("metrics", "plots", PARAMS_FILE, "dvc.lock")


def make_slot(sweep: Sweep, slot: Path) -> None:
    """Make a git worktree with the sweep's code, as a DVC repository with the main one's cache."""
    config = slot / ".dvc/config.local"
    if config.exists():
        return
    from dvc.repo import Repo

    root = sweep.folder.parents[2]
    git("-C", str(root), "worktree", "add", "--force", "--detach", str(slot), sweep.commit)
    with Repo(str(root)) as repo:
        cache = repo.cache.local_cache_dir
    core = f"[core]\nno_scm = true\nsite_cache_dir = {slot}/.dvc/site\n"
    write_bytes(config, f"{core}[cache]\ndir = {cache}\n".encode())


def check_slot(sweep: Sweep) -> None:
    """Raise InputError unless the current folder is a slot of the sweep; nothing is touched."""
    here = Path.cwd()
    slots = sweep.folder / "slots"
    if here.parent != slots or not (here / ".dvc/config.local").is_file():
        raise InputError(
            f"{here}: expected a folder that tinylm sweep has made in {slots}: a worker discards "
            "all edits where it runs; use tinylm sweep --resume"
        )


class Slot:
    """The current folder, made by `make_slot`. run_stage: runs a stage, instead of DVC's shell."""

    def __init__(self, sweep: Sweep, run_stage: Callable[[Any], None]) -> None:
        import dvc.stage.run

        self.sweep = sweep
        self.root = sweep.folder.parents[2]
        self.path = Path.cwd()
        dvc.stage.run.cmd_run = lambda stage, dry=False, run_env=None: run_stage(stage)
        # a worker that was killed here may have left files half-written
        locks = (".dvc/tmp/rwlock", ".dvc/tmp/lock", git("rev-parse", "--git-path", "index.lock"))
        for name in locks:
            Path(name).unlink(missing_ok=True)
        git("reset", "--quiet", "--hard", sweep.commit)
        self.base = Path(PARAMS_FILE).read_text(encoding="utf-8")

    def enter(self, number: int, values: Values) -> None:
        """Give the folder a run's parameters and its own `runs/`."""
        text = params_text(self.base, values)
        write_bytes(PARAMS_FILE, text.encode())
        params = parse_yaml(text, PARAMS_FILE)
        runs = self.sweep.run(number) / "runs"
        runs.mkdir(parents=True, exist_ok=True)
        Path("runs").unlink(missing_ok=True)
        os.symlink(runs, "runs")
        for key in _OUTSIDE:
            section, _, name = key.partition(".")
            path = params.get(section, {}).get(name)
            if isinstance(path, str):
                self._link_outside(path)

    def _link_outside(self, path: str) -> None:
        """Link a relative path to what it names in the main folder.

        A folder that is already here has only the files that git tracks: the others are linked.
        """
        source = self.root / path
        target = Path(os.path.normpath(self.path / path))
        is_linked = target.is_symlink()  # by an earlier run
        holds_slots = self.path.is_relative_to(source)
        if os.path.isabs(path) or not source.exists() or is_linked or holds_slots:
            return
        if target.is_dir():
            _link_missing(source.resolve(), target)
        elif not os.path.lexists(target):
            target.parent.mkdir(parents=True, exist_ok=True)
            os.symlink(source.resolve(), target)

    def reproduce(self, stage: str) -> None:
        """`dvc repro STAGE` in this folder. Raises the error of `run_stage`, or DVC's own."""
        from dvc.exceptions import ReproductionError
        from dvc.repo import Repo

        try:
            with Repo(str(self.path)) as repo:
                repo.reproduce([stage])
        except ReproductionError as error:
            raise error.__cause__ or error from None

    def record(self, number: int) -> None:
        """Make the folder's state the run's experiment. A second time changes nothing.

        Raises InputError if another sweep has an experiment of this name.
        """
        baseline = self.sweep.baseline
        name = self.sweep.experiment(number)
        reference = f"refs/exps/{baseline[:2]}/{baseline[2:]}/{name}"
        recorded = self.sweep.run(number) / "experiment"
        existing = git("for-each-ref", "--format=%(objectname)", reference)
        if existing and recorded.exists() and recorded.read_text() == existing:
            return
        if existing:
            raise InputError(
                f"experiment {name} already exists, from an earlier sweep; run dvc exp remove {name}, "
                f"then tinylm sweep --resume {self.sweep.name}"
            )
        git("add", "-u", ".")
        git("add", *(path for path in _RECORDED if os.path.exists(path)))
        message = f"tinylm sweep: {self.sweep.label(number)}"
        commit = git("commit-tree", git("write-tree"), "-p", baseline, "-m", message)
        write_bytes(recorded, commit.encode())  # first: the worker may be killed in between
        git("update-ref", reference, commit)


def _link_missing(source: Path, target: Path) -> None:
    """Link each file below `source` that `target` lacks."""
    if source.is_dir() and not source.is_symlink():
        target.mkdir(exist_ok=True)  # not a link, since DVC follows none inside a folder
        for path in source.iterdir():
            if path.name != ".git":  # a submodule's, which would be invalid here
                _link_missing(path, target / path.name)
    elif not os.path.lexists(target):
        os.symlink(source.resolve(), target)
