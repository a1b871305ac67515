"""Drawn runs, planted in a folder and run in this process: the check, and every stage in order."""

import contextlib
import copy
import functools
import importlib
import io
import pickle
import signal
import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml

from tests.drawn.drawing import DrawnRun
from tests.support.stages import STORIES, plant
from tinylm.base import config
from tinylm.base.command import CommandFailed
from tinylm.base.config import InputError
from tinylm.bench import trials
from tinylm.cli.check import find_all
from tinylm.train.trainer import TrainingFailed

# What stands before train: these know the stories and the vocabulary, and may still refuse them.
BEFORE_TRAINING = ("download", "vocab")
# How far a run has come: files are written; download and vocab; train; everything else but the report; the report.
LEVELS = ("planted", "prepared", "trained", "measured", "finished")
MEASURING = ("evaluate", "beam_bench", "kv_bench", "accum_sweep", "ckpt_bench")


class EndsEarly(Exception):
    """A drawn run that rightly does not reach its report; the message is tinylm's."""


class Refused(EndsEarly):
    """tinylm refuses it before training, in lines for the user."""


class Diverged(EndsEarly):
    """Its loss is not finite any more."""


def plant_run(drawn: DrawnRun, folder: Path) -> None:
    """params.yaml, the code and the user's files."""
    plant(folder, drawn.params(), STORIES)
    for name in ("inputs/vocab", "inputs/vectors"):
        (folder / name).mkdir(parents=True, exist_ok=True)
    drawn.files.plant(folder)


def own_process(function: Callable[[Any], Any], task: Any) -> Any:
    """`trials.in_own_process` without the process; only CommandFailed becomes a `Failure`."""
    threads = torch.get_num_threads()
    try:
        return function(pickle.loads(pickle.dumps(task)))
    except CommandFailed as error:
        return trials.Failure(f"{type(error).__name__}: {error}")
    finally:
        torch.set_num_threads(threads)


def own_processes(
    function: Callable[[Any], Any], tasks: Sequence[Any], together: int
) -> Iterator[Any]:
    """`trials.in_own_processes` without the processes."""
    for task in tasks:
        yield own_process(function, task)


_parsed_once = functools.cache(config.parse_yaml)


def parse_yaml(text: str, name: str) -> dict[str, Any]:
    """`config.parse_yaml`, which takes a tenth of a second for the same text again and again."""
    return copy.deepcopy(_parsed_once(text, name))


@contextlib.contextmanager
def in_folder(folder: Path) -> Iterator[pytest.MonkeyPatch]:
    """The current folder is this one, benches need no processes, and nothing is printed."""
    handlers = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
    silent = io.StringIO()
    with (
        pytest.MonkeyPatch.context() as patch,
        contextlib.redirect_stdout(silent),
        contextlib.redirect_stderr(silent),
        warnings.catch_warnings(),
    ):
        warnings.simplefilter("ignore")
        patch.chdir(folder)
        patch.setenv("TINYLM_DEBUG", "1")  # a picture that cannot be drawn raises
        patch.setattr(config, "parse_yaml", parse_yaml)
        patch.setattr(trials, "in_own_process", own_process)
        patch.setattr(trials, "in_own_processes", own_processes)
        try:
            yield patch
        finally:
            torch.set_num_threads(1)
            for number, handler in handlers.items():
                signal.signal(number, handler)


def run_stage(command: str) -> None:
    """`python -m stages.NAME ARGUMENTS` in this process and the current folder; errors are raised."""
    name, *arguments = command.split()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", [name, *arguments])
        importlib.import_module(f"stages.{name}").main()


def stages_of(level: str, drawn: DrawnRun) -> list[str]:
    """The stages of a level, in order, as commands."""
    if level == "trained":
        return ["train"]
    if level == "finished":
        return ["report"]
    further = drawn.params()["seeds"]["more"]
    seeds = [f"{stage} {seed}" for seed in further for stage in ("seed_train", "seed_score")]
    return [*MEASURING, *seeds, "seeds"]


def advance(level: str, drawn: DrawnRun, folder: Path) -> None:
    """Bring a run from the level before to this one.

    Raises EndsEarly where it rightly ends, and whatever else a stage raises.
    """
    if level == "planted":
        plant_run(drawn, folder)
        return
    with in_folder(folder):
        if level == "prepared":
            _check_and_prepare()
            return
        try:
            for stage in stages_of(level, drawn):
                run_stage(stage)
        except CommandFailed as error:
            if TrainingFailed.__name__ in f"{type(error).__name__}: {error}":
                raise Diverged(str(error)) from None
            raise
        except InputError as error:
            # A sample story of stage train may be the first to meet weights that are not finite.
            if level == "trained" and "training diverged" in str(error):
                raise Diverged(str(error)) from None
            raise


def _check_and_prepare() -> None:
    problems = find_all().problems.lines
    if problems:
        raise Refused("\n".join(problems))
    for stage in BEFORE_TRAINING:
        try:
            run_stage(stage)
        except InputError as error:
            raise Refused(str(error)) from None


def arrive(level: str, drawn: DrawnRun, folder: Path) -> None:
    """Bring an empty folder to a level, for a property that is about something else.

    Raises Refused for whatever a stage raises: `every_stage_ends` judges that on the same draws.
    """
    for each in LEVELS[: LEVELS.index(level) + 1]:
        try:
            advance(each, drawn, folder)
        except Exception as error:
            raise Refused(str(error)) from error


def finish(drawn: DrawnRun, folder: Path) -> None:
    """A run from its files to its report."""
    for level in LEVELS:
        advance(level, drawn, folder)


def read_params_file(folder: Path) -> dict[str, Any]:
    """params.yaml of a planted run."""
    loaded: dict[str, Any] = yaml.safe_load((folder / "params.yaml").read_text("utf-8"))
    return loaded
