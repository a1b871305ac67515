"""Uploading against a stand-in of the hub on loopback: one commit or none, whatever goes wrong in between."""

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from huggingface_hub import constants, logging

from tinylm.base.config import InputError
from tinylm.exchange import hub as hub_module
from tinylm.exchange.hub import endpoint, find_token, upload
from tinylm.host.command import CommandFailed

ROOT = Path(__file__).parents[3]
TOKEN = "hf_" + "Secret" * 6
REPO = "me/stories"


def contents(folder: Path) -> dict[str, bytes]:
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file()
    }


def published(hub, number: int = -1) -> dict[str, bytes]:
    return {
        name: held for name, held in hub.repos[REPO][number].items() if name != ".gitattributes"
    }


def test_all_files_in_one_commit(hub, folder):
    done = upload(folder, REPO, False, "tinylm abc", TOKEN)
    assert published(hub) == contents(folder)
    assert len(hub.repos[REPO]) == 2  # the hub's own first one, and ours
    assert done.changed
    assert (done.url, done.commit) == (f"{hub.url}/{REPO}", hub.head(REPO))
    assert hub.asked("POST", "/commit/") == 1
    assert hub.asked("PUT", "/storage/") == 2
    assert REPO not in hub.private


def test_again_without_a_change_makes_no_commit(hub, folder):
    first = upload(folder, REPO, False, "tinylm abc", TOKEN)
    again = upload(folder, REPO, False, "tinylm abc", TOKEN)
    assert not again.changed
    assert again.commit == first.commit
    assert len(hub.repos[REPO]) == 2


def test_what_is_no_longer_published_goes_and_what_is_the_users_stays(hub, folder):
    old = {"modeling_tinylm.py": b"old", "report/old.html": b"old"}
    theirs = {"LICENSE": b"MIT", "notes.txt": b"mine", "img/cat.png": b"cat"}
    hub.make(REPO, {"pipeline/params.yaml": b"old"} | old | theirs)
    upload(folder, REPO, False, "tinylm abc", TOKEN)
    assert published(hub) == contents(folder) | theirs


def test_private_is_private_from_the_start(hub, folder):
    upload(folder, REPO, True, "tinylm abc", TOKEN)
    assert REPO in hub.private


def test_private_is_refused_where_a_public_repository_stands(hub, folder):
    hub.make(REPO, {})
    with pytest.raises(InputError, match="is public"):
        upload(folder, REPO, True, "tinylm abc", TOKEN)
    assert len(hub.repos[REPO]) == 1


def test_somebody_elses_model_is_not_overwritten(hub, folder):
    hub.make(
        REPO, {".gitattributes": b"", "config.json": b"theirs", "pytorch_model.bin": b"theirs"}
    )
    with pytest.raises(InputError, match=r"config\.json, pytorch_model\.bin"):
        upload(folder, REPO, False, "tinylm abc", TOKEN)
    assert hub.asked("PUT", "") == hub.asked("POST", "/commit/") == 0


def test_a_wrong_token(hub, folder):
    with pytest.raises(InputError, match="401") as raised:
        upload(folder, REPO, False, "tinylm abc", "hf_wrong")
    assert "hf_wrong" not in str(raised.value)
    assert hub.repos == {}


@pytest.mark.parametrize(
    ("method", "path", "status", "kind", "word"),
    [
        ("POST", "/commit/main", 403, InputError, "does not let this token"),
        ("POST", "/commit/main", 412, CommandFailed, "changed by somebody else"),
        ("POST", "/commit/main", 500, CommandFailed, "answered 500"),
        ("POST", "repos/create", 500, CommandFailed, "answered 500"),
        ("PUT", "/storage/", 403, InputError, "403"),
        ("PUT", "/storage/", 400, CommandFailed, "answered 400"),
    ],
)
def test_a_refusal_leaves_the_old_revision(hub, folder, method, path, status, kind, word):
    old = {"pipeline/params.yaml": b"old", "config.json": b"old"}
    hub.make(REPO, dict(old))
    hub.faults = [(method, path, status)]
    with pytest.raises(kind, match=word) as raised:
        upload(folder, REPO, False, "tinylm abc", TOKEN)
    assert TOKEN not in str(raised.value)  # the stand-in says it in its answer
    assert hub.repos[REPO] == [old]
    upload(folder, REPO, False, "tinylm abc", TOKEN)
    assert published(hub) == contents(folder)
    assert len(hub.repos[REPO]) == 2


@pytest.mark.parametrize(
    ("method", "path"), [("POST", "/preupload/"), ("PUT", "/storage/"), ("POST", "/batch")]
)
def test_a_server_that_fails_for_a_moment_is_asked_again(
    hub, folder, monkeypatch, capfd, method, path
):
    monkeypatch.setattr("time.sleep", lambda _: None)
    logging.set_verbosity_warning()  # as it is before anybody says otherwise
    hub.faults = [(method, path, 500), (method, path, 503)]
    upload(folder, REPO, False, "tinylm abc", TOKEN)
    assert hub.faults == []
    assert published(hub) == contents(folder)
    assert (
        "signature=" not in capfd.readouterr().err
    )  # whoever knows the address of a file may write it


def test_no_server(hub, folder, monkeypatch):
    from huggingface_hub import constants

    monkeypatch.setattr(constants, "ENDPOINT", "http://127.0.0.1:9")
    with pytest.raises(CommandFailed, match=r"http://127\.0\.0\.1:9: .*as it was"):
        upload(folder, REPO, False, "tinylm abc", TOKEN)


UPLOAD = "from pathlib import Path; from tinylm.exchange.hub import find_token, upload; " + (
    "print(upload(Path({folder!r}), 'me/stories', False, 'tinylm abc', find_token()))"
)


def process(hub, folder: Path, **more: str) -> subprocess.Popen[str]:
    """The upload in a process of its own, as a user's environment has it."""
    inherited = {
        key: value for key, value in os.environ.items() if not key.startswith(("HF_", "HUGGING"))
    }
    environment = {
        "HF_ENDPOINT": hub.url,
        "HF_HOME": str(folder.parents[2] / "home"),
        "HF_HUB_DISABLE_XET": "1",
    }
    return subprocess.Popen(
        [sys.executable, "-c", UPLOAD.format(folder=str(folder))],
        cwd=ROOT,
        env=inherited | environment | {"HF_TOKEN": TOKEN} | more,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


@pytest.mark.parametrize(
    ("method", "path", "sent_again"), [("PUT", "/storage/", 2), ("POST", "/commit/", 0)]
)
def test_a_killed_upload_leaves_the_old_revision_and_goes_on(hub, folder, method, path, sent_again):
    old = {"pipeline/params.yaml": b"old", "config.json": b"old"}
    hub.make(REPO, dict(old))
    hub.faults = [(method, path, "stall")]
    killed = process(hub, folder)
    assert hub.stalled.wait(60)
    killed.kill()
    killed.communicate()
    assert hub.repos[REPO] == [old]
    hub.released.set()
    before = hub.asked("PUT", "/storage/")
    hub.large = {oid: held for oid, held in hub.large.items() if method == "POST"}
    second = process(hub, folder)
    out, error = second.communicate()
    assert second.returncode == 0, error
    assert published(hub) == contents(folder)
    assert len(hub.repos[REPO]) == 2
    assert hub.asked("PUT", "/storage/") - before == sent_again
    assert TOKEN not in out + error
    assert [
        path
        for path in folder.parents[2].rglob("*")
        if path.is_file() and TOKEN.encode() in path.read_bytes()
    ] == []


def test_the_token_goes_to_the_hub_alone_and_only_as_authorization(hub, folder):
    upload(folder, REPO, False, "tinylm abc", TOKEN)
    assert len(hub.requests) > 5
    for method, path, authorization, body in hub.requests:
        assert TOKEN not in path
        assert TOKEN.encode() not in body
        assert authorization == (None if method == "PUT" else f"Bearer {TOKEN}")


def test_the_token_is_where_huggingface_hub_keeps_it(monkeypatch, tmp_path):
    from huggingface_hub import constants

    monkeypatch.delenv("HF_TOKEN", raising=False)
    monkeypatch.delenv("HUGGING_FACE_HUB_TOKEN", raising=False)
    monkeypatch.setattr(constants, "HF_TOKEN_PATH", str(tmp_path / "token"))
    with pytest.raises(InputError, match="hf auth login"):
        find_token()
    (tmp_path / "token").write_text(f"{TOKEN}\n")
    assert find_token() == TOKEN
    monkeypatch.setenv("HF_TOKEN", "hf_other")
    assert find_token() == "hf_other"


@pytest.mark.parametrize(
    ("address", "shown"),
    [
        ("https://hub.example.org/", "https://hub.example.org"),
        ("http://user:secret@[::1]:8000/hub", "http://[::1]:8000/hub"),
    ],
)
def test_the_address_of_the_hub_is_shown_without_a_password(monkeypatch, address, shown):
    monkeypatch.setattr("huggingface_hub.constants.ENDPOINT", address)
    assert endpoint() == shown


def test_a_hub_that_never_answers_is_named(hub, folder, monkeypatch):
    """It accepts, and is silent: huggingface_hub itself would wait without end."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        monkeypatch.setattr(constants, "ENDPOINT", f"http://127.0.0.1:{silent.getsockname()[1]}")
        monkeypatch.setattr(hub_module, "ANSWER_S", 0.3)
        with pytest.raises(CommandFailed, match=r"http://127.0.0.1:\d+: .* is as it was"):
            upload(folder, REPO, False, "a", TOKEN)
