"""Bad inputs that a hostile user, or a bad day, comes up with beyond the 48 rows; table.py names them in docs."""

import io
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.faults.test_files_and_pipes import plant
from tinylm.base.config import MAX_PARAMS_BYTES, InputError, load_params, parse_yaml
from tinylm.base.files import read_json, require, sha256
from tinylm.presets.write import preset_text, write_preset
from tinylm.vocab.tokenizer import open_tokenizer

ROOT = Path(__file__).parents[2]


@pytest.fixture(autouse=True)
def never_for_ever():
    """What used to hang fails, and so does what used to take all memory: reading stops after 20 s."""

    def late(*_):
        raise AssertionError("it hangs")

    before = signal.signal(signal.SIGALRM, late)
    signal.alarm(20)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def shell(command: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """A shell command with tinylm's Python as $P."""
    environment = os.environ | {
        "P": sys.executable,
        "PYTHONPATH": str(ROOT),
        "OMP_NUM_THREADS": "1",
    }
    return subprocess.run(
        ["sh", "-c", command],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
    )


@pytest.mark.parametrize("kind", ["pipe", "device", "link to a device"])
def test_params_that_are_a_pipe_or_a_device(here, kind):
    path = Path("params.yaml")
    if kind == "pipe":
        os.mkfifo(path)
    else:
        path.symlink_to("/dev/zero" if kind == "device" else "zero")
        Path("zero").symlink_to("/dev/zero")
    with pytest.raises(
        InputError, match=r"^params\.yaml: a pipe, socket or device; allowed: a file$"
    ):
        load_params()
    with pytest.raises(InputError, match="a pipe, socket or device"):
        write_preset("storybook")


def test_params_without_end(here):
    Path("params.yaml").write_text("\n" * (MAX_PARAMS_BYTES + 1))
    with pytest.raises(
        InputError, match=rf"^params\.yaml: longer than {MAX_PARAMS_BYTES} bytes; allowed: sections"
    ):
        load_params()


def test_params_whose_merges_multiply():
    """<<: of nine anchors, each merging nine: 9 ** 9 keys from a file of a page."""
    lines, before = ["a: &a {k: 1}"], "a"
    for name in "bcdefghij":
        lines.append(f"{name}: &{name}\n  <<: [{', '.join([f'*{before}'] * 9)}]")
        before = name
    with pytest.raises(
        InputError, match=r"p\.yaml, line \d+: not YAML: more than 10000 keys in one mapping"
    ):
        parse_yaml("\n".join(lines), "p.yaml")
    few = parse_yaml("a: &a {k: 1}\nb: {<<: [*a, *a], l: 2}", "p.yaml")
    assert few["b"] == {"k": 1, "l": 2}


def test_a_model_or_vocabulary_that_is_a_pipe_or_a_device(here):
    os.mkfifo("pipe.json")
    for path in ("pipe.json", "/dev/zero"):
        for reader in (sha256, read_json, open_tokenizer, lambda name: require(name, "train")):
            with pytest.raises(InputError, match="a pipe, socket or device; allowed: a file"):
                reader(path)
    assert require(here, "train") == here


def test_a_model_or_vocabulary_that_is_a_folder(here):
    Path("folder.json").mkdir()
    for reader in (sha256, read_json, open_tokenizer):
        with pytest.raises(InputError, match=r"^folder\.json: a folder; allowed: a file$"):
            reader("folder.json")


def test_a_prompt_without_end(monkeypatch):
    from tinylm.cli import generate

    monkeypatch.setattr(sys, "stdin", io.StringIO("a" * (generate.MAX_PIPED + 9)))
    with pytest.raises(
        InputError, match="standard input: more than 16777216 characters; allowed: one prompt"
    ):
        generate.read_prompts(["-"])
    monkeypatch.setattr(sys, "stdin", io.StringIO("a" * generate.MAX_PIPED))
    assert [len(prompt) for prompt in generate.read_prompts([])] == [generate.MAX_PIPED]


@pytest.mark.parametrize(
    ("closed", "code", "said"),
    [
        (">&-", 1, "error: standard output is closed: nothing can be printed\n"),
        ("<&- 2>&-", 0, ""),
        ("<&- >&- 2>&-", 1, ""),
    ],
)
def test_standard_streams_that_are_closed(here, closed, code, said):
    done = shell(f"$P -m tinylm.cli preset --list {closed}", here)
    assert (done.returncode, done.stderr) == (code, said)
    assert ("storybook" in done.stdout) == (code == 0)


def test_a_stage_whose_standard_streams_are_closed(here):
    """It runs on: its result is files, and none of them takes the number of a closed stream."""
    folder = plant(here / "run")
    done = shell("$P -m stages.download <&- >&- 2>&-", folder)
    assert done.returncode == 0
    closed = {path.name: path.read_bytes() for path in (folder / "data/stories").iterdir()}
    assert shell("$P -m stages.download", folder).returncode == 0
    assert {path.name: path.read_bytes() for path in (folder / "data/stories").iterdir()} == closed


def test_a_full_disk_behind_standard_output(here):
    done = shell("$P -m tinylm.cli preset --list >/dev/full", here)
    assert done.returncode == 1
    assert done.stderr == "error: standard output: No space left on device; not all was printed\n"


def test_a_current_folder_that_was_removed(here):
    done = shell("mkdir gone && cd gone && rmdir ../gone && $P -m tinylm.cli check", here)
    assert done.returncode == 2
    assert (
        done.stderr
        == "error: the current folder is gone (No such file or directory); cd into one that is there\n"
    )


def test_a_preset_over_a_link_leaves_the_link(here):
    Path("shared").mkdir()
    Path("shared/mine.yaml").write_text(preset_text("storybook"))
    Path("params.yaml").symlink_to("shared/mine.yaml")
    write_preset("word-10k")
    assert Path("params.yaml").is_symlink()
    assert Path("shared/mine.yaml").read_text() == preset_text("word-10k")


def test_a_path_that_is_too_long():
    from tinylm.cli.machine import _readable
    from tinylm.download.readers import local_splits
    from tinylm.embedding.source import check_vectors

    long = "x" * 5000 + ".vec"
    with pytest.raises(InputError, match="no such file or folder; allowed: a file"):
        local_splits(Path(long))
    with pytest.raises(InputError, match="no such file; allowed"):
        check_vectors(Path(long), 8)
    assert _readable("data.path", long).problem.endswith("no such file or folder")
