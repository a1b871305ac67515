"""Every command and stage beside what can happen to it: exit code and files say whether its work was done.

What can happen: the reader of its output goes away, output is closed or its disk full, no file can be written, Ctrl-C.
"""

import contextlib
import dataclasses
import itertools
import os
import resource
import shlex
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support import forks
from tinylm.cli.arguments import PURPOSES

NO_HUB = "http://127.0.0.1:9"  # the port of a service that discards: nobody listens
PARAMS = "params.yaml"


@dataclasses.dataclass(frozen=True)
class Case:
    """A command; `files`: what it must write, bytes that equal runs share in `same`; `code`: undisturbed."""

    words: str
    files: tuple[str, ...] = ()
    same: tuple[str, ...] = ()
    code: int = 0
    prints: bool = False  # and does nothing else
    makes_anew: bool = True  # its files may be missing before
    silent: bool = False

    @property
    def name(self) -> str:
        return self.words.partition(".")[2]


def stage(name: str, *files: str, same: tuple[str, ...] = ()) -> Case:
    metrics = f"metrics/{name.partition(' ')[0]}.json"
    times = name.startswith(("accum", "seed_")) and name != "accum_sweep"
    return Case(f"stages.{name}", (*files, *(() if times else (metrics,))), same)


STAGES = (
    stage("download", same=("data/stories/train.jsonl", "metrics/download.json")),
    stage(
        "vocab", same=("data/vocab/tokenizer.json", "data/tokens/train.ids", "metrics/vocab.json")
    ),
    stage(
        "train",
        same=(
            "models/model.safetensors",
            "models/config.json",
            "metrics/train.json",
            "plots/loss.csv",
        ),
    ),
    stage("evaluate", same=("metrics/evaluate.json", "data/evaluate/samples.csv")),
    stage("beam_bench"),
    stage("kv_bench"),
    stage("accum_run 1", "data/accum/1.json"),
    stage("accum_sweep"),
    stage("ckpt_bench"),
    stage("seed_train 2", same=("data/seeds/2/model.safetensors",)),
    stage("seed_score 2", same=("data/seeds/2.json",)),
    Case("stages.seeds", ("metrics/seeds.json",)),
    Case("stages.report", ("report/index.html", "report/report.pdf")),
)
COMMANDS = (
    Case("tinylm.cli generate once --greedy --max-tokens 20", prints=True),
    Case("tinylm.cli describe", prints=True),
    Case("tinylm.cli check"),
    Case("tinylm.cli preset --list", prints=True),
    Case("tinylm.cli compare HEAD~1 HEAD", prints=True),
    Case("tinylm.cli compare HEAD~1 HEAD --html x.html --json x.json", ("x.html", "x.json")),
    Case("tinylm.cli plan --effect 0.5", prints=True),
    Case("tinylm.cli attention once -o a.png", same=("a.png",)),
    Case("tinylm.cli lab", same=("lab.html",)),
    Case("tinylm.cli preset word-10k --force", same=(PARAMS,)),
    Case("tinylm.cli publish me/it --license mit", ("exports/me/it/README.md",), code=1),
    Case(
        "tinylm.cli publish me/it --dry-run",
        ("exports/me/it/README.md", "exports/me/it/model.safetensors"),
    ),
    Case(
        "tinylm.cli export ex", same=("ex/model.safetensors", "ex/config.json", "ex/tokenizer.json")
    ),
    Case(
        "tinylm.cli import given --models m --vocab v.json", same=("m/model.safetensors", "v.json")
    ),
    Case("tinylm.cli.stage_deps", same=("dvc.yaml",), makes_anew=False, silent=True),
    Case("tinylm.cli.verify", silent=True),
    Case("tinylm.cli.mend_lock", silent=True),
    # its zip is tested in test_hand_in.py: here stages ran again, so that no report shows the present times
    Case("tinylm.cli handin a/b", code=2),
)
ALL = STAGES + COMMANDS


def test_no_command_and_no_stage_is_missing(pipeline):
    commands = {case.words.split()[1] for case in COMMANDS if case.words.startswith("tinylm.cli ")}
    # tests/sweep interrupts a sweep, kills it and fills its disk
    assert commands | {"sweep"} == set(PURPOSES)
    assert {case.name.split()[0] for case in STAGES} == set(pipeline["stages"])


@pytest.fixture(scope="module")
def place(clone):
    """A finished run of two commits, with an export."""
    clone.run("git", "commit", "-q", "--allow-empty", "-m", "once more")
    clone.run(sys.executable, "-m", "tinylm.cli", "export", "given")
    return clone


@contextlib.contextmanager
def without(place, case: Case) -> Iterator[dict[str, bytes]]:
    """The command's files, taken away for a while; yields what they held."""
    names = case.files + case.same
    held = {
        name: (place.path / name).read_bytes() for name in names if (place.path / name).is_file()
    }
    if case.makes_anew:
        for name in set(held) - {PARAMS}:
            (place.path / name).unlink()
    try:
        yield held
    finally:
        for name in names:
            (place.path / name).unlink(missing_ok=True)
            if name in held:
                (place.path / name).parent.mkdir(parents=True, exist_ok=True)
                (place.path / name).write_bytes(held[name])


def start(place, case: Case, output: str, limit: int | None = None) -> subprocess.Popen[str]:
    """The command with its standard output on `| true`, `| head -1`, `>&-` or `> FILE`; the others are not printed."""

    def limited() -> None:
        if limit is not None:
            resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))

    line = f"exec {shlex.join(forks.command())} -u -m {case.words}"
    if output.startswith("|"):
        line = f"set -o pipefail; ({line}) {output}"
    else:
        line = f"{line} {output}"
    more = {"HF_TOKEN": "hf_none", "HF_ENDPOINT": NO_HUB, "PYTHONDONTWRITEBYTECODE": "1"}
    return subprocess.Popen(
        ["bash", "-c", line], cwd=place.path, env=place.environment(**more), stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE, text=True, preexec_fn=limited, start_new_session=True,
    )  # fmt: skip


def whole(place, case: Case, held: dict[str, bytes]) -> None:
    """All of the command's files are there, and those that equal runs share are equal."""
    for name in case.files + case.same:
        assert (place.path / name).stat().st_size > 0, name
    for name in set(case.same) & set(held) - {PARAMS}:
        assert (place.path / name).read_bytes() == held[name], name


def temporary(place) -> list[Path]:
    found = [path for path in place.path.rglob(".*.tmp*") if ".dvc" not in path.parts]
    return [path for path in found if path.is_file()]


NAMES = [case.name for case in ALL]


# Each command loses its output in one way, and each way meets several commands: all pairs would take half an hour.
LOST = list(zip(ALL, itertools.cycle(["| true", ">&-", "| head -1", ">/dev/full"])))


@pytest.mark.parametrize(("case", "output"), LOST, ids=NAMES)
def test_a_lost_standard_output_stops_no_work(place, case, output):
    with without(place, case) as held:
        running = start(place, case, output)
        errors = running.communicate()[1]
        expected = case.code
        if case.prints and not output.startswith("|"):
            expected = 1
            assert "error: standard output" in errors
        assert running.returncode == expected, errors
        assert "Traceback" not in errors
        assert "BrokenPipe" not in errors
        warned = output == ">/dev/full" and not expected and not case.silent
        assert ("warning: standard output" in errors) == warned, errors
        whole(place, case, held)
        assert temporary(place) == []


@pytest.mark.parametrize("case", ALL, ids=NAMES)
def test_where_no_file_can_be_written_the_command_fails_and_leaves_none(place, case):
    """Files of more than 16 bytes are refused by the system, as on a full disk."""
    (place.path / ".dvc/tmp/rwlock").unlink(
        missing_ok=True
    )  # a killed DVC's, which mend_lock would have to write
    with without(place, case) as held:
        running = start(place, case, "", limit=16)
        errors = running.communicate()[1]
        writes = bool(case.files + case.same)
        keeps_a_cache = case.words.startswith(
            ("tinylm.cli compare", "tinylm.cli plan")
        )  # DVC's of the experiments
        assert running.returncode == (1 if writes or keeps_a_cache else case.code), errors
        assert "Traceback" not in errors
        if writes:
            assert errors.splitlines()[-1].startswith("error: "), errors
            left = [
                name
                for name in case.files + case.same
                if (place.path / name).is_file() and name != PARAMS
            ]
            assert [
                name for name in left if (place.path / name).read_bytes() != held.get(name)
            ] == []
        assert temporary(place) == []


@pytest.mark.parametrize(
    ("case", "share"), list(zip(ALL, itertools.cycle([0.5, 0.5, 0.9, 0.9])))[::2], ids=NAMES[::2]
)
def test_ctrl_c_leaves_whole_files_and_says_so(place, case, share):
    with without(place, case) as held:
        begun = time.monotonic()
        assert start(place, case, "").wait() == case.code
        after = {name: (place.path / name).read_bytes() for name in case.files + case.same}
        seconds = time.monotonic() - begun
        with without(place, case):
            running = start(place, case, "")
            time.sleep(share * seconds)
            os.killpg(running.pid, signal.SIGINT)
            errors = running.communicate(timeout=60)[1]
            assert running.returncode in (130, -signal.SIGINT, case.code), errors
            assert "Traceback" not in errors
            if running.returncode == case.code:
                whole(place, case, held)
            for name in set(case.same) & set(after):  # the old one, the new one or none
                found = (
                    (place.path / name).read_bytes()
                    if (place.path / name).exists()
                    else after[name]
                )
                assert found in (after[name], held.get(name)), name
            assert temporary(place) == []
        shutil.rmtree(place.path / "runs/train", ignore_errors=True)


@pytest.mark.parametrize("output", ["", "| head -1", ">&-", ">/dev/full"])
def test_a_verdict_is_given_to_nobody_too(place, output):
    """`tinylm check` on what it must refuse: exit code 2 wherever its table goes."""
    kept = (place.path / PARAMS).read_text("utf-8")
    (place.path / PARAMS).write_text(kept.replace("seed: 1", "seed: one", 1), encoding="utf-8")
    try:
        running = start(place, Case("tinylm.cli check", code=2), output)
        assert "error: " in running.communicate()[1]
        assert running.returncode == 2
    finally:
        (place.path / PARAMS).write_text(kept, encoding="utf-8")
