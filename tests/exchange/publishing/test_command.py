"""tinylm publish as it is typed, on a small run and the fake of the hub."""

import json

import pytest
import torch
import yaml
from huggingface_hub import constants

from tests.support.small import model_settings
from tinylm.cli import main
from tinylm.model.checkpoint import save_model
from tinylm.model.transformer import TinyLM
from tinylm.vocab.settings import VocabSettings
from tinylm.vocab.words import build_tokenizer, count_words

TOKEN = "hf_" + "Secret" * 6
REPO = "me/stories"
TEXT = "once upon a time the cat said hello to the dog and the dog sat down near the tree"
STAGES = {
    "train": (["model", "train"], [], ["models", "data/figures/train.json", "plots/loss.csv"]),
    "evaluate": (["evaluate"], ["models"], ["data/figures/evaluate.json"]),
    "report": (["report", "evaluate"], ["models"], ["report"]),
}


def write(folder, name, value):
    (folder / name).parent.mkdir(parents=True, exist_ok=True)
    text = value if isinstance(value, str) else json.dumps(value)
    (folder / name).write_text(text, encoding="utf-8")


@pytest.fixture
def here(tmp_path, monkeypatch, params, write_lock):
    """A folder with a small trained model, its results and its report; the working folder."""
    settings = VocabSettings(tokenizer="words")
    tokenizer = build_tokenizer(count_words([TEXT], settings), settings)
    tokenizer.save(tmp_path / "data/vocab/tokenizer.json")
    model = TinyLM(model_settings(heads=2, context=32), torch.randn(len(tokenizer), 20))
    save_model(tmp_path / "models", model, layout="stories")
    params["runtime"]["threads"] = 1
    params["model"] |= {"layers": 2, "context": 32}
    evaluate = {"perplexity": 5.813, "perplexity_interval": [5.7, 5.9]}
    loss = "step,tokens,series,value\n1,100,train,8\n2,200,train,6\n3,300,train,5\n"
    write(tmp_path, "params.yaml", yaml.safe_dump(params))
    write(tmp_path, "data/figures/train.json", {"parameters": 4711, "tokens": 999})
    write(tmp_path, "data/figures/evaluate.json", evaluate)
    write(tmp_path, "plots/loss.csv", loss)
    write(tmp_path, "report/index.html", "<p>the report")
    write(tmp_path, "report/report.pdf", "%PDF")
    write_lock(tmp_path, STAGES)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HF_TOKEN", TOKEN)
    return tmp_path


def edit(folder, section, **values):
    params = yaml.safe_load((folder / "params.yaml").read_text("utf-8"))
    params[section] |= values
    write(folder, "params.yaml", yaml.safe_dump(params))


def files(folder):
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file()
    }


def test_published_is_what_the_dry_run_showed_without_the_hub(here, hub, monkeypatch, capsys):
    monkeypatch.delenv("HF_TOKEN")
    assert main(["publish", REPO, "--dry-run", "--license", "mit"]) == 0
    shown = files(here / "exports" / REPO)
    out = capsys.readouterr().out
    assert hub.tokens == []
    assert all(name in out for name in shown)
    assert {"README.md", "model.safetensors", "tokenizer.json", "report/index.html"} <= set(shown)
    assert shown["tinylm/model.safetensors"] == (here / "models/model.safetensors").read_bytes()
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
    written = [*files(here).values(), *hub.repos[REPO][-1].values()]
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


def test_without_a_token_nothing_is_written(here, hub, monkeypatch, capsys):
    monkeypatch.delenv("HF_TOKEN")
    monkeypatch.setattr(constants, "HF_TOKEN_PATH", str(here / "no-token"))
    assert main(["publish", REPO]) == 2
    assert "HF_TOKEN" in capsys.readouterr().err
    assert not (here / "exports").exists()


def test_weights_of_other_parameters_or_other_bytes_are_not_published(here, capsys):
    (here / "models/another.json").write_text("[]")
    assert main(["publish", REPO, "--dry-run"]) == 2
    assert "models" in capsys.readouterr().err
    (here / "models/another.json").unlink()
    edit(here, "train", lr=0.5)
    assert main(["publish", REPO, "--dry-run"]) == 2
    assert "section train" in capsys.readouterr().err
    assert not (here / "exports").exists()


def test_results_of_other_parameters_are_left_out(here, capsys):
    edit(here, "evaluate", new_tokens=7)
    assert main(["publish", REPO, "--dry-run"]) == 0
    out = capsys.readouterr().out
    assert "left out: evaluate: " in out
    assert "left out: report: " in out
    written = files(here / "exports" / REPO)
    assert b"5.81" not in written["README.md"]
    assert not [name for name in written if "evaluate" in name or name.startswith("report/")]


def test_data_of_an_unknown_licence(here, hub, capsys):
    edit(here, "data", source="local", path="stories.txt")
    assert main(["publish", REPO]) == 2
    assert "--data-license NAME" in capsys.readouterr().err
    assert hub.repos == {}
    assert main(["publish", REPO, "--dry-run"]) == 0
    assert main(["publish", REPO, "--data-license", "cc-by-4.0"]) == 0
    assert b"cc-by-4.0" in hub.repos[REPO][-1]["README.md"]


def test_a_name_without_an_owner_is_refused_in_one_line(here, capsys):
    assert main(["publish", "stories", "--dry-run"]) == 2
    assert len(capsys.readouterr().err.splitlines()) == 1
