"""The page's model in headless Firefox, by its remote protocol (Marionette). Skipped where Firefox is not installed.

An engine's optimising compiler is part of what computes the model: it starts after some steps, and it can be wrong.
"""

import json
import shutil
import socket
import subprocess
import time

import pytest
import torch

from tests.lab.page_engine import Engine
from tests.lab.test_engine import RULE, VOCAB
from tests.support.small import random_model
from tinylm.decoding.settings import DecodeSettings
from tinylm.lab.build import build_page
from tinylm.lab.facts import facts
from tinylm.vocab.words import Splitter, WordTokenizer

BROWSER = shutil.which("firefox-esr") or shutil.which("firefox")
IDS = [3, 9, 4, 17, 8]  # five: with seven the compiler chose otherwise and did no harm
ROUNDS = """
const cache = lab.model.newCache();
const rounds = [];
for (let round = 0; round < 300; round++) {
  cache.used = 0;
  const read = [];
  for (const id of %s) {
    const seen = { maps: [], states: [] };
    const hidden = lab.model.step(cache, id, seen);
    read.push({ maps: seen.maps.map((heads) => heads.map((row) => Array.from(row))), hidden: Array.from(hidden) });
  }
  rounds.push(JSON.stringify(read));
}
const last = JSON.parse(rounds[0]).at(-1);
return [Array.from(lab.model.logits(last.hidden)), rounds.filter((read) => read !== rounds[0]).length];
"""


class Firefox:
    """One session of Marionette: messages are arrays in JSON behind their length."""

    def __init__(self, port: int) -> None:
        for _ in range(300):
            try:
                self.socket = socket.create_connection(("127.0.0.1", port), 60)
                break
            except OSError:
                time.sleep(0.1)
        self._read()
        self.ask("NewSession", strictFileInteractability=False)

    def _read(self):
        length = b""
        while (byte := self.socket.recv(1)) != b":":
            length += byte
        data = b""
        while len(data) < int(length):
            data += self.socket.recv(int(length) - len(data))
        return json.loads(data)

    def ask(self, command: str, **arguments):
        message = json.dumps([0, 1, f"WebDriver:{command}", arguments]).encode()
        self.socket.sendall(f"{len(message)}:".encode() + message)
        _, _, error, answer = self._read()
        assert error is None, error
        return answer.get("value", answer)

    def run(self, script: str):
        return self.ask("ExecuteScript", script=script, args=[], sandbox=None)


@pytest.fixture
def firefox(tmp_path):
    profile = tmp_path / "profile"
    profile.mkdir()
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    (profile / "user.js").write_text(
        f'user_pref("marionette.port", {port});\nuser_pref("app.update.enabled", false);\n'
    )
    command = [BROWSER, "--headless", "--marionette", "--no-remote", "--profile", str(profile)]
    started = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        yield Firefox(port)
    finally:
        started.terminate()
        started.wait(30)


@pytest.mark.skipif(BROWSER is None, reason="no firefox")
def test_the_model_computes_the_same_once_it_is_compiled(firefox, tmp_path):
    torch.manual_seed(1)
    model = random_model(VOCAB, 128, heads=4, layers=4, context=192)
    tokenizer = WordTokenizer(RULE["tokens"][4:], Splitter(lower_case=True, punctuation="drop"))
    page = build_page(model, RULE, facts(model, tokenizer, DecodeSettings(), None, "t"))
    (tmp_path / "lab.html").write_bytes(page)
    firefox.ask("Navigate", url=(tmp_path / "lab.html").as_uri())
    for _ in range(200):
        if not firefox.run("return document.getElementById('lab').hidden"):
            break
        time.sleep(0.05)
    logits, others = firefox.run(ROUNDS % json.dumps(IDS))
    assert logits == pytest.approx(Engine(page).call("logits", IDS), rel=1e-4, abs=1e-5)
    assert others == 0
