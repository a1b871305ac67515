"""Nothing is sent to DVC Studio, whatever its environment variables say; the server here would take it."""

import http.server
import threading
from collections.abc import Iterator

import pytest


class Studio(http.server.ThreadingHTTPServer):
    """Notes the path of each request that it gets."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.got: list[str] = []

    @property
    def environment(self) -> dict[str, str]:
        return {
            "DVC_STUDIO_TOKEN": "isat_none",
            "DVC_STUDIO_URL": f"http://127.0.0.1:{self.server_port}",
        }


class Handler(http.server.BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        assert isinstance(self.server, Studio)
        self.server.got.append(self.path)
        self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b"{}")

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def studio() -> Iterator[Studio]:
    with Studio() as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server
        server.shutdown()


def test_an_experiment_is_told_to_nobody(clone, studio):
    clone.run("git", "remote", "add", "origin", "git@localhost:me/it.git")
    words = ("exp", "run", "--quiet", "download", "-n")
    clone.dvc(*words, "offline", **studio.environment)
    assert studio.got == []
    clone.dvc("config", "--local", "studio.offline", "false")  # as somebody says who wants it
    clone.dvc(*words, "online", **studio.environment)
    assert set(studio.got) == {"/api/live"}
