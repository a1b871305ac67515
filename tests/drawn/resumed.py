"""A property of training that is interrupted, then continued after params.yaml was edited."""

import random
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.drawn.cuts import clock_of_updates, counted, outputs_of, remove, run_uncut, sums
from tests.drawn.drawing import NOT_DRAWN, DrawnRun
from tests.drawn.properties import ALONE, holds
from tests.drawn.refusals import BAD_INPUT, ended
from tests.drawn.reruns import draw_edits, write_params
from tests.drawn.running import arrive, in_folder
from tests.support.stages import run

SECTIONS = ("model", "train", "runtime")  # that stage train reads
NO_RESULT = ("runtime.sample_every", "runtime.sample_prompt")
NOT_EDITED = NOT_DRAWN | {"train.processes"}  # torchrun starts them


def some_edits(drawn: DrawnRun, chooser: random.Random) -> Iterator[tuple[str, Any]]:
    """(a key, another value of it): the number of threads, and one key of each section."""
    yield "runtime.threads", 1 if drawn.params()["runtime"]["threads"] in ("auto", 2) else 2
    yield from draw_edits(drawn, chooser, SECTIONS, NOT_EDITED)


@holds(ALONE)
def a_cut_training_goes_on_only_as_it_began(drawn: DrawnRun, folder: Path) -> None:
    """After an edit, training is refused, or ends with the same bytes as an uninterrupted run with the edited settings."""
    chooser = random.Random(drawn.number)
    arrive("prepared", drawn, folder)
    with in_folder(folder), clock_of_updates():
        outputs = outputs_of("train")
        with counted(lambda _: None) as moments:
            run_uncut("train")
        cut_at = chooser.randint(1, max(moments[0], 1))
        for key, value in some_edits(drawn, chooser):
            shutil.rmtree("runs", ignore_errors=True)
            remove(outputs)
            write_params(drawn)
            with counted(lambda moment: stop_at(moment, cut_at)):
                code, _ = ended(lambda: run("train"))
            assert code == 128 + signal.SIGTERM, f"cut at {cut_at}: exit code {code}"
            write_params(DrawnRun(drawn.changes | {key: value}, drawn.files))
            remove(outputs)
            code, lines = ended(lambda: run("train"))
            if any("changed since" in line for line in lines):
                assert code == BAD_INPUT, f"refused, expected exit code 2, got {code}: {lines}"
                assert key not in NO_RESULT, f"{key} decides no result, but: {lines}"
                continue
            found = sums(outputs)
            shutil.rmtree("runs", ignore_errors=True)
            remove(outputs)
            expected_code, _ = ended(lambda: run("train"))
            where = f"cut at {cut_at} of {moments[0]}, continued with {key} = {value!r}"
            assert code == expected_code, f"{where}: expected {expected_code}, got {code}: {lines}"
            expected = sums(outputs)
            names = expected | found
            different = sorted(name for name in names if expected.get(name) != found.get(name))
            assert not different, f"{where}: other bytes in {', '.join(different)}"


def stop_at(moment: int, cut_at: int) -> None:
    if moment == cut_at:
        signal.raise_signal(signal.SIGTERM)
