"""Properties of DVC's reruns: an edit reruns what reads it, and the results that are kept are right."""

import contextlib
import itertools
import os
import random
import shutil
import typing
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from networkx import descendants

from tests.drawn.corpora import encoded
from tests.drawn.cuts import outputs_of, remove, sums
from tests.drawn.drawing import FIELDS, NOT_DRAWN, DrawnRun, is_legal
from tests.drawn.properties import ALONE, holds
from tests.drawn.refusals import accepts
from tests.drawn.running import LEVELS, arrive, in_folder, run_stage
from tests.support.stages import ROOT, STORIES
from tinylm.base.config import InputError, read_yaml
from tinylm.params.params import SECTIONS, Params
from tinylm.params.stage import Stage

# Threads and device decide last bits, other seeds are other stages, and two processes are started by
# torchrun (`two_processes_train_as_one_does`).
NOT_EDITED = NOT_DRAWN | {"runtime.threads", "runtime.device", "seeds.more", "train.processes"}
NO_RESULT = "runtime"  # the section that decides how stages run, not what they compute
EDITS = 5  # of one run
DVC_FOLDERS = ("DVC_GLOBAL_CONFIG_DIR", "DVC_SYSTEM_CONFIG_DIR", "DVC_SITE_CACHE_DIR")

Read = dict[str, set[str]]  # {stage: sections that it read}


@contextlib.contextmanager
def sections_recorded() -> Iterator[Read]:
    """Yield the sections of params.yaml that each stage reads once it has checked them."""
    read: Read = defaultdict(set)
    begin, check = Stage.__init__, Stage.refuse_edits

    class ReadParams(Params):
        def __getattribute__(self, name: str) -> Any:
            if name in SECTIONS:
                read[vars(self)["stage"]].add(name)
            return object.__getattribute__(self, name)

    class ReadValues(dict[str, Any]):
        stage = ""

        def __getitem__(self, name: str) -> Any:
            if name in SECTIONS:
                read[self.stage].add(name)
            return super().__getitem__(name)

        def get(self, name: str, default: Any = None) -> Any:
            if name in self:
                return self[name]  # which records it
            return default

    def begin_recording(self: Stage, name: str) -> None:
        begin(self, name)
        params = ReadParams(**vars(self.params))
        vars(params)["stage"] = name
        self.params = params
        self.values = ReadValues(self.values)
        self.values.stage = name

    def check_unrecorded(self: Stage) -> None:
        before = set(read[self.name])
        check(self)
        read[self.name] = before

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Stage, "__init__", begin_recording)
        patch.setattr(Stage, "refuse_edits", check_unrecorded)
        # A check decides whether a stage runs, never what it writes.
        patch.setattr("stages.vocab.check_tokens", lambda params: None)
        yield read


@contextlib.contextmanager
def tracked(folder: Path) -> Iterator[Any]:
    """DVC's repository in the folder of a finished run, in which nothing has changed."""
    from dvc.repo import Repo

    for name in ("stages", "tinylm", "dvc.yaml"):  # DVC hashes no code behind a link
        (folder / name).unlink()
        if (ROOT / name).is_dir():
            shutil.copytree(
                ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__")
            )
        else:
            shutil.copy(ROOT / name, folder / name)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DVC_NO_ANALYTICS", "1")
        for name in DVC_FOLDERS:
            patch.setenv(name, str(folder / ".settings"))
        repo = Repo.init(".", no_scm=True)
        repo.commit(force=True)
        yield Repo


def changed(repository: Any) -> set[str]:
    """The stages whose own inputs have changed, as `dvc status` lists them."""
    return set(repository(".").status())


def instances(params: dict[str, Any]) -> dict[str, str]:
    """{a stage as DVC names it: its command without `python -m stages.`}."""
    found = {}
    for name, entry in read_yaml("dvc.yaml")["stages"].items():
        if "matrix" not in entry:
            found[name] = name
            continue
        for seed in params["seeds"]["more"]:
            found[f"{name}@{seed}"] = f"{name} {seed}"
    return found


def after(repository: Any, stages: set[str]) -> set[str]:
    """These stages and all that depend on their outputs."""
    graph = repository(".").index.graph  # from each stage to those that it needs
    found = set(stages)
    for stage in graph:
        if {needed.addressing for needed in descendants(graph, stage)} & stages:
            found.add(stage.addressing)
    return found


def other_values(name: str, value: Any) -> list[Any]:
    """Values near this one, and the other choices, that a key's declaration allows."""
    kind, allowed = FIELDS[name]
    values: list[Any] = [None, *allowed.choices, False, True]
    if isinstance(value, str) and not allowed.choices:
        values.append(f"{value} x")
    if type(value) in (int, float):
        values += [value + 1, value - 1, value + 0.125, value / 2]
    if isinstance(value, list):
        values += [value[:-1], value[1:], value * 2]
    if value is None:
        kinds = typing.get_args(kind)
        values += [1, 2.0, 0.5, [1.0]] if kinds else []
    return [other for other in values if accepts(other, kind, allowed) and other != value]


def draw_edits(
    drawn: DrawnRun,
    chooser: random.Random,
    sections: Iterable[str] = SECTIONS,
    not_edited: Collection[str] = NOT_EDITED,
) -> Iterator[tuple[str, Any]]:
    """(a key, another value of it) such that the run is still legal, one of each section."""
    params = drawn.params()
    shuffled = list(sections)
    chooser.shuffle(shuffled)
    for section in shuffled:
        edits = []
        for key in FIELDS:
            if key.startswith(f"{section}.") and key not in not_edited:
                values = other_values(key, params[section][key.partition(".")[2]])
                edits += [(key, value) for value in values]
        chooser.shuffle(edits)
        legal = (edit for edit in edits if is_legal(drawn.changes | dict([edit])))
        yield from itertools.islice(legal, 1)


def stage_of(name: str) -> str:
    return name.partition("@")[0]


@holds(ALONE)
def an_edit_reruns_what_reads_it_and_what_is_kept_is_right(drawn: DrawnRun, folder: Path) -> None:
    """DVC reruns the stages that read the section of an edited key, or the edited file, and no other.

    A stage that is kept writes the same bytes if it is run with the edited parameters.
    """
    chooser = random.Random(drawn.number)
    with sections_recorded() as read:
        arrive(LEVELS[-1], drawn, folder)
    with in_folder(folder), tracked(folder) as repository:
        stages = instances(drawn.params())
        assert changed(repository) == set(), f"after the run: {repository('.').status()}"
        for key, value in itertools.islice(draw_edits(drawn, chooser), EDITS):
            edited = DrawnRun(drawn.changes | {key: value}, drawn.files)
            write_params(edited)
            section = key.partition(".")[0]
            readers = {name for name in stages if section in read[stage_of(name)]}
            expected = set() if section == NO_RESULT else readers
            found = changed(repository)
            where = f"{key} = {value!r}"
            assert found == expected, f"{where}: expected {expected}, but DVC reruns {found}"
            kept = set(stages) - after(repository, found)
            readers_kept = sorted(kept & readers)
            for name in readers_kept or chooser.sample(sorted(kept), min(len(kept), 1)):
                assert_kept(stages[name], where)
            if found - {"report"}:
                assert_refused("report", key)
        write_params(drawn)
        assert changed(repository) == set(), "after the edits were undone"
        edit_data(drawn)
        assert changed(repository) == {"download"}, "after a row was added to the data"


def write_params(drawn: DrawnRun) -> None:
    Path("params.yaml").write_text(yaml.safe_dump(drawn.params()), encoding="utf-8")


def assert_kept(command: str, where: str) -> None:
    """The stage writes the bytes that it wrote, times aside."""
    outputs = outputs_of(*command.partition(" ")[::2])
    expected = sums(outputs)
    for path in outputs:
        if os.path.exists(path):
            os.rename(path, f"{path}.kept")
    try:
        run_stage(command)
        found = sums(outputs)
    except InputError:  # the stage refuses what its own check cannot know
        found = expected
    remove(outputs)
    for path in outputs:
        if os.path.exists(f"{path}.kept"):
            os.rename(f"{path}.kept", path)
    different = sorted(name for name in expected | found if expected.get(name) != found.get(name))
    assert not different, f"{where}: DVC keeps {command}, which writes other {', '.join(different)}"


def assert_refused(stage: str, key: str) -> None:
    """The stage does not put results of other settings together."""
    try:
        run_stage(stage)
        refusal = "none"
    except InputError as error:
        refusal = str(error)
    assert key in refusal, f"stage {stage}: expected a refusal that names {key}, got {refusal}"


def edit_data(drawn: DrawnRun) -> None:
    """Add a row to the first data file, or a comment to a world."""
    if drawn.files.world:
        path = Path(drawn.files.path) / "slots.txt"
        path.write_text(f"{path.read_text('utf-8')}# one more line\n", encoding="utf-8")
        return
    files = drawn.files.stories or {"stories.jsonl": STORIES}
    name = min(files)
    Path(name).write_bytes(encoded([*files[name], "One more row."], name, drawn.files.column))
