"""tinylm publish on a small run and a hub in memory: one commit or none, and never the token."""

import json
from types import SimpleNamespace

import pytest
import torch
import yaml
from huggingface_hub import constants
from huggingface_hub.errors import HfHubHTTPError

from tests.support.folders import contents
from tests.support.lock import write_lock
from tests.support.small import model_settings
from tinylm.base.config import InputError
from tinylm.cli import main
from tinylm.exchange.publish import upload
from tinylm.host.command import CommandFailed
from tinylm.model.checkpoint import save_model
from tinylm.model.transformer import TinyLM
from tinylm.vocab.settings import VocabSettings
from tinylm.vocab.words import build_tokenizer, count_words

TOKEN = "hf_" + "Secret" * 6
REPO = "me/stories"
TEXT = "once upon a time the cat said hello to the dog and the dog sat down near the tree"
RESULTS = {
    "data/figures/train.json": {"parameters": 4711, "tokens": 999},
    "data/figures/evaluate.json": {"perplexity": 5.813, "perplexity_interval": [5.7, 5.9]},
    "data/times/train.json": {"seconds": 3},
    "plots/loss.csv": "step,tokens,series,value\n1,100,train,8\n2,200,train,6\n3,300,train,5\n",
    "report/index.html": "<p>the report",
    "report/report.pdf": "%PDF",
}
STAGES = {
    "train": (
        ["model", "train"],
        [],
        ["models", "data/figures/train.json", "data/times/train.json", "plots/loss.csv"],
    ),
    "evaluate": (["evaluate"], ["models"], ["data/figures/evaluate.json"]),
    "report": (["report", "evaluate"], ["models"], ["report"]),
}
OLD = {"pipeline/params.yaml": b"old", "config.json": b"old", "report/old.html": b"old"}
THEIRS = {"LICENSE": b"MIT", "img/cat.png": b"cat"}


def write(folder, name, value):
    (folder / name).parent.mkdir(parents=True, exist_ok=True)
    text = value if isinstance(value, str) else json.dumps(value)
    (folder / name).write_text(text, encoding="utf-8")


@pytest.fixture
def here(tmp_path, monkeypatch, params):
    """A folder with a small trained model, its results and its report; the working folder."""
    settings = VocabSettings(tokenizer="words")
    tokenizer = build_tokenizer(count_words([TEXT], settings), settings)
    tokenizer.save(tmp_path / "data/vocab/tokenizer.json")
    model = TinyLM(model_settings(heads=2, context=32), torch.randn(len(tokenizer), 20))
    save_model(tmp_path / "models", model, layout="stories")
    params["runtime"]["threads"] = 1
    params["model"] |= {"layers": 2, "context": 32}
    write(tmp_path, "params.yaml", yaml.safe_dump(params))
    for name, value in RESULTS.items():
        write(tmp_path, name, value)
    write_lock(tmp_path, STAGES)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HF_TOKEN", TOKEN)
    return tmp_path


def edit(folder, section, **values):
    params = yaml.safe_load((folder / "params.yaml").read_text("utf-8"))
    params[section] |= values
    write(folder, "params.yaml", yaml.safe_dump(params))


def test_published_is_what_the_dry_run_showed_without_the_hub(here, hub, monkeypatch, capsys):
    monkeypatch.delenv("HF_TOKEN")
    assert main(["publish", REPO, "--dry-run", "--license", "mit"]) == 0
    shown = contents(here / "exports" / REPO)
    out = capsys.readouterr().out
    assert hub.tokens == []
    assert all(name in out for name in shown)
    assert {"README.md", "model.safetensors", "tokenizer.json"} <= set(shown)
    sources = {"tinylm/model.safetensors": "models/model.safetensors"}
    sources |= {f"report/{name}": f"report/{name}" for name in ("index.html", "report.pdf")}
    pipeline = ["params.yaml", "dvc.lock", *(name for name in RESULTS if name.startswith("data/"))]
    sources |= {f"pipeline/{name}": name for name in [*pipeline, "plots/loss.csv"]}
    for name, source in sources.items():
        assert shown[name] == (here / source).read_bytes()
    folders = ("report/", "pipeline/")
    assert {name for name in shown if name.startswith(folders)} <= set(sources)
    assert b"5.70 to 5.90" in shown["README.md"]
    monkeypatch.setenv("HF_TOKEN", TOKEN)
    assert main(["publish", REPO, "--license", "mit"]) == 0
    assert hub.repos[REPO][-1] == hub.repos[REPO][0] | shown
    assert f"https://hub/{REPO}: commit 2" in capsys.readouterr().out


def test_the_token_is_in_no_output_and_no_file(here, hub, capsys, monkeypatch):
    monkeypatch.setenv("TINYLM_DEBUG", "1")
    hub.error = ConnectionError(f"no, {TOKEN}")
    assert main(["publish", REPO, "--private"]) == 1
    hub.error = None
    assert main(["publish", REPO, "--private"]) == 0
    streams = capsys.readouterr()
    assert TOKEN not in streams.out + streams.err
    written = [*contents(here).values(), *hub.repos[REPO][-1].values()]
    assert not [content for content in written if TOKEN.encode() in content]


def test_the_card_is_used_as_typed(here, monkeypatch, capsys):
    """Inside exports/, REPO is a path, so that the lines run before anything is published."""
    assert main(["publish", REPO, "--dry-run"]) == 0
    card = (here / "exports" / REPO / "README.md").read_text("utf-8")
    code = card.partition("```python\n")[2].partition("```")[0]
    monkeypatch.chdir(here / "exports")
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    capsys.readouterr()
    exec(code, {})
    text = capsys.readouterr().out.strip()
    assert text.startswith("once upon a time ")
    assert set(text.split()) <= set(TEXT.split())


def test_without_a_name_or_a_token_nothing_is_written(here, hub, monkeypatch, capsys):
    for repo in ("stories", "a/b/c", "../x", "me/a--b", "me/a.git", "me/x\n"):
        assert main(["publish", repo, "--dry-run"]) == 2
        assert "REPO" in capsys.readouterr().err
    for name in ("HF_TOKEN", "HUGGING_FACE_HUB_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(constants, "HF_TOKEN_PATH", str(here / "token"))
    assert main(["publish", REPO]) == 2
    assert "HF_TOKEN" in capsys.readouterr().err
    assert not (here / "exports").exists()
    write(here, "token", f"{TOKEN}\n")
    assert main(["publish", REPO]) == 0
    assert hub.tokens == [TOKEN]


def test_what_other_parameters_or_hands_made_is_not_published(here, capsys):
    edit(here, "evaluate", new_tokens=7)
    assert main(["publish", REPO, "--dry-run"]) == 0
    assert "left out: evaluate: " in capsys.readouterr().out
    written = contents(here / "exports" / REPO)
    assert b"5.81" not in written["README.md"]
    assert not [name for name in written if "evaluate" in name or name.startswith("report/")]
    write(here, "models/another.json", "[]")
    assert main(["publish", REPO, "--dry-run"]) == 2
    assert "models" in capsys.readouterr().err


def test_data_of_an_unknown_licence(here, hub, capsys):
    edit(here, "data", source="local", path="stories.txt")
    assert main(["publish", REPO]) == 2
    assert "--data-license NAME" in capsys.readouterr().err
    assert hub.repos == {}
    assert main(["publish", REPO, "--data-license", "cc-by-4.0"]) == 0
    assert b"cc-by-4.0" in hub.repos[REPO][-1]["README.md"]


# upload


@pytest.fixture
def folder(tmp_path):
    """A small publication."""
    for name in ("README.md", "config.json", "model.safetensors", "pipeline/params.yaml"):
        write(tmp_path / "new", name, name)
    return tmp_path / "new"


def test_one_commit_replaces_what_was_published_and_leaves_what_is_the_users(hub, folder):
    hub.repos[REPO] = [OLD | THEIRS]
    first = upload(folder, REPO, False, "tinylm abc", TOKEN)
    files = {name: data for name, data in hub.repos[REPO][-1].items() if name != ".gitattributes"}
    assert files == contents(folder) | THEIRS
    assert upload(folder, REPO, False, "tinylm abc", TOKEN) == first
    assert len(hub.repos[REPO]) == 2


def test_a_public_repository_and_somebody_elses_are_refused(hub, folder):
    for files, private in ((OLD, True), ({"config.json": b"theirs"}, False)):
        hub.repos[REPO] = [files]
        with pytest.raises(InputError):
            upload(folder, REPO, private, "tinylm abc", TOKEN)
        assert hub.repos[REPO] == [files]


@pytest.mark.parametrize(("status", "kind"), [(403, InputError), (412, CommandFailed)])
def test_a_refusal_is_one_line_without_the_token(hub, folder, status, kind):
    response = SimpleNamespace(status_code=status, headers={}, request=None)
    hub.error = HfHubHTTPError(f"no,\n{TOKEN}", response=response)
    with pytest.raises(kind, match=r"^[^\n]*$") as raised:
        upload(folder, REPO, False, "tinylm abc", TOKEN)
    assert TOKEN not in str(raised.value)
