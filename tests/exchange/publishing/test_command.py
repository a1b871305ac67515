"""tinylm publish as it is typed, on a small run and the stand-in of the hub."""

import hashlib
import json
import subprocess

import pytest
import torch
import yaml

from tests.support.small import model_settings
from tinylm.cli import main
from tinylm.model.checkpoint import save_model
from tinylm.model.transformer import TinyLM
from tinylm.vocab.settings import VocabSettings
from tinylm.vocab.words import build_tokenizer, count_words

TOKEN = "hf_" + "Secret" * 6
REPO = "me/stories"
TEXT = "once upon a time the cat said hello to the dog and the dog sat down near the tree"


def _write(folder, name, value):
    (folder / name).parent.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text(
        value if isinstance(value, str) else json.dumps(value), encoding="utf-8"
    )


def _md5(path):
    if path.is_file():
        return hashlib.md5(path.read_bytes()).hexdigest()
    rows = [{"md5": _md5(file), "relpath": file.name} for file in sorted(path.iterdir())]
    return hashlib.md5(json.dumps(rows, sort_keys=True).encode()).hexdigest() + ".dir"


def _lock(folder, params):
    """dvc.lock, as after `dvc repro`."""
    stages = {
        "train": (["model", "train"], [], ["models", "data/figures/train.json", "plots/loss.csv"]),
        "evaluate": (["evaluate"], ["models"], ["data/figures/evaluate.json"]),
        "report": (["report", "evaluate"], ["models"], ["report"]),
    }
    held = {
        name: {
            "params": {"params.yaml": {section: params[section] for section in sections}},
            "deps": [{"path": path, "md5": _md5(folder / path)} for path in deps],
            "outs": [{"path": path, "md5": _md5(folder / path)} for path in outs],
        }
        for name, (sections, deps, outs) in stages.items()
    }
    _write(folder, "dvc.lock", yaml.safe_dump({"schema": "2.0", "stages": held}))


@pytest.fixture
def here(tmp_path, monkeypatch, params):
    """A folder with a small trained model, its figures and its report; the working folder."""
    settings = VocabSettings(tokenizer="words")
    tokenizer = build_tokenizer(count_words([TEXT], settings), settings)
    tokenizer.save(tmp_path / "data/vocab/tokenizer.json")
    model = TinyLM(model_settings(heads=2, context=32), torch.randn(len(tokenizer), 20))
    save_model(tmp_path / "models", model, layout="stories")
    params["runtime"]["threads"] = 1
    params["model"] |= {"layers": 2, "context": 32}
    _write(tmp_path, "params.yaml", yaml.safe_dump(params))
    _write(tmp_path, "data/figures/train.json", {"parameters": 4711, "tokens": 999})
    _write(
        tmp_path,
        "data/figures/evaluate.json",
        {"perplexity": 5.813, "perplexity_interval": [5.7, 5.9]},
    )
    _write(
        tmp_path,
        "plots/loss.csv",
        "step,tokens,series,value\n1,100,train,8\n2,200,train,6\n3,300,train,5\n",
    )
    _write(tmp_path, "report/index.html", "<p>the report")
    _write(tmp_path, "report/report.pdf", "%PDF")
    _lock(tmp_path, params)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HF_TOKEN", TOKEN)
    return tmp_path


def edit(folder, section, **values):
    params = yaml.safe_load((folder / "params.yaml").read_text("utf-8"))
    params[section] |= values
    _write(folder, "params.yaml", yaml.safe_dump(params))


def files(folder):
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file()
    }


def test_a_dry_run_writes_the_folder_and_asks_nobody(here, hub, monkeypatch, capsys):
    monkeypatch.delenv("HF_TOKEN")
    assert main(["publish", REPO, "--dry-run", "--license", "mit"]) == 0
    out = capsys.readouterr().out
    made = files(here / "exports" / REPO)
    assert {
        "README.md",
        "model.safetensors",
        "tokenizer.json",
        "report/index.html",
        "tinylm/sha256.json",
    } <= set(made)
    assert made["tinylm/model.safetensors"] == (here / "models/model.safetensors").read_bytes()
    assert made["report/report.pdf"] == b"%PDF"
    assert b"5.70 to 5.90" in made["README.md"]
    assert f"  {len(made)} files, bytes" in " ".join(out.split("\n"))
    assert all(name in out for name in made)
    assert f"would be one commit of {hub.url}/{REPO}, public if it is new" in out
    assert hub.requests == []


def test_published_is_what_the_dry_run_showed(here, hub, capsys):
    assert main(["publish", REPO, "--dry-run"]) == 0
    shown = files(here / "exports" / REPO)
    assert main(["publish", REPO]) == 0
    assert hub.repos[REPO][-1] == hub.repos[REPO][0] | shown
    assert f"{hub.url}/{REPO}: commit {hub.head(REPO)}" in capsys.readouterr().out
    assert main(["publish", REPO]) == 0
    assert "holds all of it already" in capsys.readouterr().out
    assert len(hub.repos[REPO]) == 2


@pytest.mark.parametrize(("fault", "code"), [(None, 0), (500, 1), (401, 2)])
def test_the_token_is_in_no_output_and_no_file(here, hub, capsys, monkeypatch, fault, code):
    monkeypatch.setenv("TINYLM_DEBUG", "1")
    hub.faults = [("POST", "/commit/", fault)] if fault else []
    assert main(["publish", REPO, "--private"]) == code
    streams = capsys.readouterr()
    assert (streams.err == "") == (code == 0)
    assert TOKEN not in streams.out + streams.err
    assert [name for name, held in files(here).items() if TOKEN.encode() in held] == []
    assert [name for name, held in hub.repos[REPO][-1].items() if TOKEN.encode() in held] == []


def test_the_card_is_used_as_typed(here, hub, monkeypatch, capsys):
    """Inside exports/, REPO is a path, so that the lines run before anything is published."""
    pytest.importorskip("transformers")
    assert main(["publish", REPO, "--dry-run"]) == 0
    card = (here / "exports" / REPO / "README.md").read_text("utf-8")
    code = card.partition("```python\n")[2].partition("```")[0]
    monkeypatch.chdir(here / "exports")
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    capsys.readouterr()
    torch.manual_seed(1)
    exec(code, {})
    text = capsys.readouterr().out.strip()
    assert text.startswith("once upon a time ")
    assert set(text.split()) <= set(TEXT.split())


def test_without_a_token_nothing_is_written(here, hub, monkeypatch, capsys):
    from huggingface_hub import constants

    monkeypatch.delenv("HF_TOKEN")
    monkeypatch.setattr(constants, "HF_TOKEN_PATH", str(here / "no-token"))
    assert main(["publish", REPO]) == 2
    assert "hf auth login" in capsys.readouterr().err
    assert not (here / "exports").exists()


def test_weights_of_other_parameters_are_not_published(here, hub, capsys):
    edit(here, "train", lr=0.5)
    assert main(["publish", REPO, "--dry-run"]) == 2
    error = capsys.readouterr().err
    assert "section train of params.yaml was another" in error
    assert "run dvc repro train" in error
    assert not (here / "exports").exists()


def test_weights_that_training_did_not_write_are_not_published(here, hub, capsys):
    (here / "models/samples.json").write_text("[]")
    assert main(["publish", REPO, "--dry-run"]) == 2
    assert "models is not what stage train wrote" in capsys.readouterr().err


def test_figures_of_other_parameters_are_left_out(here, hub, capsys):
    edit(here, "evaluate", new_tokens=7)
    assert main(["publish", REPO, "--dry-run"]) == 0
    out = capsys.readouterr().out
    assert "left out: evaluate: section evaluate of params.yaml was another" in out
    assert "left out: report: " in out
    made = files(here / "exports" / REPO)
    assert b"5.81" not in made["README.md"]
    assert not [name for name in made if "evaluate" in name or name.startswith("report/")]


def test_data_of_an_unknown_licence(here, hub, capsys):
    edit(here, "data", source="local", path="stories.txt")
    assert main(["publish", REPO]) == 2
    assert "--data-license NAME" in capsys.readouterr().err
    assert hub.requests == []
    assert main(["publish", REPO, "--dry-run"]) == 0
    assert "licence of the data is not known" in capsys.readouterr().out
    assert main(["publish", REPO, "--data-license", "cc-by-4.0"]) == 0
    assert b"cc-by-4.0 (whoever published this model)" in hub.repos[REPO][-1]["README.md"]


@pytest.mark.parametrize(
    "words", [["stories"], [REPO, "--license", "a: b"], [REPO, "--data-license", "\n"]]
)
def test_what_cannot_be_is_refused_in_one_line(here, hub, capsys, words):
    assert main(["publish", *words, "--dry-run"]) == 2
    error = capsys.readouterr().err
    assert error.startswith("error: ")
    assert len(error.splitlines()) == 1


def test_the_commit_that_made_it(here, hub, monkeypatch):
    for key in ("AUTHOR", "COMMITTER"):
        monkeypatch.setenv(f"GIT_{key}_NAME", "test")
        monkeypatch.setenv(f"GIT_{key}_EMAIL", "test@localhost")
    for words in (
        ["init", "-q"],
        ["add", "params.yaml", "dvc.lock"],
        ["commit", "-q", "-m", "a run"],
    ):
        subprocess.run(["git", *words], cwd=here, check=True)
    head = subprocess.run(
        ["git", "rev-parse", "HEAD"], cwd=here, check=True, capture_output=True, text=True
    ).stdout
    assert main(["publish", REPO, "--dry-run"]) == 0
    card = (here / "exports" / REPO / "README.md").read_text("utf-8")
    assert f"“git checkout {head[:12]}”" in card
    edit(here, "runtime", log_every_s=9.0)
    assert main(["publish", REPO, "--dry-run"]) == 0
    card = (here / "exports" / REPO / "README.md").read_text("utf-8")
    assert "Not committed: params.yaml;" in card
    assert "git checkout" not in card
