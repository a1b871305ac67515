"""One commit on the hub or none, and the folder that becomes it."""

import socket
from pathlib import Path
from types import SimpleNamespace

import pytest
from huggingface_hub import constants
from huggingface_hub.errors import HfHubHTTPError

from tinylm.base.config import InputError
from tinylm.exchange import publish
from tinylm.exchange.card import Origin, Publication, data_licence
from tinylm.exchange.publish import build, check_repo, files_of, find_token, upload
from tinylm.host.command import CommandFailed
from tinylm.report.sources import Run

TOKEN = "hf_" + "Secret" * 6
REPO = "me/stories"
OLD = {"pipeline/params.yaml": b"old", "config.json": b"old", "report/old.html": b"old"}
THEIRS = {"LICENSE": b"MIT", "img/cat.png": b"cat"}
LOSS = [{"step": n, "tokens": 100 * n, "series": "train", "value": 9 - n} for n in range(1, 5)]
CONTENTS = {
    "params.yaml": "data: {}\n",
    "dvc.lock": "schema: '2.0'\n",
    "data/figures/train.json": "{}\n",
    "metrics/train_time.json": "{}\n",
    "plots/loss.csv": "step\n",
    "report/index.html": "<p>",
    "report/report.pdf": "%PDF",
    "report/lab.html": "the model",
}


@pytest.fixture
def root(tmp_path, monkeypatch):
    """What a pipeline left; the working folder."""
    folder = tmp_path / "run"
    for name, text in CONTENTS.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    monkeypatch.chdir(folder)
    return folder


@pytest.fixture
def run(params) -> Run:
    train = {"parameters": 1234, "tokens": 400}
    return Run(params, {"train": train, "train_time": {"seconds": 3}, "loss": LOSS}, {})


@pytest.fixture
def publication(params) -> Publication:
    origin = Origin("0123456789ab", "c0ffee.dir", ())
    data = data_licence(params["data"], None)
    return Publication(REPO, "transformers", None, data, origin, True, (), ())


def export(folder):
    (folder / "config.json").write_text("{}")


def contents(folder):
    return {name: (folder / name).read_bytes() for name in files_of(folder)}


def test_the_folder_is_complete_and_the_same_bytes_twice(tmp_path, root, run, publication):
    build(tmp_path / "a", run, publication, export)
    build(tmp_path / "b", run, publication, export)
    files = contents(tmp_path / "a")
    assert files == contents(tmp_path / "b")
    assert files.pop("README.md")
    assert files.pop("pictures/loss.png").startswith(b"\x89PNG")
    pipeline = ("params.yaml", "dvc.lock", "data/figures/train.json", "plots/loss.csv")
    expected = {f"pipeline/{name}": CONTENTS[name].encode() for name in pipeline}
    expected |= {name: text.encode() for name, text in CONTENTS.items() if "report/" in name}
    assert files == expected | {"config.json": b"{}"}


def test_an_earlier_publication_is_replaced_whole_or_not_at_all(tmp_path, root, run, publication):
    def old(new):
        (new / "modeling_tinylm.py").write_text("old")

    def failing(new):
        (new / "config.json").write_text("half")
        raise InputError("no")

    build(tmp_path / "a", run, publication, old)
    assert "modeling_tinylm.py" not in build(tmp_path / "a", run, publication, export)
    before = contents(tmp_path / "a")
    with pytest.raises(InputError, match="no"):
        build(tmp_path / "a", run, publication, failing)
    assert contents(tmp_path / "a") == before
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a", "run"]


def test_a_folder_of_somebody_else_is_refused(tmp_path, root, run, publication):
    (tmp_path / "b").mkdir()
    (tmp_path / "b/thesis.tex").write_text("x")
    with pytest.raises(InputError, match="b is there"):
        build(tmp_path / "b", run, publication, export)
    assert files_of(tmp_path / "b") == ["thesis.tex"]


@pytest.mark.parametrize("repo", ["stories", "a/b/c", "../x", "me/a--b", "me/a.git", "me/x\n"])
def test_what_is_no_name_of_a_repository(repo):
    check_repo("My-Group/tiny_stories-2m.v1")
    with pytest.raises(InputError, match="OWNER/NAME"):
        check_repo(repo)


@pytest.fixture
def folder(tmp_path) -> Path:
    """A small publication."""
    folder = tmp_path / "exports/me/stories"
    for name in ("README.md", "config.json", "model.safetensors", "pipeline/params.yaml"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(name.encode())
    return folder


def published(hub):
    return {name: data for name, data in hub.repos[REPO][-1].items() if name != ".gitattributes"}


def test_all_files_are_one_commit_and_again_none(hub, folder):
    first = upload(folder, REPO, True, "tinylm abc", TOKEN)
    assert published(hub) == contents(folder)
    assert REPO in hub.private
    again = upload(folder, REPO, True, "tinylm abc", TOKEN)
    assert (first.is_new, again.is_new) == (True, False)
    assert again.commit == first.commit
    assert len(hub.repos[REPO]) == 2  # the hub's first one, and ours
    assert set(hub.tokens) == {TOKEN}


def test_what_is_no_longer_published_goes_and_what_is_the_users_stays(hub, folder):
    hub.repos[REPO] = [OLD | THEIRS]
    upload(folder, REPO, False, "tinylm abc", TOKEN)
    assert published(hub) == contents(folder) | THEIRS


@pytest.mark.parametrize(("files", "private"), [(OLD, True), ({"config.json": b"theirs"}, False)])
def test_a_public_repository_and_somebody_elses_are_refused(hub, folder, files, private):
    hub.repos[REPO] = [files]
    with pytest.raises(InputError):
        upload(folder, REPO, private, "tinylm abc", TOKEN)
    assert hub.repos[REPO] == [files]


@pytest.mark.parametrize(
    ("status", "kind"), [(401, InputError), (403, InputError), (412, CommandFailed), (500, None)]
)
def test_a_refusal_is_one_line_without_the_token(hub, folder, status, kind):
    response = SimpleNamespace(status_code=status, headers={}, request=None)
    hub.error = HfHubHTTPError(f"no,\n{TOKEN}", response=response)
    with pytest.raises(kind or CommandFailed) as raised:
        upload(folder, REPO, False, "tinylm abc", TOKEN)
    assert TOKEN not in str(raised.value)
    assert "\n" not in str(raised.value)


def test_the_token_is_where_huggingface_hub_keeps_it(monkeypatch, tmp_path):
    monkeypatch.delenv("HF_TOKEN", raising=False)
    monkeypatch.delenv("HUGGING_FACE_HUB_TOKEN", raising=False)
    monkeypatch.setattr(constants, "HF_TOKEN_PATH", str(tmp_path / "token"))
    with pytest.raises(InputError, match="HF_TOKEN"):
        find_token()
    (tmp_path / "token").write_text(f"{TOKEN}\n")
    assert find_token() == TOKEN


def test_a_hub_that_never_answers_is_named(folder, monkeypatch):
    """It accepts, and is silent: huggingface_hub itself would wait without end."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        monkeypatch.setattr(constants, "ENDPOINT", f"http://127.0.0.1:{silent.getsockname()[1]}")
        monkeypatch.setattr(publish, "ANSWER_S", 0.3)
        with pytest.raises(CommandFailed, match=r"http://127.0.0.1:\d+"):
            upload(folder, REPO, False, "a", TOKEN)
