"""Properties of runs that are cut: run again, they end as an uncut run does; two processes train as one."""

import contextlib
import itertools
import json
import multiprocessing
import os
import random
import shutil
import signal
import socket
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from tests.drawn.drawing import DrawnRun
from tests.drawn.properties import ALONE, holds
from tests.drawn.refusals import ended
from tests.drawn.rounding import UNITS
from tests.drawn.running import LEVELS, Refused, arrive, in_folder, run_stage, stages_of
from tests.support.stages import is_measured, read, run
from tinylm.base.config import read_yaml
from tinylm.base.files import sha256
from tinylm.train import trainer
from tinylm.train.preparation import prepare

SIGNALS = (signal.SIGTERM, signal.SIGINT)
# Moments at which a signal may arrive: when a file gets its name, and in an update.
MOMENTS: tuple[tuple[Any, str], ...] = ((os, "replace"), (trainer.Trainer, "launch"))
LONGEST_TRAINING_S = 60
# Without a memory of squared gradients, AdamW divides a mean of gradients by the last one, however small.
CALM = {
    "model.dropout": 0.0,
    "model.norm_eps": 1e-5,  # a smaller one lets the norm of nearly equal numbers amplify rounding
    "embedding.std": 0.1,  # far above the learning rate
    "train.lr": 1e-3,
    "train.muon_lr": 1e-3,
    "train.beta2": 0.95,
    "train.patience": None,
}
CURVES = "curves.json"
# Two processes may differ from one by this many times as much as a run whose initial weights differ in the last digit:
# they round differently in every update.
SHAKEN_FACTOR = {"fp32": 10.0, "bf16": 1.0}
AMPLIFIED = 0.05  # once rounding has moved a curve by this share, it is no longer compared

# Printed before the line about the cut, if a user's text has words or characters outside the vocabulary.
WARNINGS = (
    "warning: characters outside the vocabulary are left out",
    "warning: words not in the vocabulary are read as <unk>",
)


class PowerCut(BaseException):
    """The process ends without a chance to write."""


def outputs_of(stage: str, seed: str = "") -> list[str]:
    """The files and folders that dvc.yaml says a stage writes."""
    entry = read_yaml("dvc.yaml")["stages"][stage]
    found = []
    for listed in itertools.chain(*(entry.get(kind, []) for kind in ("outs", "metrics", "plots"))):
        path = listed if isinstance(listed, str) else next(iter(listed))
        found.append(path.replace("${item.seed}", seed))
    return found


def remove(paths: list[str]) -> None:
    """As DVC does before it runs a stage."""
    for path in paths:
        if os.path.isdir(path):
            shutil.rmtree(path)
        elif os.path.exists(path):
            os.remove(path)


def sums(paths: list[str]) -> dict[str, str]:
    """{file: SHA-256} of all files but those with times and memory."""
    found = {}
    for name in paths:
        path = Path(name)
        for file in sorted(path.rglob("*")) if path.is_dir() else [path]:
            if file.is_file() and not is_measured(file.as_posix()):
                found[file.as_posix()] = sha256(file)
    return found


@contextlib.contextmanager
def counted(act: Callable[[int], None]) -> Iterator[list[int]]:
    """Call act(n) at the n-th of the MOMENTS, counted from 1; yields a list with their number."""
    number = [0]

    def around(original: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any, **named: Any) -> Any:
            number[0] += 1
            act(number[0])
            return original(*arguments, **named)

        return call

    with pytest.MonkeyPatch.context() as patch:
        for owner, name in MOMENTS:
            patch.setattr(owner, name, around(getattr(owner, name)))
        yield number


@contextlib.contextmanager
def clock_of_updates() -> Iterator[None]:
    """Seconds pass only within updates, other ones in each, so that times of equal runs are equal."""
    now = [1000.0]
    launch = trainer.Trainer.launch

    def timed(self: trainer.Trainer, batches: Any) -> Any:
        now[0] += 0.25 + self.updates % 5
        return launch(self, batches)

    with pytest.MonkeyPatch.context() as patch:
        for name in ("perf_counter", "monotonic"):
            patch.setattr(time, name, lambda: now[0])
        patch.setattr(trainer.Trainer, "launch", timed)
        yield


def before_stage(drawn: DrawnRun, folder: Path, chooser: random.Random) -> str:
    """Run everything that comes before a stage; returns the stage. Mostly it is train."""
    level = chooser.choices(LEVELS[1:], weights=[6, 10, 3, 1])[0]  # later ones take long
    arrive(LEVELS[LEVELS.index(level) - 1], drawn, folder)
    stages = ["download", "vocab"] if level == "prepared" else stages_of(level, drawn)
    stage = chooser.choice(stages)
    with in_folder(folder):
        for earlier in stages[: stages.index(stage)]:
            if level == "prepared" or earlier.startswith("seed"):  # benches read nothing of others
                run_uncut(earlier)
    return stage


def run_uncut(command: str) -> None:
    """Run a stage. Raises Refused for whatever it raises, as `arrive` does."""
    try:
        run_stage(command)
    except Exception as error:
        raise Refused(str(error)) from error


@holds(ALONE)
def a_stage_that_is_cut_and_run_again_writes_the_same(drawn: DrawnRun, folder: Path) -> None:
    """A signal or a power cut at any write or update costs no bit of the outputs, and no time of them."""
    chooser = random.Random(drawn.number)
    command = before_stage(drawn, folder, chooser)
    stage, _, seed = command.partition(" ")
    chosen = chooser.choice([*SIGNALS, None])
    clock = clock_of_updates() if stage.endswith("train") else contextlib.nullcontext()
    with in_folder(folder), clock:
        outputs = outputs_of(stage, seed)
        with counted(lambda _: None) as moments:
            run_uncut(command)
        expected = sums(outputs)
        times = time_of_training(stage)
        remove(outputs)
        cut_at = chooser.randint(1, max(moments[0], 1))
        by = chosen.name if chosen else "a power cut"
        where = f"{command}, cut by {by} at {cut_at} of {moments[0]}"

        def act(moment: int) -> None:
            if moment == cut_at:
                if chosen is None:
                    raise PowerCut
                signal.raise_signal(chosen)

        with counted(act) as reached, contextlib.suppress(PowerCut):
            code, lines = ended(lambda: run(command))
            where += f", {reached[0]} reached"
            expected_code = 128 + (chosen or 0)
            assert code == expected_code, f"{where}: expected {expected_code}, got {code}: {lines}"
            lines = [line for line in lines if not line.startswith(WARNINGS)]
            assert len(lines) == 1, f"{where}: expected one line, got {lines}"
        left = [
            path for path in Path().rglob(".*.tmp*") if path.parts[0] not in ("tinylm", "stages")
        ]
        assert not left, f"{where}: left {left}"
        remove(outputs)
        code, lines = ended(lambda: run(command))
        assert code == 0, f"{where}: run again, expected exit code 0, got {code}: {lines}"
        found = sums(outputs)
        different = sorted(
            name for name in expected | found if expected.get(name) != found.get(name)
        )
        assert not different, f"{where}: run again, other bytes in {', '.join(different)}"
        assert time_of_training(stage) == times, (
            f"{where}: expected {times}, got {time_of_training(stage)}"
        )


def time_of_training(stage: str) -> dict[str, Any]:
    """What stage train says of its seconds, apart from those of the whole process."""
    if stage != "train":
        return {}
    times = read(Path("data/times/train.json"))
    return {
        key: value for key, value in times.items() if key in ("train_s", "tokens_per_s", "epoch_s")
    }


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        port: int = one.getsockname()[1]
        return port


def curves_of(rank: int, size: int, port: int, is_shaken: bool) -> None:
    """Run stage train as one rank of several; rank 0 writes its curves instead of its results."""

    def write_only_curves(stage: Any, run: Any, result: Any) -> None:
        curves = vars(result.curves) | {"precision": run.settings.precision}
        Path(CURVES).write_text(json.dumps(curves), encoding="utf-8")
        run.snapshots.finish()

    def prepare_shaken(*arguments: Any) -> Any:
        run = prepare(*arguments)
        generator = torch.Generator().manual_seed(1)
        with torch.no_grad():
            for weights in run.model.parameters():
                noise = 2 * torch.rand(weights.shape, generator=generator) - 1
                weights.mul_(1 + 2 * UNITS[run.settings.precision] * noise)
        return run

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("stages.train.write", write_only_curves)
        if is_shaken:
            patch.setattr("stages.train.prepare", prepare_shaken)
        values = {"RANK": rank, "WORLD_SIZE": size, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
        for name, value in values.items():
            patch.setenv(name, str(value))
        patch.setenv("TORCHELASTIC_ERROR_FILE", f"error-{rank}.json")
        run_stage("train")


def trained_by(size: int, is_shaken: bool = False) -> Any:
    """The curves of a training by so many processes; None if it failed.

    is_shaken: changes the initial weights in their last digit.
    """
    Path(CURVES).unlink(missing_ok=True)
    context = multiprocessing.get_context("fork")
    port = free_port()
    ranks = [
        context.Process(target=curves_of, args=(rank, size, port, is_shaken))
        for rank in range(size)
    ]
    for rank in ranks:
        rank.start()
    late = []
    for number, rank in enumerate(ranks):
        rank.join(timeout=LONGEST_TRAINING_S)
        if rank.is_alive():
            late.append(number)
            rank.kill()
            rank.join()
    assert not late, f"ranks {late} of {size} did not end within {LONGEST_TRAINING_S} s"
    return read(Path(CURVES)) if Path(CURVES).exists() else None


@holds(ALONE, settings_alone=True)
def two_processes_train_as_one_does(drawn: DrawnRun, folder: Path) -> None:
    """The losses, rates and gradient norms of a run do not depend on the number of its processes.

    Ranks draw dropout of their own, so there is none. The sums of two halves differ from that of the
    whole by rounding, 1e-7 of fp32 or 4e-3 of bf16, which grows with each update. A low learning
    rate, vectors far above it and a usual norm_eps keep that growth small. Where it grows all the same, so
    does the distance to a run whose initial weights differ in the last digit; the tolerance includes that
    distance.
    """
    calm = DrawnRun(drawn.changes | CALM)
    arrive("prepared", calm, folder)
    with in_folder(folder):
        one, two = trained_by(1), trained_by(2)
        shaken = trained_by(1, is_shaken=True)
    assert (one is None) == (two is None), f"one process: {one}, two: {two}"
    if one is None:
        raise Refused("training failed with any number of processes")
    if shaken is None:
        raise Refused("training fails with weights that differ in the last digit")
    precision = one["precision"]
    tolerance = 3e-2 if precision == "bf16" else 1e-3
    assert one["tokens"] == two["tokens"], f"tokens: one {one['tokens']}, two {two['tokens']}"
    np.testing.assert_allclose(two["rate"], one["rate"], rtol=1e-9)
    for curve in ("train", "grad_norm", "held_out"):
        of_one, of_two, of_shaken = (np.array(each[curve]) for each in (one, two, shaken))
        assert of_one.shape == of_two.shape == of_shaken.shape, f"{curve}: {of_one}, {of_two}"
        moved = np.maximum.accumulate(np.abs(of_shaken - of_one))
        moved *= SHAKEN_FACTOR[precision]
        is_compared = moved <= AMPLIFIED * np.abs(of_one)
        off = np.abs(of_two - of_one)
        is_near = off <= tolerance * np.abs(of_one) + moved
        assert (is_near | ~is_compared).all(), f"{curve}: one {of_one}, two {of_two}, moved {moved}"
