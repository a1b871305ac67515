"""tinylm handin as it is typed, in a small whole run under git: what the zip holds, and what is refused in one line."""

import hashlib
import json
import shutil
import subprocess
import zipfile

import pytest
import yaml

from tinylm.base import paths
from tinylm.base.config import InputError
from tinylm.cli import main
from tinylm.report import pictures
from tinylm.report.sources import FILES, STAGES
from tinylm.report.wording import number

ENTRY = "2026-12345"
CODE = {
    "README.md": "# mine\n",
    "stages/train.py": "print(1)\n",
    "tinylm/model/ops.py": "x = 1\n",
    "tinylm/a.py": "",
}


def _write(folder, name, text):
    (folder / name).parent.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text(text, encoding="utf-8")


def _md5(path):
    if path.is_file():
        return hashlib.md5(path.read_bytes()).hexdigest()
    files = sorted(file for file in path.rglob("*") if file.is_file())
    rows = [{"md5": _md5(file), "relpath": file.relative_to(path).as_posix()} for file in files]
    return hashlib.md5(json.dumps(rows, sort_keys=True).encode()).hexdigest() + ".dir"


def _lock(folder):
    """dvc.lock, as after `dvc repro` of every stage."""
    params = yaml.safe_load((folder / "params.yaml").read_text("utf-8"))
    held = {}
    for stage in STAGES:
        outs = {path for path, maker in FILES.values() if maker == stage and "_time" not in path}
        deps = ["stages/train.py", "tinylm/model"] if stage == "train" else []
        outs = (
            {"models", *(path for path in outs if not path.startswith("models"))}
            if stage == "train"
            else outs
        )
        held[stage] = {
            "params": {"params.yaml": {stage: params[stage]} if stage in params else {}},
            "deps": [{"path": path, "md5": _md5(folder / path)} for path in deps],
            "outs": [{"path": path, "md5": _md5(folder / path)} for path in sorted(outs)],
        }
    held["report"] = {
        "params": {"params.yaml": {"report": params["report"]}},
        "deps": [{"path": "data/figures", "md5": _md5(folder / "data/figures")}],
        "outs": [{"path": "report", "md5": _md5(folder / "report")}],
    }
    _write(folder, "dvc.lock", yaml.safe_dump({"schema": "2.0", "stages": held}))


@pytest.fixture(scope="module")
def made(finished_run, tmp_path_factory):
    """A whole run with its report, its code under git."""
    folder = tmp_path_factory.mktemp("made") / "run"
    links = shutil.ignore_patterns("stages", "tinylm", "docs", "runs")
    shutil.copytree(finished_run, folder, ignore=links)
    ignored = {".gitignore": "/data/\n/models/\n/report/\n/exports/\n/plots/pictures/\n/metrics/\n"}
    for name, text in (CODE | ignored | {paths.OWN_TEXTS: "[]"}).items():
        _write(folder, name, text)
    _lock(folder)
    for words in (["init", "-q"], ["add", "-A"]):
        subprocess.run(["git", *words], cwd=folder, check=True)
    return folder


@pytest.fixture
def here(made, tmp_path, monkeypatch):
    """A copy of it; the working folder. The card shows one picture: no others are drawn."""
    monkeypatch.chdir(shutil.copytree(made, tmp_path / "run"))
    monkeypatch.setattr(pictures, "PICTURES", {"loss_tokens": pictures.PICTURES["loss_tokens"]})
    return tmp_path / "run"


def _report(folder, **values):
    """Section report edited, and the report made again."""
    params = yaml.safe_load((folder / "params.yaml").read_text("utf-8"))
    params["report"] |= values
    _write(folder, "params.yaml", yaml.safe_dump(params))
    _lock(folder)


def _zip(folder, entry=ENTRY):
    with zipfile.ZipFile(folder / f"exports/{entry}.zip") as archive:
        assert archive.testzip() is None
        return {name.removeprefix(f"{entry}/"): archive.read(name) for name in archive.namelist()}


def test_the_zip_holds_all_that_is_asked_for(here, capsys):
    assert main(["handin", ENTRY]) == 0
    held = _zip(here)
    assert f"exports/{ENTRY}.zip: {len(held)} files" in capsys.readouterr().out
    for name, text in CODE.items():
        assert held[f"code/{name}"] == text.encode()
    copies = {
        "report/report.pdf": "report/report.pdf",
        "plots/loss_tokens.png": "plots/pictures/loss_tokens.png", "plots/loss.csv": "plots/loss.csv",
        "samples/samples.csv": "data/evaluate/samples.csv", "samples/stories.csv": "data/evaluate/training_samples.csv",
        "samples/own_texts.json": paths.OWN_TEXTS, "settings.yaml": "params.yaml", "model/pipeline/dvc.lock": "dvc.lock"
    }  # fmt: skip
    for name, source in copies.items():
        assert held[name] == (here / source).read_bytes(), name
    assert not [
        name for name in held if name.endswith(".safetensors") or name.startswith("code/data")
    ]
    card, readme = (held[name].decode() for name in ("model/README.md", "README.md"))
    perplexity = json.loads((here / "data/figures/evaluate.json").read_text())["perplexity"]
    assert number(perplexity) in card
    assert "byte by byte" not in card  # what it says of weights that are not there
    assert "from_pretrained" not in card
    assert readme.startswith(
        f"# {ENTRY}\n\nPerplexity on the evaluation split: {number(perplexity)}\n"
    )
    assert "| `code/` |" in readme
    assert "the weights" not in readme


def test_equal_files_give_equal_bytes(here):
    assert main(["handin", ENTRY]) == 0
    first = (here / f"exports/{ENTRY}.zip").read_bytes()
    for path in here.rglob("*.py"):
        path.touch()
    assert main(["handin", ENTRY]) == 0
    assert (here / f"exports/{ENTRY}.zip").read_bytes() == first


def test_weights_are_there_on_request(here):
    assert main(["handin", ENTRY, "--weights"]) == 0
    held = _zip(here)
    assert (
        held["model/tinylm/model.safetensors"] == (here / "models/model.safetensors").read_bytes()
    )
    assert b"byte by byte" in held["model/README.md"]
    assert b'tinylm generate "once upon a time" --models ../model' in held["README.md"]


def test_the_lab_is_there_with_the_weights_that_it_holds_and_is_linked_to_only_then(here):
    _write(here, "report/lab.html", "the model")
    page = (here / "report/index.html").read_text("utf-8")
    assert '<a href="lab.html">' in page
    _lock(here)
    assert main(["handin", ENTRY]) == 0
    held = _zip(here)
    assert "report/lab.html" not in held
    assert b"lab.html" not in held["report/index.html"]
    assert main(["handin", ENTRY, "--weights"]) == 0
    held = _zip(here)
    assert held["report/lab.html"] == b"the model"
    assert b"lab.html" in held["report/index.html"]
    assert b"`report/lab.html`" in held["README.md"]


def test_who_it_is_of_and_where_the_model_is(here, capsys):
    assert main(["handin", ENTRY, "--author", "Ada Lovelace"]) == 0
    assert "report.author" in capsys.readouterr().out
    assert b"Author: Ada Lovelace" in _zip(here)["README.md"]
    _report(here, author="Ada Lovelace", hub_path="me/small-stories")
    assert main(["handin", "other"]) == 0
    held = _zip(here, "other")
    assert (
        b"Author: Ada Lovelace\n\nThe model on the Hugging Face hub: me/small-stories"
        in held["README.md"]
    )
    assert b'from_pretrained("me/small-stories")' in held["model/README.md"]
    for author, said in (
        ("Charles Babbage", "the report names 'Ada Lovelace'"),
        ("a\nb", "a name in one line"),
    ):
        assert main(["handin", ENTRY, "--author", author]) == 2
        assert said in capsys.readouterr().err


def _edit(folder, section, key, value):
    params = yaml.safe_load((folder / "params.yaml").read_text("utf-8"))
    params[section][key] = value
    _write(folder, "params.yaml", yaml.safe_dump(params))


MISSING = {
    "no paper": (
        lambda f: (f / "report/report.pdf").unlink(),
        "report/report.pdf is missing; dvc repro",
    ),
    "an old paper": (
        lambda f: _edit(f, "report", "title", "x"),
        "report/report.pdf does not show this run",
    ),
    "a paper of older results": (
        lambda f: _write(f, "data/figures/more.json", "{}"),
        "report/report.pdf does not show this run",
    ),
    "another paper": (
        lambda f: _write(f, "report/report.pdf", "x"),
        "report/report.pdf does not show this run",
    ),
    "stale": (
        lambda f: _edit(f, "train", "lr", 0.5),
        "train: section train of params.yaml was another",
    ),
    "not run": (
        lambda f: (f / FILES["kv_bench"][0]).unlink(),
        "data/figures/kv_bench.json is missing",
    ),
    "edited code": (
        lambda f: _write(f, "tinylm/model/ops.py", "x = 2\n"),
        "stage train ran with other code: tinylm/mo",
    ),
    "new code": (lambda f: _write(f, "tinylm/b.py", ""), "tinylm/b.py: not tracked by git"),
    "code that is gone": (
        lambda f: (f / "tinylm/a.py").unlink(),
        "tinylm/a.py: tracked by git, but no plain file",
    ),
    "a link": (
        lambda f: ((f / "README.md").unlink(), (f / "README.md").symlink_to("/etc/passwd")),
        "README.md: tracked",
    ),
    "no git": (lambda f: shutil.rmtree(f / ".git"), "git init and git add -A make it one"),
    "no lock": (lambda f: (f / "dvc.lock").unlink(), "dvc.lock is missing"),
}


@pytest.mark.parametrize("case", MISSING)
def test_what_is_missing_is_said_in_one_line(here, capsys, case):
    harm, said = MISSING[case]
    harm(here)
    assert main(["handin", ENTRY]) == 2
    error = capsys.readouterr().err
    assert error.startswith("error: ")
    assert len(error.splitlines()) == 1
    assert said in error
    assert not (here / "exports").exists()


@pytest.mark.parametrize(
    "entry", ["", "a/b", "..", ".hidden", "a b", "é", "con", "LPT1.zip", "x.", "a" * 65, "a\n"]
)
def test_an_entry_is_a_file_name(here, capsys, entry):
    assert main(["handin", "--", entry]) == 2
    assert "allowed: a file name" in capsys.readouterr().err


def test_a_failure_leaves_the_earlier_zip_and_no_part(here, monkeypatch, capsys):
    assert main(["handin", ENTRY]) == 0
    before = (here / f"exports/{ENTRY}.zip").read_bytes()

    def failing(*_):
        raise InputError("no more")

    monkeypatch.setattr("tinylm.exchange.handin.readme", failing)
    assert main(["handin", ENTRY]) == 2
    assert "no more" in capsys.readouterr().err
    assert [path.name for path in (here / "exports").iterdir()] == [f"{ENTRY}.zip"]
    assert (here / f"exports/{ENTRY}.zip").read_bytes() == before
