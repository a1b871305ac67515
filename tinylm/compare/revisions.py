"""Revisions of the repository, read through DVC's API: commits, branches, tags, experiments and the workspace.

The only module of the package that imports DVC; files that DVC keeps come from its cache, and nothing is checked out.
"""

import contextlib
import logging
import os
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tinylm.base.config import PARAMS_FILE, InputError, load_params, parse_yaml

WORKSPACE = "workspace"
MOST_VALUES = 100_000  # of a params.yaml; ours have some 200
_LOST = "{}: DVC's cache lacks it; dvc fetch, or check the revision out and run dvc repro"
_NEVER = "{}: this revision has none; check it out and run dvc repro"


class Absent(Exception):
    """A revision has no such file, or DVC's cache lacks it; the message says which, without the revision's name."""


@dataclass(frozen=True)
class Revision:
    """One state of the repository: the name by which it was asked for, and its commit (None: the workspace)."""

    name: str
    commit: str | None
    files: Any  # dvc.api.DVCFileSystem

    def read(self, path: str) -> bytes:
        """The file's bytes. Raises Absent."""
        from dvc.exceptions import DvcException
        from dvc_data.index import DataIndexDirError

        try:
            return self.files.cat_file(path)
        except DataIndexDirError:  # the list of the folder's files is lost
            raise Absent(_LOST.format(path)) from None
        except FileNotFoundError:
            raise Absent((_LOST if self._is_kept(path) else _NEVER).format(path)) from None
        except (OSError, DvcException) as error:
            raise Absent(f"{path}: cannot be read ({str(error).splitlines()[0]})") from None

    def _is_kept(self, path: str) -> bool:
        """Whether DVC has recorded such a file, itself or in the list of a folder."""
        folder, _, name = path.rpartition("/")
        kept = {"/".join(key) for key in self.files.repo.index.data_keys["repo"]}
        listed = self.files.ls(folder, detail=False) if kept & {folder, path} else []
        return path in kept or name in {found.rpartition("/")[2] for found in listed}


@contextlib.contextmanager
def opened(names: Sequence[str], experiments: bool = False) -> Iterator[list[Revision]]:
    """The revisions by name, followed by the current commit's experiments if they are asked for.

    Raises InputError for an unknown name, outside a DVC repository, and if DVC is busy.
    """
    logging.getLogger("dvc").setLevel(logging.ERROR)
    with contextlib.ExitStack() as stack:
        found = {name: _open(name, name, stack) for name in names}
        for name, commit in _experiments(stack) if experiments else []:
            if commit not in {revision.commit for revision in found.values()}:
                found[name] = _open(name, commit, stack)
        yield list(found.values())


def _written_out(value: Any, room: int) -> int:
    """How much of `room` is left when each value, and each copy that an alias makes of one, takes up 1 of it."""
    room -= 1
    inside = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    for item in inside:
        if room < 0:
            break
        room = _written_out(item, room)
    return room


def _refuse_bomb(name: str, target: str) -> None:
    """InputError for a params.yaml whose aliases multiply: DVC would write each of them out. What git lacks passes."""
    if target == WORKSPACE:
        params = load_params() if Path(PARAMS_FILE).exists() else {}
    else:
        shown = subprocess.run(["git", "show", f"{target}:./{PARAMS_FILE}"], capture_output=True)
        params = {}
        if shown.returncode == 0:
            with contextlib.suppress(InputError):  # DVC says what it cannot read in a revision
                params = parse_yaml(shown.stdout.decode("utf-8", "replace"), PARAMS_FILE)
    if _written_out(params, MOST_VALUES) < 0:
        raise InputError(
            f"revision {name!r}: {PARAMS_FILE}: more than {MOST_VALUES} values when its aliases are written out; "
            "tinylm check says where"
        )


def _open(name: str, target: str, stack: contextlib.ExitStack) -> Revision:
    from dvc.api import DVCFileSystem
    from dvc.exceptions import DvcException, NotDvcRepoError
    from dvc.repo import Repo
    from dvc.scm import RevError, SCMError

    try:
        Repo.find_root()  # otherwise DVC would try to clone the folder
        if not target:
            raise RevError("no name")
        _refuse_bomb(name, target)
        files = DVCFileSystem(".", rev=None if target == WORKSPACE else target)
        stack.callback(files.repo.close)
        return Revision(name, None if target == WORKSPACE else files.repo.get_rev(), files)
    except NotDvcRepoError:
        raise InputError(
            "this is no DVC repository; run the command in the folder of dvc.yaml"
        ) from None
    except SCMError:
        raise InputError(
            f"revision {name!r}; allowed: a commit, branch, tag or experiment of this repository (dvc exp show lists "
            f"them), or {WORKSPACE}"
        ) from None
    except AttributeError:  # what git knows by that name is a tree or a file
        raise InputError(
            f"revision {name!r} is no commit; allowed: a commit, branch, tag or experiment"
        ) from None
    except Exception as error:
        if "not owned by" in str(error):  # of git's libraries, each with a class of its own
            raise InputError(
                f"this clone belongs to another user; type: git config --global --add safe.directory {os.getcwd()}"
            ) from None
        if not isinstance(error, DvcException):
            raise
        raise InputError(
            f"revision {name!r}: DVC cannot open it: {str(error).splitlines()[0]}"
        ) from None


def _experiments(stack: contextlib.ExitStack) -> list[tuple[str, str]]:
    """(name, commit) of each finished experiment that started from the current commit, by name."""
    from dvc.lock import LockError

    repo = _open(WORKSPACE, WORKSPACE, stack).files.repo
    try:
        listed = repo.experiments.ls(rev="HEAD")
    except LockError:
        raise InputError("DVC is busy in this folder; wait for it, or name the revisions") from None
    return sorted((name, commit) for rows in listed.values() for name, commit in rows)
