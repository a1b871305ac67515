"""Rows of docs/reference/faults.md: files, folders, disks and pipes; each fault really happens to a stage."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support import forks, stages

ROOT = Path(__file__).parents[2]
NAMESPACE = ["unshare", "-rm", "sh", "-c"]
NO_NETWORK = [
    "unshare",
    "-rn",
    sys.executable,
    "-c",
    "import socket, sys; sys.exit(bool(socket.if_nameindex()[1:]))",
]


def allowed(*words: str) -> bool:
    """Whether this machine lets a user have namespaces of their own."""
    try:
        return subprocess.run(words, capture_output=True).returncode == 0
    except OSError:
        return False


mounts = pytest.mark.skipif(
    not allowed(*NAMESPACE, "mount -t tmpfs none /mnt"), reason="no mounts of one's own here"
)


def plant(place: Path) -> Path:
    """Parameters and stories of a small run, and nothing that a stage made."""
    place.mkdir()
    params = stages.small_params()
    params["embedding"]["source"] = "random"
    params["model"] |= {"layers": 1, "context": 16}
    params["train"] |= {"tokens": 400, "validate_every": 50, "sample_every": 50}
    params["evaluate"] |= {
        "stories": 2,
        "new_tokens": 4,
        "tendency_sentences": 2,
        "ablation_stories": 2,
    }
    params["runtime"]["snapshot_every_s"] = 5.0
    stages.plant(place, params)
    return place


@pytest.fixture
def folder(tmp_path):
    """Its name has a space and an umlaut."""
    return plant(tmp_path / "a läb")


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A folder after its training."""
    place = plant(tmp_path_factory.mktemp("trained") / "run")
    assert [stage(place, name).returncode for name in ("download", "vocab", "train")] == [0, 0, 0]
    return place


def stage(folder: Path, name: str, before: str = "", space: tuple[str, ...] = (), **more: str):
    """Run a stage in a process of its own, `before` (shell) inside its namespace: the finished process."""
    environment = {key: value for key, value in os.environ.items() if not key.startswith("TINYLM")}
    environment |= {
        "OMP_NUM_THREADS": "1",
        "PYTHONDONTWRITEBYTECODE": "1",
        "FORKS": forks.server(),
    } | more
    words = (
        [*space, sys.executable, "-m", f"stages.{name}"]
        if space
        else forks.command("-m", f"stages.{name}")
    )
    if before:
        words = [*NAMESPACE, f'{before}; exec "$0" -m stages.{name}', sys.executable]
    return subprocess.run(
        words, cwd=folder, env=environment, capture_output=True, encoding="utf-8", errors="replace"
    )


def one_line(done, code: int, *named: str) -> None:
    errors = [line for line in done.stderr.splitlines() if line.startswith("error: ")]
    assert (done.returncode, len(errors)) == (code, 1), done.stderr
    assert "Traceback" not in done.stderr
    assert [text for text in named if text not in errors[0]] == [], errors[0]


def hidden(folder: Path) -> list[Path]:
    return [path for path in folder.rglob(".*.tmp*") if path.is_file()]


@mounts
def test_fault_13_14_a_disk_too_small_for_the_tokens(folder):
    """A disk of 8 KiB under data/tokens: one line with the file; nothing half-written; whole once there is space."""
    assert stage(folder, "download").returncode == 0
    (folder / "data/tokens").mkdir()
    found = stage(
        folder,
        "vocab",
        "mount -t tmpfs -o size=8k none data/tokens && head -c 8192 /dev/zero >data/tokens/full",
    )
    one_line(found, 1, "no space left on the disk for data/tokens", "free")
    assert not (folder / "data/figures/vocab.json").exists()
    assert hidden(folder) == []
    assert stage(folder, "vocab").returncode == 0


@mounts
def test_fault_13_a_disk_too_small_for_the_model_says_needed_and_free(folder):
    """Space for the weights is reserved before their first byte; the run goes on once there is some."""
    assert [stage(folder, name).returncode for name in ("download", "vocab")] == [0, 0]
    (folder / "models").mkdir()
    found = stage(folder, "train", "mount -t tmpfs -o size=4k none models")
    one_line(
        found,
        1,
        "no space left on the disk for models/model.safetensors (disk full: ",
        "bytes needed",
        "free)",
    )
    assert not (folder / "data/figures/train.json").exists()
    assert stage(folder, "train").returncode == 0


DVC = """\
stages:
  download:
    cmd: {python} -m stages.download
    deps: [stories.jsonl]
    outs: [data/stories]
"""


@mounts
def test_fault_15_dvc_names_a_full_cache_and_runs_the_stage_again_later(folder):
    (folder / "dvc.yaml").write_text(DVC.format(python=sys.executable), encoding="utf-8")
    environment = os.environ | {
        "DVC_NO_ANALYTICS": "1",
        "PYTHONPATH": str(folder),
        **{
            f"DVC_{kind}": str(folder.parent / kind)
            for kind in ("GLOBAL_CONFIG_DIR", "SYSTEM_CONFIG_DIR", "SITE_CACHE_DIR")
        },
    }

    def dvc(*words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            words, cwd=folder, env=environment, capture_output=True, encoding="utf-8"
        )

    assert dvc(sys.executable, "-m", "dvc", "init", "--no-scm").returncode == 0
    (folder / ".dvc/cache").mkdir(exist_ok=True)
    full = dvc(
        *NAMESPACE,
        'mount -t tmpfs -o size=4k none .dvc/cache; exec "$0" -m dvc repro',
        sys.executable,
    )
    told = full.stdout + full.stderr
    assert full.returncode == 0, told  # DVC's own choice, for an output that is a folder
    assert "ERROR: failed to transfer" in told
    assert "No space left on device" in told
    whole = {path.name: path.read_bytes() for path in (folder / "data/stories").iterdir()}
    assert set(whole) == {"train.jsonl", "held_out.jsonl", "evaluation.jsonl", "sha256.json"}
    again = dvc(sys.executable, "-m", "dvc", "repro")
    assert again.returncode == 0
    assert "Running stage 'download'" in again.stdout  # since the cache lacks its outputs
    shutil.rmtree(folder / "data/stories")
    assert dvc(sys.executable, "-m", "dvc", "checkout").returncode == 0
    assert {path.name: path.read_bytes() for path in (folder / "data/stories").iterdir()} == whole


@pytest.mark.skipif(not allowed("unshare", "-rm", "true"), reason="no mounts of one's own here")
@pytest.mark.parametrize("place", ["metrics", "data"])
def test_fault_16_a_read_only_folder_is_named(folder, place):
    (folder / place).mkdir()
    found = stage(folder, "download", f"mount -t tmpfs -o ro none {place}")
    one_line(found, 1, f"{place}/", "Read-only file system")


def test_fault_17_a_folder_in_the_place_of_a_file_is_named(folder):
    (folder / "data/figures/download.json").mkdir(parents=True)
    one_line(stage(folder, "download"), 1, "data/figures/download.json", "Is a directory")
    assert hidden(folder) == []


def test_fault_17_a_loop_of_links_is_named(folder):
    (folder / "data").symlink_to("data")
    one_line(stage(folder, "download"), 2, "data is a link to data", "allowed: a folder")
    (folder / "data").unlink()
    (folder / "data").mkdir()
    (folder / "data/stories").symlink_to("stories")
    one_line(stage(folder, "download"), 1, "data/stories", "")


def test_fault_17_a_folder_that_is_gone_is_one_line(folder):
    before = f'rmdir "{folder}/gone"'
    (folder / "gone").mkdir()
    words = [
        "sh",
        "-c",
        f'cd "{folder}/gone" && {before} && exec {sys.executable} -m stages.download',
    ]
    done = subprocess.run(
        words, capture_output=True, text=True, env={**os.environ, "PYTHONPATH": str(ROOT)}
    )
    one_line(done, 2, "the current folder is gone")


def test_fault_43_a_stage_behind_a_closed_pipe_does_its_work(folder):
    """`python -m stages.download | true`: the exit code and the files are those of a run that somebody reads."""
    words = [sys.executable, "-u", "-m", "stages.download"]
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run(words, cwd=folder, stdout=writer, stderr=writer)
    os.close(writer)
    assert done.returncode == 0
    behind = {path.name: path.read_bytes() for path in (folder / "data/stories").iterdir()}
    shutil.rmtree(folder / "data")
    assert stage(folder, "download").returncode == 0
    assert {path.name: path.read_bytes() for path in (folder / "data/stories").iterdir()} == behind


@pytest.mark.parametrize("encoding", ["ascii", "latin-1:strict", "utf-8"])
def test_fault_43_a_terminal_without_the_characters_gets_escapes(folder, encoding):
    with open(folder / "stories.jsonl", "a", encoding="utf-8") as handle:
        handle.writelines(
            json.dumps({"text": f"Жили были é {n} 🐸 \u202e\x1b[31m"}) + "\n" for n in range(40)
        )
    assert stage(folder, "download", PYTHONIOENCODING=encoding).returncode == 0
    (folder / "stories.jsonl").rename(folder / "é\x1b[2J\u202e.jsonl")
    params = (
        (folder / "params.yaml")
        .read_text("utf-8")
        .replace("stories.jsonl", '"é\\x1b[2J\\u202e.jsonl.gone"')
    )
    (folder / "params.yaml").write_text(params, encoding="utf-8")
    done = stage(folder, "download", PYTHONIOENCODING=encoding)
    assert done.returncode == 2, done.stderr
    assert "Traceback" not in done.stderr
    assert "\x1b" not in done.stderr + done.stdout
    assert "\u202e" not in done.stderr + done.stdout


def test_fault_44_a_damaged_or_missing_metrics_file_leaves_the_other_benches_alone(folder):
    """accum_sweep reads its own files only, and names the damaged one."""
    (folder / "data/figures").mkdir(parents=True)
    (folder / "data/figures/kv_bench.json").write_text('{"batch": ')
    assert stage(folder, "download").returncode == 0
    assert (folder / "data/figures/kv_bench.json").read_text() == '{"batch": '
    (folder / "data/accum").mkdir()
    (folder / "data/accum/1.json").write_text('{"accumulation": ')
    one_line(stage(folder, "accum_sweep"), 2, "data/accum/1.json: not JSON")


FLIPPED = [  # (a file of ours, the stage that reads it, the stage that made it)
    ("data/stories/train.jsonl", "vocab", "download"),
    ("data/vocab/tokenizer.json", "train", "vocab"),
    ("data/vocab/embedding.safetensors", "train", "vocab"),
    ("data/tokens/train.ids", "train", "vocab"),
    ("data/tokens/held_out.offsets", "train", "vocab"),
    ("models/model.safetensors", "evaluate", "train"),
    ("models/config.json", "evaluate", "train"),
]


@pytest.mark.parametrize(("path", "reader", "maker"), FLIPPED, ids=[row[0] for row in FLIPPED])
def test_fault_45_a_changed_byte_of_ours_is_refused_with_the_remedy(
    trained, tmp_path, path, reader, maker
):
    folder = shutil.copytree(trained, tmp_path / "run", symlinks=True)
    (folder / f"data/figures/{reader}.json").unlink(missing_ok=True)
    content = bytearray((folder / path).read_bytes())
    content[len(content) * 2 // 3] ^= 1
    (folder / path).write_bytes(content)
    done = stage(folder, reader)
    one_line(done, 2, path, "rm ", f"dvc repro -f -s {maker}")
    assert not (folder / f"data/figures/{reader}.json").exists()


@pytest.mark.skipif(not allowed(*NO_NETWORK), reason="no network namespaces here")
def test_nothing_phones_home(folder):
    """In a namespace in which there is no network but a loopback that is down, stages do all that they do elsewhere."""
    for name in ("download", "vocab", "train", "evaluate"):
        done = stage(folder, name, space=("unshare", "-rn"))
        assert done.returncode == 0, done.stderr
    inside = {
        path.name: path.read_bytes()
        for path in (folder / "metrics").glob("*.json")
        if "_time" not in path.name
    }
    for name in ("data", "models", "metrics", "plots", "runs"):
        shutil.rmtree(folder / name)
    for name in ("download", "vocab", "train", "evaluate"):
        assert stage(folder, name).returncode == 0
    assert inside == {name: (folder / "metrics" / name).read_bytes() for name in inside}
    assert len(inside) == 4
