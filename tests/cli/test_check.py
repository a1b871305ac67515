"""tinylm check: each planted problem is found, by its key path, before any work."""

import os
import re
import subprocess
import sys
from collections import namedtuple
from pathlib import Path

import pytest
import yaml

from tinylm.base.config import load_params
from tinylm.cli import check, machine, main, rehearsal
from tinylm.cli.finding import Finding
from tinylm.host import params as params_module
from tinylm.host.params import SECTIONS, read_sections
from tinylm.presets.write import FOLDER

ROOT = Path(__file__).parents[2]
BASE = load_params(FOLDER / "storybook.yaml")
for (
    _section,
    _values,
) in {  # what the limits below are counted from, whatever the preset is tuned to
    "data": {"train_stories": 20000, "evaluation_stories": 500},
    "embedding": {"width": 128},
    "model": {"layers": 4, "heads": 8, "feed_forward": 512, "context": 192, "head_width": None},
    "train": {
        "batch_size": 32,
        "accumulation": 1,
        "tokens": 1_500_000,
        "validate_every": 50,
        "patience": None,
    },
    "decode": {"top_k": 50},
    "evaluate": {
        "stories": 50,
        "prompt_tokens": 5,
        "attention_sentences": 3,
        "tendency_sentences": 200,
    },
    "beam_bench": {"widths": [1, 5, 10], "prompts": 10, "prompt_tokens": 5},
    "kv_bench": {"batch": 20, "prompt_tokens": 5, "lengths": [32, 64, 256]},
    "accum_sweep": {"settings": [1, 2, 4, 8], "batch_size": 16, "tokens": 160_000},
    "runtime": {"threads": 2, "device": "auto"},
}.items():
    assert BASE[_section].keys() >= _values.keys()
    BASE[_section] |= _values


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    """A folder that has all a run needs; the data are tried in test_rehearsal.py."""
    monkeypatch.setattr(rehearsal, "rehearse", rehearsal.rules_only)
    monkeypatch.chdir(tmp_path)
    for name in (".git", ".dvc", BASE["data"]["path"]):
        Path(name).mkdir(parents=True)
    Path(BASE["embedding"]["path"]).parent.mkdir(parents=True, exist_ok=True)
    Path(BASE["embedding"]["path"]).touch()
    Path("dvc.yaml").touch()
    plant({})
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1})
    return tmp_path


def plant(changes: dict) -> None:
    """params.yaml of the storybook with {"section.key": value} changed."""
    params = {section: dict(values) for section, values in BASE.items()}
    for path, value in changes.items():
        section, _, key = path.partition(".")
        params[section][key] = value
    assert Path.cwd() != ROOT  # never over the repository's own
    Path("params.yaml").write_text(yaml.safe_dump(params), encoding="utf-8")


def problems() -> list[str]:
    return [finding.problem for finding in check.find() if finding.problem]


def notes() -> list[str]:
    return [finding.note for finding in check.find() if finding.note]


def test_a_folder_in_order_has_no_problem(capsys):
    assert main(["check"]) == 0
    captured = capsys.readouterr()
    assert captured.err == ""
    lines = captured.out.splitlines()
    assert [line.split()[0] for line in lines[: len(SECTIONS)]] == list(SECTIONS)
    assert all(line.endswith("ok") for line in lines)
    assert len({line.split("  ")[0] for line in lines}) == len(lines)
    for word in ("python", "memory", "disk", "git", "dvc"):
        assert any(line.startswith(word) for line in lines)


def test_the_table_is_aligned_and_names_problems(capsys, monkeypatch):
    findings = [
        Finding("a", "long value"),
        Finding("longer", "v", "x is wrong"),
        Finding("b", "", note="slow"),
    ]
    assert check.table(findings).splitlines() == [
        "a       long value  ok",
        "longer  v           problem: x is wrong",
        "b                   note: slow",
    ]
    monkeypatch.setattr(check, "find", lambda: findings)
    assert main(["check"]) == 2
    captured = capsys.readouterr()
    assert captured.out == check.table(findings) + "\n"
    assert captured.err == "error: 1 problem, marked above\n"


def test_errors_of_all_sections_are_shown_at_once(capsys):
    plant({"train.lr": -1, "train.lrr": 1, "model.layers": "four", "evaluate.seed": None})
    params = yaml.safe_load(Path("params.yaml").read_text("utf-8"))
    del params["report"]
    params["trian"] = {}
    Path("params.yaml").write_text(yaml.safe_dump(params), encoding="utf-8")
    assert main(["check"]) == 2
    out = capsys.readouterr().out
    for named in (
        "params.yaml: train.lr = -1; allowed: a number > 0.0 and <= 10.0",
        "params.yaml: train.lrr is unknown; did you mean 'lr'?",
        "params.yaml: model.layers = 'four'; allowed: a whole number",
        "params.yaml: evaluate.seed = None; allowed: a whole number >= 0",
        "params.yaml: section 'report' is missing",
        "params.yaml: section 'trian' is unknown; did you mean 'train'?",
    ):
        assert out.count(f"problem: {named}") == 1
    assert out.count("problem: ") == 6


@pytest.mark.parametrize(
    "content", [b"", b"train: [\n", b"\xff\xfe", b"a: 1\na: 2\n", b"a:\n\tb: 1\n"]
)
def test_params_that_cannot_be_read_do_not_hide_the_machine(content, capsys):
    Path("params.yaml").write_bytes(content)
    assert main(["check"]) == 2
    out = capsys.readouterr().out
    assert out.startswith("params.yaml ")
    assert out.count("problem: ") == 1
    assert "\npython" in out


def test_missing_params_name_the_command_that_writes_them():
    Path("params.yaml").unlink()
    assert problems() == ["params.yaml is missing; `tinylm preset storybook` writes one"]


STREAM = {
    "train.layout": "stream",
    "model.context": 64,
    "train.batch_size": 32,
    "train.accumulation": 2,
}


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        (
            {"data.path": "nowhere", "data.source": "local"},
            "params.yaml: data.path = 'nowhere': no such file or folder",
        ),
        (
            {"data.path": "../shared/tinystories", "data.source": "local"},
            "params.yaml: data.path = '../shared/tinystories': no such file or folder; set it, or "
            "tinylm preset NAME --hub, with data from the Hugging Face hub",
        ),
        (
            {"embedding.path": "nowhere"},
            "params.yaml: embedding.path = 'nowhere': no such file or folder",
        ),
        (
            {"embedding.path": "~/a.vec"},
            "params.yaml: embedding.path = '~/a.vec': no such file or folder; '~' stands for nothing in params.yaml",
        ),
        (
            {"embedding.path": ".git", "embedding.source": "file"},
            "embedding.path = '.git': no regular file; allowed: .vec",
        ),
        (
            {"embedding.source": "file"},
            f"{BASE['embedding']['path']}: not a supported format of vectors",
        ),
    ],
)
def test_a_planted_problem_is_the_only_one_found(changes, named):
    plant(changes)
    (found,) = problems()
    assert found.startswith(named)


def test_the_width_of_a_vector_file_must_be_the_embeddings():
    Path("v.vec").write_text("2 3\na 1 2 3\nb 1 2 3\n", encoding="utf-8")
    plant({"embedding.source": "file", "embedding.path": "v.vec"})
    assert problems() == ["v.vec, line 1: vectors of width 3; embedding.width = 128"]
    plant(
        {
            "embedding.source": "file",
            "embedding.path": "v.vec",
            "embedding.width": 3,
            "model.heads": 3,
        }
    )
    assert problems() == []


def test_the_hub_is_noted_and_not_asked():
    plant({"data.source": "hub"})
    assert problems() == []
    assert notes() == ["asked for when download runs"]
    plant({"embedding.source": "file", "embedding.hub_id": "a/b", "embedding.hub_revision": "0"})
    assert problems() == []
    assert notes() == ["asked for when vocab runs"]


def test_what_is_only_slow_or_odd_is_noted():
    plant({"runtime.threads": 3})
    assert problems() == []
    assert notes() == [
        "runtime.threads = 3: more than the cores; slower",
    ]


def test_no_cuda_device(monkeypatch):
    import torch

    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    plant({"runtime.device": "cuda"})
    (found,) = problems()
    assert found.startswith("params.yaml: runtime.device = 'cuda'; allowed here: auto | cpu")


def test_a_full_disk_and_little_memory(monkeypatch):
    import psutil

    usage = namedtuple("usage", "free")
    monkeypatch.setattr(machine.shutil, "disk_usage", lambda _: usage(10_000_000))
    (found,) = problems()
    assert found.startswith("disk: about 0.1 GiB needed, 0.0 free")
    plant({"train.batch_size": 1_000_000, "vocab.max_size": 1000})
    memory = namedtuple("memory", "available")
    monkeypatch.setattr(psutil, "virtual_memory", lambda: memory(8 * 2**30))
    monkeypatch.setattr(machine.shutil, "disk_usage", lambda _: usage(10**12))
    (found,) = [line for line in problems() if line.startswith("memory")]
    assert "lower train.batch_size or model.context, or set train.recompute" in found


def test_needs_grow_with_stories_batch_and_depth():
    def needed(**changes):
        params = {section: dict(values) for section, values in BASE.items()}
        for path, value in changes.items():
            section, _, key = path.partition("__")
            params[section][key] = value
        return machine.needs(read_sections(params)[0], 1000)

    disk, memory = needed()
    assert needed(data__train_stories=40000) == (disk + 3 * 20000 * machine.STORY_BYTES, memory)
    assert needed(train__batch_size=64)[1] > memory > needed(train__recompute="blocks")[1]
    assert needed(model__layers=8)[0] > disk
    assert machine.needs({}, None) == (0, 0)


def test_a_folder_outside_of_git_and_dvc(folder):
    (folder / ".git").rmdir()
    (folder / ".dvc").rmdir()
    assert problems() == [
        f"no git repository here (a ZIP holds none), which DVC needs; type: {machine.GIT}",
        "no .dvc folder here; dvc init, or run in the clone",
    ]


def test_git_and_dvc_are_found_above(folder, monkeypatch):
    below = folder / "below"
    below.mkdir()
    monkeypatch.chdir(below)
    values = {finding.what: finding for finding in machine.check_machine({}, None)}
    assert values["git"].value == values["dvc"].value == str(folder)
    assert not values["git"].problem


def test_an_old_python_a_missing_dvc_and_locked_folders(monkeypatch):
    Path("models").mkdir()
    monkeypatch.setattr(machine, "OLDEST_PYTHON", (99, 0))
    monkeypatch.setattr(machine.importlib.util, "find_spec", lambda name: None)
    real = os.access
    monkeypatch.setattr(os, "access", lambda path, mode: path != "models" and real(path, mode))
    assert problems() == [
        "Python is too old; allowed: 3.11 or newer",
        "dvc is not installed in this Python",
        "no permission to write to models",
    ]


def test_a_file_that_may_not_be_read(monkeypatch):
    real = os.access
    monkeypatch.setattr(
        os, "access", lambda path, mode: "storybook" not in str(path) and real(path, mode)
    )
    assert problems() == ["params.yaml: data.path = 'tinylm/storybook': no permission to read it"]


@pytest.mark.parametrize("name", ["data", "metrics"])
def test_a_link_in_the_place_of_an_output_folder(name, folder, monkeypatch):
    (folder / "elsewhere").mkdir()
    Path(name).symlink_to(folder / "elsewhere")
    (found,) = problems()
    assert found.startswith(f"{name} is a link to {folder}/elsewhere; allowed: a folder")
    monkeypatch.setattr(params_module.os.path, "islink", lambda _: False)
    assert problems() == []


def test_a_logger_that_is_not_installed(monkeypatch):
    real = machine.importlib.util.find_spec
    monkeypatch.setattr(
        machine.importlib.util, "find_spec", lambda name: None if name == "wandb" else real(name)
    )
    plant({"runtime.logger": "wandb"})
    assert problems() == ["not installed; pip install wandb, or none"]


def test_quiet_prints_notes_and_one_line_and_tries_only_what_changed(capsys, monkeypatch):
    plant({"runtime.threads": 3})
    assert main(["check", "--quiet"]) == 0
    noted, checked = capsys.readouterr().out.splitlines()
    assert noted == "note: threads: runtime.threads = 3: more than the cores; slower"
    assert re.match(r"checked: \d+ points, no problem", checked)
    monkeypatch.setattr(check, "find", lambda: pytest.fail("tried again"))
    assert main(["check", "--quiet"]) == 0
    assert capsys.readouterr().out.startswith(
        "checked: params.yaml and the data are as they were when nothing was "
    )


@pytest.mark.parametrize("change", ["params", "data", "vectors"])
def test_quiet_tries_again_what_changed(change, monkeypatch):
    assert main(["check", "--quiet"]) == 0
    if change == "params":
        plant({"train.seed": 9})
    elif change == "data":
        Path(BASE["data"]["path"], "new.py").touch()
    else:
        os.utime(BASE["embedding"]["path"], (1, 1))
    asked = []
    monkeypatch.setattr(
        check, "find", lambda: asked.append(1) or [Finding("data", "", "a line is wrong")]
    )
    assert main(["check", "--quiet"]) == 2
    assert asked


def test_quiet_gives_each_problem_a_line_and_forgets_none(capsys):
    plant({"seeds.more": 2, "accum_sweep.settings": 4})
    for _ in range(2):
        assert main(["check", "--quiet"]) == 2
        sweep, seeds = capsys.readouterr().err.splitlines()
        assert sweep.startswith(
            "error: params.yaml: accum_sweep.settings = 4; allowed: a list of whole numbers"
        )
        assert (
            seeds
            == "error: params.yaml: seeds.more = 2; allowed: a list of whole numbers, each >= 0"
        )


def test_exit_code_of_the_process():
    plant({"model.heads": 0})
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-m", "tinylm.cli", "check"]
    found = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    assert found.returncode == 2
    assert found.stderr == "error: 1 problem, marked above\n"
    assert "params.yaml: model.heads = 0; allowed: a whole number >= 1" in found.stdout


def test_a_user_without_a_home_folder_is_told_before_dvc_looks_for_it(monkeypatch):
    def home():
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.setattr(machine.Path, "home", home)
    (found,) = (
        finding for finding in machine.check_machine({}, None) if finding.what == "home folder"
    )
    assert "HOME is not set" in found.problem


@pytest.mark.parametrize("content", ["[]", '"x"', "3", "null", "{", '{"state": 5}'])
def test_a_damaged_record_of_the_last_check_is_no_record(tmp_path, monkeypatch, content, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "runs").mkdir()
    (tmp_path / check.CHECKED).write_text(content)
    (tmp_path / "params.yaml").write_text("data: {}\n")
    (tmp_path / "dvc.yaml").touch()
    assert main(["check", "--quiet"]) == 2
    assert "Error" not in capsys.readouterr().err
