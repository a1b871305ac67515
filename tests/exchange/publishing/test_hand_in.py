"""tinylm handin in a small whole run under git: what the zip holds, and what is refused."""

import json
import re
import shutil
import subprocess
import zipfile

import pytest

from tests.exchange.publishing.conftest import write, write_lock
from tests.support.clone import ROOT, set_params
from tinylm.cli import main
from tinylm.exchange.handin import HUB, parts
from tinylm.report.wording import number
from tinylm.run.finished_run import FILES, RESULTS

ENTRY = "2026-12345"
CODE = {
    "README.md": "# mine\n",
    "stages/train.py": "1\n",
    "tinylm/model/ops.py": "",
    "tinylm/a.py": "",
}
TESTS = {"tests/test_a.py": "", "studies/study.py": "", "benchmarks/frame.py": ""}
IGNORED = "/data/\n/models/\n/report/\n/exports/\n/plots/pictures/\n/metrics/\n"


def stages():
    """{stage: (its section, dependencies, outputs)}, as after `dvc repro` of all."""
    rows = {}
    for stage in RESULTS:
        outs = {path for path, maker, _ in FILES.values() if maker == stage}
        deps = []
        if stage == "train":
            deps = ["stages/train.py", "tinylm/model"]
            outs = {"models", *(path for path in outs if not path.startswith("models"))}
        rows[stage] = ([stage], deps, sorted(outs))
    rows["report"] = (["report"], ["data/figures"], ["report"])
    return rows


@pytest.fixture(scope="module")
def whole_run(finished_run, tmp_path_factory):
    """A whole run with its report, its code under git."""
    folder = tmp_path_factory.mktemp("whole") / "run"
    links = shutil.ignore_patterns("stages", "tinylm", "docs", "runs")
    shutil.copytree(finished_run, folder, ignore=links)
    for name, text in (CODE | TESTS | {".gitignore": IGNORED}).items():
        write(folder, name, text)
    set_params(folder, {"report.author": "Ada Lovelace"})
    write_lock(folder, stages())
    for words in (["init", "-q"], ["add", "-A"]):
        subprocess.run(["git", *words], cwd=folder, check=True)
    return folder


@pytest.fixture
def here(whole_run, tmp_path, monkeypatch):
    """A copy of it; the working folder."""
    monkeypatch.chdir(shutil.copytree(whole_run, tmp_path / "run"))
    return tmp_path / "run"


def unzip(folder, entry=ENTRY):
    with zipfile.ZipFile(folder / f"exports/{entry}.zip") as archive:
        assert archive.testzip() is None
        return {name.removeprefix(f"{entry}/"): archive.read(name) for name in archive.namelist()}


def test_the_zip_holds_all_that_is_asked_for_and_has_equal_bytes_twice(here):
    for entry in ("", "a/b", "..", "é", "x.", "a" * 65):
        assert main(["handin", "--", entry]) == 2
    assert main(["handin", ENTRY]) == 0
    archive = here / f"exports/{ENTRY}.zip"
    first = archive.read_bytes()
    files = unzip(here)
    sources = {
        "report/report.pdf": "report/report.pdf",
        "plots/loss_tokens.svg": "plots/pictures/loss_tokens.svg",
        "samples/samples.csv": "data/evaluate/samples.csv",
        "settings.yaml": "params.yaml",
        "model/pipeline/dvc.lock": "dvc.lock",
    }
    sources |= {f"code/{name}": name for name in CODE}
    curves = [path.name for path in (here / "plots").glob("*.csv")]
    assert {"loss.csv", "learning_rate.csv", "kv_bench.csv"} <= set(curves)
    sources |= {f"plots/{name}": f"plots/{name}" for name in curves}
    for name, source in sources.items():
        assert files[name] == (here / source).read_bytes(), name
    for name in files:
        assert not name.endswith(".safetensors")
        assert not name.startswith(("code/data", "code/tests", "code/studies", "code/benchmarks"))
    evaluate = json.loads((here / "data/figures/evaluate.json").read_text())
    perplexity = number(evaluate["perplexity"]).encode()
    assert perplexity in files["model/README.md"]
    assert perplexity in files["README.md"]
    assert b"Author: Ada Lovelace" in files["README.md"]
    assert HUB not in files["README.md"].decode()
    for part in parts():
        if part.part == HUB:
            continue
        (row,) = re.findall(rf"^\| {part.part} \|.*$", files["README.md"].decode(), re.MULTILINE)
        for name in re.findall(r"`((?:plots|samples|model)/[^`]*)`", row):
            assert name in files
        assert all((ROOT / name).exists() for name in part.code)
        assert f"## {part.section}\n" in (here / "report/report.md").read_text("utf-8")
    assert b"from_pretrained" not in files["model/README.md"]
    for path in here.rglob("*.py"):
        path.touch()
    assert main(["handin", ENTRY]) == 0
    assert archive.read_bytes() == first


def test_weights_lab_and_the_place_on_the_hub(here):
    set_params(here, {"report.hub_path": "me/small-stories"})
    write(here, "report/lab.html", "the model")
    write_lock(here, stages())
    assert main(["handin", "other", "--weights"]) == 0
    files = unzip(here, "other")
    weights = (here / "models/model.safetensors").read_bytes()
    assert files["model/tinylm/model.safetensors"] == weights
    assert files["report/lab.html"] == b"the model"
    assert b"--models ../model" in files["README.md"]
    assert HUB in files["README.md"].decode()
    assert b'from_pretrained("me/small-stories")' in files["model/README.md"]


def test_the_readme_says_which_code_was_changed_since_the_release_and_by_whom(here):
    assert main(["handin", ENTRY]) == 0
    assert b"Authorship: unknown" in unzip(here)["README.md"]

    def git(*words):
        command = ["git", "-c", "user.email=a@b.c", *words]
        return subprocess.run(command, cwd=here, check=True, capture_output=True, text=True).stdout

    def authorship():
        assert main(["handin", ENTRY]) == 0
        return unzip(here)["README.md"].decode().partition("Authorship: ")[2]

    git("-c", "user.name=tinylm", "commit", "-qm", "all")
    write(here, "pyproject.toml", '[project]\nversion = "2"\n')
    git("add", "pyproject.toml")
    git("-c", "user.name=tinylm", "commit", "-qm", "release")
    release = git("rev-parse", "HEAD")[:12]
    write(here, "tinylm/a.py", "one = 1\ntwo = 2\n")
    git("-c", "user.name=Ada", "commit", "-qam", "mine")
    changed = "; files changed here: 1, by Ada\n- `tinylm/a.py`: +2 −0\n"
    untagged = f"tinylm's code of {release} (the commit that set its version)"
    assert authorship().startswith(untagged + changed)
    head = git("rev-parse", "HEAD")
    write(here, ".git/shallow", head)
    assert authorship().startswith("unknown")  # nobody's changes are hidden in the only commit
    (here / ".git/shallow").unlink()
    git("tag", "v2", release)
    git("tag", "v9")  # a student's own
    assert authorship().startswith("tinylm's code of v2" + changed)
    git("update-ref", "refs/remotes/origin/main", "HEAD")
    assert authorship().startswith(
        "tinylm's code of v2; changed since, as cloned from origin: 1 files, by Ada; files changed here: 0"
    )


def track_a_link(here):
    (here / "linked").symlink_to(here / "tinylm", target_is_directory=True)
    subprocess.run(["git", "add", "linked"], cwd=here, check=True)


CASES = {
    "report: ": lambda here: (here / "report/report.pdf").unlink(),
    "report of params.yaml": lambda here: set_params(here, {"report.title": "x"}),
    "train of params.yaml": lambda here: set_params(here, {"train.lr": 0.5}),
    "kv_bench.json": lambda here: (here / FILES["kv_bench"].path).unlink(),
    "stage train ran with other code": lambda here: write(here, "tinylm/model/ops.py", "x = 2\n"),
    "tinylm/b.py": lambda here: write(here, "tinylm/b.py", ""),
    "link to a folder": lambda here: track_a_link(here),
    "git": lambda here: shutil.rmtree(here / ".git"),
    "dvc.lock": lambda here: (here / "dvc.lock").unlink(),
}


def test_the_results_of_a_commit_with_other_settings_need_not_be_there(here):
    """As after an edit of beam_bench.widths: the commit has a row that the run does not have."""
    write(here, "metrics/beam/77.json", "{}")
    subprocess.run(["git", "add", "-f", "metrics/beam/77.json"], cwd=here, check=True)
    (here / "metrics/beam/77.json").unlink()
    assert main(["handin", ENTRY]) == 0
    assert "code/metrics/beam/77.json" not in unzip(here)


@pytest.mark.parametrize("named", CASES)
def test_what_is_missing_is_named_in_one_line(here, capsys, named):
    CASES[named](here)
    assert main(["handin", ENTRY]) == 2
    error = capsys.readouterr().err
    assert len(error.splitlines()) == 1
    assert named in error
    assert not (here / "exports").exists()
