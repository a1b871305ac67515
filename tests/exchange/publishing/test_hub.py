"""Uploading to a fake of the hub on loopback: one commit or none, whatever fails in between."""

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from huggingface_hub import constants

from tinylm.base.config import InputError
from tinylm.exchange import publish
from tinylm.exchange.publish import find_token, upload
from tinylm.host.command import CommandFailed

ROOT = Path(__file__).parents[3]
TOKEN = "hf_" + "Secret" * 6
REPO = "me/stories"
OLD = {"pipeline/params.yaml": b"old", "config.json": b"old", "report/old.html": b"old"}
THEIRS = {"LICENSE": b"MIT", "img/cat.png": b"cat"}


def contents(folder: Path) -> dict[str, bytes]:
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file()
    }


def published(hub) -> dict[str, bytes]:
    files = dict(hub.repos[REPO][-1])
    files.pop(".gitattributes", None)
    return files


def test_all_files_in_one_commit_and_again_in_none(hub, folder):
    first = upload(folder, REPO, True, "tinylm abc", TOKEN)
    assert published(hub) == contents(folder)
    assert (first.url, first.commit) == (f"{hub.url}/{REPO}", hub.head(REPO))
    assert hub.count("POST", "/commit/") == 1
    assert REPO in hub.private
    again = upload(folder, REPO, True, "tinylm abc", TOKEN)
    assert (first.is_new, again.is_new) == (True, False)
    assert again.commit == first.commit
    assert len(hub.repos[REPO]) == 2  # the hub's first one, and ours
    for method, path, authorization, body in hub.requests:  # the token goes to the hub alone
        assert TOKEN not in path
        assert TOKEN.encode() not in body
        assert authorization == f"Bearer {TOKEN}" or "/api/models" not in path
        assert authorization is None or method != "PUT"


def test_what_is_no_longer_published_goes_and_what_is_the_users_stays(hub, folder):
    hub.make(REPO, OLD | THEIRS)
    upload(folder, REPO, False, "tinylm abc", TOKEN)
    assert published(hub) == contents(folder) | THEIRS


@pytest.mark.parametrize(("files", "private"), [(OLD, True), ({"config.json": b"theirs"}, False)])
def test_a_public_repository_and_somebody_elses_are_refused(hub, folder, files, private):
    hub.make(REPO, files)
    with pytest.raises(InputError):
        upload(folder, REPO, private, "tinylm abc", TOKEN)
    assert hub.count("PUT", "") == hub.count("POST", "/commit/") == 0


@pytest.mark.parametrize(
    ("method", "path", "status", "kind"),
    [
        ("POST", "/preupload/", 401, InputError),
        ("POST", "/commit/main", 403, InputError),
        ("POST", "/commit/main", 412, CommandFailed),
        ("POST", "/commit/main", 500, CommandFailed),
        ("PUT", "/storage/", 400, CommandFailed),
    ],
)
def test_a_refusal_leaves_the_old_revision(hub, folder, method, path, status, kind):
    hub.make(REPO, dict(OLD))
    hub.faults = [(method, path, status)]
    with pytest.raises(kind) as raised:
        upload(folder, REPO, False, "tinylm abc", TOKEN)
    assert TOKEN not in str(raised.value)  # the fake repeats it in its answer
    assert hub.repos[REPO] == [OLD]
    upload(folder, REPO, False, "tinylm abc", TOKEN)
    assert published(hub) == contents(folder)


def test_a_server_that_fails_once_is_asked_again(hub, folder, monkeypatch, capfd):
    monkeypatch.setattr("time.sleep", lambda _: None)
    hub.faults = [("PUT", "/storage/", 503), ("POST", "/preupload/", 500)]
    upload(folder, REPO, False, "tinylm abc", TOKEN)
    assert hub.faults == []
    assert published(hub) == contents(folder)
    assert "signature=" not in capfd.readouterr().err  # anyone with the address could write


UPLOAD = "from pathlib import Path; from tinylm.exchange.publish import find_token, upload; " + (
    "print(upload(Path({folder!r}), 'me/stories', False, 'tinylm abc', find_token()))"
)


def process(hub, folder: Path) -> subprocess.Popen[str]:
    """The upload in a process of its own, as a user's environment has it."""
    inherited = {
        key: value for key, value in os.environ.items() if not key.startswith(("HF_", "HUGGING"))
    }
    environment = {"HF_ENDPOINT": hub.url, "HF_HUB_DISABLE_XET": "1", "HF_TOKEN": TOKEN}
    return subprocess.Popen(
        [sys.executable, "-c", UPLOAD.format(folder=str(folder))],
        cwd=ROOT,
        env=inherited | environment | {"HF_HOME": str(folder.parents[2] / "home")},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


@pytest.mark.parametrize("request_path", [("PUT", "/storage/"), ("POST", "/commit/")])
def test_a_killed_upload_leaves_the_old_revision_and_goes_on(hub, folder, request_path):
    hub.make(REPO, dict(OLD))
    hub.faults = [(*request_path, "stall")]
    killed = process(hub, folder)
    assert hub.stalled.wait(60)
    killed.kill()
    killed.communicate()
    assert hub.repos[REPO] == [OLD]
    hub.released.set()
    second = process(hub, folder)
    out, error = second.communicate()
    assert second.returncode == 0, error
    assert published(hub) == contents(folder)
    assert TOKEN not in out + error


def test_the_token_is_where_huggingface_hub_keeps_it(monkeypatch, tmp_path):
    monkeypatch.delenv("HF_TOKEN", raising=False)
    monkeypatch.delenv("HUGGING_FACE_HUB_TOKEN", raising=False)
    monkeypatch.setattr(constants, "HF_TOKEN_PATH", str(tmp_path / "token"))
    with pytest.raises(InputError, match="HF_TOKEN"):
        find_token()
    (tmp_path / "token").write_text(f"{TOKEN}\n")
    assert find_token() == TOKEN


def test_a_hub_that_never_answers_is_named(hub, folder, monkeypatch):
    """It accepts, and is silent: huggingface_hub itself would wait without end."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        monkeypatch.setattr(constants, "ENDPOINT", f"http://127.0.0.1:{silent.getsockname()[1]}")
        monkeypatch.setattr(publish, "ANSWER_S", 0.3)
        with pytest.raises(CommandFailed, match=r"http://127.0.0.1:\d+"):
            upload(folder, REPO, False, "a", TOKEN)
