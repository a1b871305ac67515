"""Revisions of the repository, read through DVC's API: commits, branches, experiments and the workspace.

Files come from git and DVC's cache; nothing is checked out.
"""

import contextlib
import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Any

from tinylm.base.config import InputError

WORKSPACE = "workspace"


@dataclass(frozen=True)
class Revision:
    """One state of the repository: its name, and its commit (None: the workspace).

    notes: a line for each file that could not be read.
    """

    name: str
    commit: str | None
    files: Any  # dvc.api.DVCFileSystem
    notes: list[str] = field(default_factory=list)

    def text(self, path: str) -> str | None:
        """The text of a file; None, with a note, if neither git nor DVC's cache has it."""
        from dvc.exceptions import DvcException
        from dvc_data.index import DataIndexDirError

        try:
            return str(self.files.cat_file(path).decode("utf-8", "replace"))
        except (DataIndexDirError, FileNotFoundError):
            repair = "dvc fetch it from a remote, or check out the revision and run dvc repro"
            self.notes.append(f"{path}: neither git nor DVC's cache has it; {repair}")
        except (OSError, DvcException) as error:
            self.notes.append(f"{path}: cannot be read ({str(error).splitlines()[0]})")
        return None

    def has_changed(self, stage: str, path: str) -> bool:
        """Whether the workspace's copy of a stage's output differs from dvc.lock; adds a note if so.

        path: the output or a file in it. Files of a commit cannot differ: its dvc.lock finds them.
        """
        if self.commit is not None:
            return False
        from dvc.exceptions import DvcException

        try:
            stages = self.files.repo.stage.collect(stage)
        except DvcException:
            self.notes.append(f"params.yaml no longer has stage {stage} of dvc.lock; run dvc repro")
            return True
        for out in chain.from_iterable(found.outs for found in stages):
            is_it = path == out.def_path or path.startswith(f"{out.def_path}/")
            if is_it and "modified" in out.status().values():
                self.notes.append(
                    f"{out.def_path} does not match dvc.lock; run dvc checkout, dvc pull or dvc repro"
                )
                return True
        return False


@contextlib.contextmanager
def opened(names: Sequence[str], experiments: bool = False) -> Iterator[list[Revision]]:
    """The revisions by name, and the current commit's experiments if requested.

    Raises InputError for an unknown name, outside a DVC repository, and if DVC is busy.
    """
    logging.getLogger("dvc").setLevel(logging.ERROR)
    with contextlib.ExitStack() as stack:
        revisions = [_open(name, name, stack) for name in names]
        for name, commit in _experiments(stack) if experiments else []:
            if commit not in {revision.commit for revision in revisions}:
                revisions.append(_open(name, commit, stack))
        yield revisions


def _open(name: str, target: str, stack: contextlib.ExitStack) -> Revision:
    from dvc.api import DVCFileSystem
    from dvc.exceptions import DvcException, NotDvcRepoError
    from dvc.repo import Repo
    from dvc.scm import SCMError

    expected = "a commit, branch, tag or experiment (see dvc exp show), or workspace"
    try:
        Repo.find_root()  # otherwise DVC would try to clone the folder
        files = DVCFileSystem(".", rev=None if target == WORKSPACE else target or "no name")
        stack.callback(files.repo.close)
        commit = None if target == WORKSPACE else files.repo.get_rev()
        return Revision(name, commit, files)
    except NotDvcRepoError:
        raise InputError("not a DVC repository; run the command where dvc.yaml is") from None
    except (SCMError, AttributeError):  # AttributeError: the name of a tree or a file
        raise InputError(f"expected {expected}, got {name!r}") from None
    except DvcException as error:
        reason = str(error).splitlines()[0]
        raise InputError(f"revision {name!r}: DVC cannot open it: {reason}") from None


def _experiments(stack: contextlib.ExitStack) -> list[tuple[str, str]]:
    """(name, commit) of each finished experiment that started from the current commit, by name."""
    from dvc.lock import LockError

    repo = _open(WORKSPACE, WORKSPACE, stack).files.repo
    try:
        by_baseline = repo.experiments.ls(rev="HEAD")
    except LockError:
        raise InputError("DVC is busy in this folder; wait for it, or name the revisions") from None
    return sorted(row for rows in by_baseline.values() for row in rows)
