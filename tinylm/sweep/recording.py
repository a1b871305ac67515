"""A run of the pipeline as a DVC experiment: DVC's own code runs it in a folder apart, git keeps what it recorded.

Such a folder (a slot) is used for one run after the other, so that DVC copies and hashes the data in it once.
"""

import copy
import functools
import io
import math
import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any, TextIO

from tinylm.base.config import PARAMS_FILE, InputError, parse_yaml
from tinylm.base.files import discard, write_bytes
from tinylm.base.paths import MODELS, TOKENS, VOCAB
from tinylm.host.command import CommandFailed
from tinylm.presets.write import Values
from tinylm.sweep.plan import MOST, Sweep, params_text

REFS = "refs/tinylm/sweeps"  # keeps what was in the folder when a sweep began
_OUTSIDE = ("data.path", "vocab.path", "embedding.path")  # may name files that git does not hold
_RECORDED = ("metrics", "plots", PARAMS_FILE, "dvc.lock")


def git(*words: str, index: Path | None = None) -> str:
    """What git prints; CommandFailed with git's own line if it fails. index: the index file, if not the folder's."""
    where = {**os.environ, **({"GIT_INDEX_FILE": str(index)} if index else {})}
    done = subprocess.run(
        ["git", *words], env=where, capture_output=True, text=True, encoding="utf-8"
    )
    if done.returncode:
        said = done.stderr.strip().splitlines() or ["failed"]
        raise CommandFailed(f"git: {said[-1]}")
    return done.stdout.strip()


def _length(numbers: Any) -> float:
    """Of hydra's range, which may be endless."""
    return float((numbers.stop - numbers.start) / numbers.step) if numbers.step else math.inf


def expanded(overrides: list[str]) -> dict[str, list[Any]]:
    """{key: its values} of `-S KEY=VALUE,VALUE`, in the grammar of `dvc exp run -S`. Raises InputError."""
    from dvc.exceptions import DvcException
    from dvc.utils.hydra import get_hydra_sweeps, to_hydra_overrides
    from hydra.core.override_parser.types import RangeSweep
    from hydra.errors import HydraException

    axes: dict[str, list[Any]] = {}
    for text in overrides:
        try:
            (override,) = to_hydra_overrides([text])
            given = override.value()
            if isinstance(given, RangeSweep) and not _length(given) <= MOST:
                raise InputError(f"-S {text}; allowed: a range of at most {MOST} values")
            one = [row[PARAMS_FILE][0] for row in get_hydra_sweeps({PARAMS_FILE: [text]})]
            values = [each.value() for each in to_hydra_overrides(one)]
        except (HydraException, DvcException) as error:
            said = str(error).strip().splitlines()[0]
            raise InputError(
                f"-S {text}: {said}; allowed: KEY=VALUE,VALUE as in dvc exp run -S"
            ) from None
        if override.type.name != "CHANGE" or override.key_or_group in axes:
            raise InputError(f"-S {text}; allowed: KEY=VALUE,VALUE, each key once")
        axes[override.key_or_group] = values
    return axes


def freeze(name: str, index: Path) -> tuple[str, str]:
    """(HEAD, a commit of the tracked files as they are now), which a reference keeps."""
    baseline = git("rev-parse", "HEAD")
    git("read-tree", baseline, index=index)
    git("add", "-u", index=index)
    commit = git(
        "commit-tree", git("write-tree", index=index), "-p", baseline, "-m", f"tinylm sweep {name}"
    )
    git("update-ref", f"{REFS}/{name}", commit)
    discard(index)
    return baseline, commit


def make_slot(sweep: Sweep, slot: Path) -> None:
    """Fill a folder with the sweep's code and parameters, as a DVC repository that has the main one's cache."""
    index, local = slot / ".git-index", slot / ".dvc/config.local"
    if local.exists():
        return
    from dvc.repo import Repo

    root = sweep.folder.parents[2]
    slot.mkdir(parents=True, exist_ok=True)
    git("-C", str(root), "read-tree", sweep.commit, index=index)
    git("-C", str(root), "--work-tree", str(slot), "checkout-index", "-a", "-f", index=index)
    with Repo(str(root)) as repo:
        cache = repo.cache.local_cache_dir
    config = f"[core]\n    no_scm = true\n    site_cache_dir = {slot}/.dvc/site\n[cache]\n    dir = {cache}\n"
    write_bytes(local, config.encode())


def _only_once() -> None:
    """Let DVC in this process neither parse a text twice nor ask twice whether a stage's run can be known again.

    In a run it reads params.yaml 17 times, twice what it wrote itself, and for each stage hashes its code four times.
    """
    import dvc.stage.cache as dvc_cache
    import dvc.utils.serialize._yaml as dvc_yaml

    parse, for_update, dump = dvc_yaml.parse_yaml, dvc_yaml.parse_yaml_for_update, dvc_yaml._dump
    parsed = functools.lru_cache(maxsize=64)(parse)
    written: dict[
        str, Any
    ] = {}  # the newest text: its data, which only the next change of the file reads

    def dumped(data: Any, stream: TextIO) -> None:
        whole = io.StringIO()
        dump(data, whole)
        stream.write(whole.getvalue())
        written.clear()
        written[whole.getvalue()] = data

    dvc_yaml.parse_yaml = lambda text, path, typ="safe": copy.deepcopy(parsed(text, path, typ))
    dvc_yaml.parse_yaml_for_update = lambda text, path: (
        written.pop(text, None) or for_update(text, path)
    )
    dvc_yaml._dump = dumped

    can_hash, known = dvc_cache._can_hash, dict[str, bool]()

    def once(stage: Any) -> bool:
        if not known.get(stage.addressing):
            known[stage.addressing] = can_hash(stage)
        return known[stage.addressing]

    dvc_cache._can_hash = once


class Slot:
    """A folder made by `make_slot`, which is also the current one. command: runs a stage, in place of DVC's own way."""

    def __init__(self, sweep: Sweep, command: Callable[[Any], None]) -> None:
        import dvc.stage.run

        self.sweep, self.root, self.path = sweep, sweep.folder.parents[2], Path.cwd()
        _only_once()
        dvc.stage.run.cmd_run = lambda stage, dry=False, run_env=None: command(stage)
        self._git = functools.partial(
            git, "-C", str(self.path), "--git-dir", git("rev-parse", "--absolute-git-dir"), "--work-tree",
            str(self.path), index=self.path / ".git-index",
        )  # fmt: skip
        self.base = self._show(PARAMS_FILE)
        self._mend()

    def _show(self, path: str) -> str:
        return git("show", f"{self.sweep.commit}:{path}") + "\n"

    def _mend(self) -> None:
        """Undo what a DVC may have left half-written that was killed here."""
        discard(".dvc/tmp/rwlock", ".dvc/tmp/lock", ".git-index.lock", "dvc.lock")
        if "dvc.lock" in git("ls-tree", "--name-only", self.sweep.commit):
            write_bytes("dvc.lock", self._show("dvc.lock").encode())

    def enter(self, number: int, values: Values) -> dict[str, Any]:
        """Give the folder a run's parameters and the run's own `runs/`; returns the parameters."""
        text = params_text(self.base, values)
        write_bytes(PARAMS_FILE, text.encode())
        params = parse_yaml(text, PARAMS_FILE)
        runs = self.sweep.run(number) / "runs"
        runs.mkdir(parents=True, exist_ok=True)
        discard("runs")
        os.symlink(runs, "runs")
        for key in _OUTSIDE:
            section, _, name = key.partition(".")
            path = params.get(section, {}).get(name)
            if isinstance(path, str) and not os.path.isabs(path) and not os.path.exists(path):
                there, here = self.root / path, Path(os.path.normpath(self.path / path))
                if there.exists() and not os.path.lexists(here):
                    here.parent.mkdir(parents=True, exist_ok=True)
                    os.symlink(there.resolve(), here)
        return params

    def reproduce(self, stage: str, anew: bool = False) -> None:
        """`dvc repro STAGE` in this folder. Raises what `command` raised, or DVC's own error.

        anew: vocab, training and what follows run even where DVC has their outputs.
        """
        from dvc.exceptions import ReproductionError
        from dvc.repo import Repo

        if anew:
            for made in (TOKENS, VOCAB, MODELS):
                shutil.rmtree(made, ignore_errors=True)
        try:
            with Repo(str(self.path)) as repo:
                # DVC waits for the disk to note each file it puts in place; only `dvc checkout` reads it, never here
                repo.state.set_link = lambda *_: None
                repo.reproduce([stage], run_cache=not anew)
        except ReproductionError as error:
            raise error.__cause__ or error from None

    def record(self, number: int) -> None:
        """Make the folder's state the run's experiment. A second time changes nothing."""
        baseline, name = self.sweep.baseline, self.sweep.experiment(number)
        ref = f"refs/exps/{baseline[:2]}/{baseline[2:]}/{name}"
        if git("for-each-ref", ref):
            return
        self._git("add", "-u", ".")
        self._git("add", *(path for path in _RECORDED if os.path.exists(path)))
        message = f"tinylm sweep: {self.sweep.label(number)}"
        commit = self._git("commit-tree", self._git("write-tree"), "-p", baseline, "-m", message)
        git("update-ref", ref, commit)
