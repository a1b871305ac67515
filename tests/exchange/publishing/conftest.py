"""A fake of the hub's HTTP interface on loopback, and a run to publish."""

import base64
import hashlib
import json
import re
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
import yaml

from tinylm.base.config import load_params
from tinylm.presets.write import FOLDER

TOKEN = "hf_" + "Secret" * 6
LARGE = (".safetensors", ".png", ".pdf")


class Hub:
    """Repositories with their commits, large files by SHA-256, all requests, and faults to show.

    requests: (method, path, authorization, body).
    faults: (method, pattern of the path, status or "stall"); each is shown once.
    """

    def __init__(self) -> None:
        self.repos: dict[str, list[dict[str, bytes]]] = {}  # name: the files of each commit
        self.private: set[str] = set()
        self.large: dict[str, bytes] = {}
        self.requests: list[tuple[str, str, str | None, bytes]] = []
        self.faults: list[tuple[str, str, int | str]] = []
        self.stalled = threading.Event()
        self.released = threading.Event()
        self.url = ""

    def head(self, repo: str) -> str:
        """Name of the newest commit."""
        return hashlib.sha1(f"{repo} {len(self.repos[repo])}".encode()).hexdigest()

    def count(self, method: str, pattern: str) -> int:
        """How many requests there were."""
        matching = [
            path for verb, path, *_ in self.requests if verb == method and re.search(pattern, path)
        ]
        return len(matching)

    def make(self, repo: str, files: dict[str, bytes], private: bool = False) -> None:
        """A repository that is there already."""
        self.repos[repo] = [files]
        if private:
            self.private.add(repo)


class _Handler(BaseHTTPRequestHandler):
    hub: Hub

    def log_message(self, *_: Any) -> None:
        pass

    def _answer(self, status: int, value: Any, code: str = "") -> None:
        body = json.dumps(value).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("X-Error-Code", code)
        self.end_headers()
        self.wfile.write(body)

    def _take(self) -> None:
        length = int(self.headers.get("Content-Length") or 0)
        body = self.rfile.read(length)
        self.hub.requests.append((self.command, self.path, self.headers.get("Authorization"), body))
        for fault in self.hub.faults:
            method, pattern, what = fault
            if method == self.command and re.search(pattern, self.path):
                self.hub.faults.remove(fault)
                if what == "stall":
                    self.hub.stalled.set()
                    self.hub.released.wait(60)
                    self.close_connection = True
                    return
                self._answer(int(what), {"error": f"no, {self.headers.get('Authorization')}"})
                return
        path = self.path.partition("?")[0]
        for method, pattern, needs_token, answer in self.ROUTES:
            match = re.fullmatch(pattern, path)
            if method == self.command and match:
                if needs_token and self.headers.get("Authorization") != f"Bearer {TOKEN}":
                    self._answer(401, {"error": "Invalid username or password."})
                    return
                answer(self, body, *match.groups())
                return
        self._answer(404, {"error": "Not found"})

    do_GET = do_HEAD = do_POST = do_PUT = _take

    def _create(self, body: bytes) -> None:
        request = json.loads(body)
        repo = f"{request['organization'] or 'me'}/{request['name']}"
        status = 409
        if repo not in self.hub.repos:
            status = 200
            is_private = request.get("visibility") == "private"
            self.hub.make(repo, {".gitattributes": b"*.safetensors filter=lfs\n"}, is_private)
        self._answer(status, {"url": f"{self.hub.url}/{repo}"})

    def _info(self, _: bytes, repo: str) -> None:
        if repo not in self.hub.repos:
            self._answer(404, {"error": "Repository not found"}, "RepoNotFound")
            return
        rows = [{"rfilename": name} for name in self.hub.repos[repo][-1]]
        info = {"id": repo, "sha": self.hub.head(repo), "private": repo in self.hub.private}
        self._answer(200, info | {"siblings": rows})

    def _validate(self, body: bytes) -> None:
        front = json.loads(body)["content"].split("---\n")[1]
        fine = isinstance(yaml.safe_load(front), dict)
        self._answer(200 if fine else 400, {"errors": [], "warnings": []})

    def _preupload(self, body: bytes, repo: str) -> None:
        present = self.hub.repos[repo][-1]
        rows = []
        for file in json.loads(body)["files"]:
            path = file["path"]
            mode = "lfs" if path.endswith(LARGE) else "regular"
            oid = None
            if path in present and mode == "lfs":
                oid = hashlib.sha256(present[path]).hexdigest()
            elif path in present:
                blob = f"blob {len(present[path])}\0".encode() + present[path]
                oid = hashlib.sha1(blob).hexdigest()
            rows.append({"path": path, "uploadMode": mode, "shouldIgnore": False, "oid": oid})
        self._answer(200, {"files": rows})

    def _batch(self, body: bytes, _: str) -> None:
        rows = []
        for row in json.loads(body)["objects"]:
            action = {"upload": {"href": f"{self.hub.url}/storage/{row['oid']}?signature=abc"}}
            rows.append(row if row["oid"] in self.hub.large else row | {"actions": action})
        self._answer(200, {"transfer": "basic", "objects": rows})

    def _store(self, body: bytes, oid: str) -> None:
        assert hashlib.sha256(body).hexdigest() == oid
        self.hub.large[oid] = body
        self._answer(200, {})

    def _commit(self, body: bytes, repo: str) -> None:
        files = dict(self.hub.repos[repo][-1])
        lines = [json.loads(line) for line in body.splitlines()]
        if lines[0]["value"].get("parentCommit") != self.hub.head(repo):
            self._answer(412, {"error": "A commit has happened since."})
            return
        for line in lines[1:]:
            name = line["value"]["path"]
            if line["key"] == "file":
                files[name] = base64.b64decode(line["value"]["content"])
            elif line["key"] == "lfsFile":
                files[name] = self.hub.large[line["value"]["oid"]]
            else:
                assert line["key"] == "deletedFile"
                del files[name]
        self.hub.repos[repo].append(files)
        url = f"{self.hub.url}/{repo}/commit/x"
        self._answer(200, {"commitUrl": url, "commitOid": self.hub.head(repo)})

    ROUTES = (
        ("POST", "/api/repos/create", True, _create),
        ("GET", r"/api/models/([^/]+/[^/]+)(?:/revision/main)?", True, _info),
        ("POST", "/api/validate-yaml", False, _validate),
        ("POST", r"/api/models/([^/]+/[^/]+)/preupload/main", True, _preupload),
        ("POST", r"/([^/]+/[^/]+)\.git/info/lfs/objects/batch", True, _batch),
        ("PUT", r"/storage/(\w+)", False, _store),
        ("POST", r"/api/models/([^/]+/[^/]+)/commit/main", True, _commit),
    )


@pytest.fixture
def hub(monkeypatch):
    """The fake, where huggingface_hub looks for the hub; without Xet for large files."""
    from huggingface_hub import constants

    held = Hub()
    server = ThreadingHTTPServer(("127.0.0.1", 0), type("Handler", (_Handler,), {"hub": held}))
    server.daemon_threads = True
    held.url = f"http://127.0.0.1:{server.server_address[1]}"
    threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
    monkeypatch.setattr(constants, "ENDPOINT", held.url)
    monkeypatch.setattr(constants, "HF_HUB_DISABLE_XET", True)
    yield held
    held.released.set()
    server.shutdown()
    server.server_close()


@pytest.fixture
def folder(tmp_path) -> Path:
    """A small publication."""
    made = tmp_path / "exports/me/stories"
    contents = {
        "README.md": b"---\ntags: [tinylm]\n---\n\n# stories\n",
        "config.json": b"{}\n",
        "model.safetensors": bytes(range(256)) * 40,
        "pictures/loss.png": b"\x89PNG" + bytes(500),
        "pipeline/params.yaml": b"data: {}\n",
    }
    for name, content in contents.items():
        (made / name).parent.mkdir(parents=True, exist_ok=True)
        (made / name).write_bytes(content)
    return made


@pytest.fixture
def params() -> dict[str, Any]:
    """The storybook's parameters."""
    return load_params(FOLDER / "storybook.yaml")


def _md5(path: Path) -> str:
    """As DVC computes it, of a file or a folder."""
    if path.is_file():
        return hashlib.md5(path.read_bytes()).hexdigest()
    files = sorted(file for file in path.rglob("*") if file.is_file())
    rows = [{"md5": _md5(file), "relpath": file.relative_to(path).as_posix()} for file in files]
    return hashlib.md5(json.dumps(rows, sort_keys=True).encode()).hexdigest() + ".dir"


@pytest.fixture(scope="session")
def write_lock() -> Callable[[Path, dict], None]:
    """Writes dvc.lock of a folder, as after `dvc repro`; {stage: (sections, deps, outs)}."""

    def write(folder: Path, stages: dict[str, tuple[list, list, list]]) -> None:
        params = load_params(folder / "params.yaml")
        entries = {}
        for name, (sections, deps, outs) in stages.items():
            used = {section: params[section] for section in sections if section in params}
            entries[name] = {
                "params": {"params.yaml": used},
                "deps": [{"path": path, "md5": _md5(folder / path)} for path in deps],
                "outs": [{"path": path, "md5": _md5(folder / path)} for path in outs],
            }
        lock = yaml.safe_dump({"schema": "2.0", "stages": entries})
        (folder / "dvc.lock").write_text(lock, encoding="utf-8")

    return write
