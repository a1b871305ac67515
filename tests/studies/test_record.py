"""tinylm record: a run into docs/runs, seeds side by side, nothing of other parameters."""

import hashlib
import json

import pytest
import yaml

from tinylm.base.config import load_params, parse_yaml
from tinylm.cli import main
from tinylm.host.times import write_times
from tinylm.presets.write import preset_text

CONDITIONS = {
    "cpu": "Example CPU",
    "cores": 2,
    "threads": 2,
    "device": "cpu",
    "torch": "2",
    "date": "2025-01-02",
}
READS = {  # stage: (sections, what it reads, what it writes)
    "vocab": (["vocab"], [], ["data/tokens", "data/figures/vocab.json"]),
    "train": (["model", "train"], ["data/tokens"], ["models", "data/figures/train.json"]),
    "evaluate": (["evaluate"], ["models"], ["data/figures/evaluate.json"]),
    "accum_run@1": (["train"], ["data/tokens"], ["data/accum/1.json"]),
    "accum_run@2": (["train"], ["data/tokens"], ["data/accum/2.json"]),
    "accum_sweep": (["accum_sweep"], ["data/accum"], ["data/figures/accum_sweep.json"]),
}


def md5(path):
    return hashlib.md5(path.read_bytes()).hexdigest()


def write(folder, name, value):
    (folder / name).parent.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text(json.dumps(value), encoding="utf-8")


def folder_md5(path):
    """As DVC counts a folder."""
    rows = [{"md5": md5(file), "relpath": file.name} for file in sorted(path.iterdir())]
    return hashlib.md5(json.dumps(rows, sort_keys=True).encode()).hexdigest() + ".dir"


def lock(folder, *stages):
    """dvc.lock as DVC would write it after these stages; the others keep their entries."""
    path = folder / "dvc.lock"
    held = yaml.safe_load(path.read_text("utf-8"))["stages"] if path.exists() else {}
    params = load_params(folder / "params.yaml")

    def row(name):
        if name == "data/accum":
            return {"path": name, "md5": folder_md5(folder / name)}
        found = {
            "data/tokens": "tokens",
            "models": f"models of seed {params['train']['seed']}",
        }.get(name)
        return {"path": name, "md5": found or md5(folder / name)}

    for stage in stages:
        sections, deps, outs = READS[stage]
        known = {name: params[name] for name in sections}
        rows = {"deps": [row(dep) for dep in deps], "outs": [row(out) for out in outs]}
        held[stage] = {"params": {"params.yaml": known}, **rows}
    path.write_text(yaml.safe_dump({"schema": "2.0", "stages": held}), encoding="utf-8")


def run(folder, seed, perplexity, *stages, **changes):
    """What `dvc repro` of these stages leaves behind."""
    params = parse_yaml(preset_text("word-10k"), "word-10k")
    params["train"] |= {"seed": seed, **changes}
    write(folder, "params.yaml", params)
    if "train" in stages:
        write(
            folder,
            "data/figures/train.json",
            {"held_out_perplexity": perplexity, "tokens": 640, "epochs": 0.5},
        )
        write_times(
            "train", "train", "data/figures/train.json", {"seconds": 1.0, "conditions": CONDITIONS}
        )
    if "vocab" in stages:
        write(folder, "data/figures/vocab.json", {"size": 10004})
    if "evaluate" in stages:
        write(folder, "data/figures/evaluate.json", {"perplexity": perplexity + 1})
    for number in (1, 2):
        if f"accum_run@{number}" in stages:
            write(folder, f"data/accum/{number}.json", {"seed": seed, "number": number})
    if "accum_sweep" in stages:
        write(folder, "data/figures/accum_sweep.json", {"budget_tokens": seed})
    lock(folder, *stages)


def recorded(folder, name="word-10k"):
    return json.loads((folder / f"docs/runs/{name}.json").read_text("utf-8"))


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    run(tmp_path, 1, 30.0, "vocab", "train", "evaluate")
    return tmp_path


def test_a_run_is_recorded_with_its_preset_its_figures_and_its_commands(folder, capsys):
    assert main(["record", "word-10k"]) == 0
    assert "preset word-10k; seeds 1" in capsys.readouterr().out
    found = recorded(folder)
    assert (found["preset"], found["differs"]) == ("word-10k", [])
    assert found["params"]["model"]["heads"] == 8
    assert "runtime" not in found["params"]
    entry = found["seeds"]["1"]
    assert entry["metrics"]["evaluate"] == {"perplexity": 31.0}
    assert entry["conditions"] == CONDITIONS
    assert entry["left_out"] == []
    assert entry["commands"] == [
        "tinylm preset word-10k",
        "dvc repro vocab train evaluate",
        "tinylm record word-10k",
    ]


def test_another_seed_goes_beside_and_the_same_seed_replaces(folder):
    assert main(["record", "word-10k"]) == 0
    run(folder, 2, 32.0, "train", "evaluate")
    assert main(["record", "word-10k"]) == 0
    run(folder, 2, 33.0, "train", "evaluate")
    assert main(["record", "word-10k"]) == 0
    seeds = recorded(folder)["seeds"]
    assert [
        (seed, row["metrics"]["train"]["held_out_perplexity"]) for seed, row in seeds.items()
    ] == [
        ("1", 30.0),
        ("2", 33.0),
    ]
    assert "edit params.yaml: train.seed=2" in seeds["2"]["commands"]


def test_seeds_of_other_settings_are_refused_but_may_be_replaced(folder, capsys):
    assert main(["record", "word-10k"]) == 0
    run(folder, 2, 32.0, "train", "evaluate", lr=0.01)
    assert main(["record", "word-10k"]) == 2
    assert (
        "word-10k holds seeds of other settings (train.lr: 0.0003 -> 0.01)"
        in capsys.readouterr().err
    )
    assert main(["record", "word-10k-lr"]) == 0
    assert recorded(folder, "word-10k-lr")["differs"] == ["train.lr: 0.0003 -> 0.01"]
    run(folder, 1, 34.0, "train", "evaluate", lr=0.01)
    assert main(["record", "word-10k"]) == 0
    assert recorded(folder)["seeds"]["1"]["metrics"]["train"]["held_out_perplexity"] == 34.0


def test_a_stage_of_another_seed_is_left_out_and_named(folder, capsys):
    run(folder, 2, 32.0, "train")
    assert main(["record", "word-10k"]) == 0
    entry = recorded(folder)["seeds"]["2"]
    assert set(entry["metrics"]) == {"vocab", "train", "train_time"}
    assert entry["left_out"] == ["evaluate: models was another; dvc repro evaluate"]
    assert "left out: evaluate: models was another" in capsys.readouterr().out


def test_a_merge_of_files_of_another_seed_is_left_out(folder):
    sweep = "accum_run@1", "accum_run@2", "accum_sweep"
    run(folder, 1, 30.0, *sweep)
    assert main(["record", "word-10k"]) == 0
    assert recorded(folder)["seeds"]["1"]["metrics"]["accum_sweep"] == {"budget_tokens": 1}
    run(folder, 2, 30.0, "train", "evaluate", *sweep[:2])
    assert main(["record", "word-10k"]) == 0
    assert recorded(folder)["seeds"]["2"]["left_out"] == [
        "accum_sweep: data/accum was another; dvc repro accum_sweep"
    ]
    assert "accum_sweep" not in recorded(folder)["seeds"]["2"]["metrics"]


def test_a_stage_whose_parameters_were_edited_is_left_out(folder, capsys):
    params = load_params("params.yaml")
    params["evaluate"]["stories"] = 7
    write(folder, "params.yaml", params)
    assert main(["record", "word-10k"]) == 0
    assert recorded(folder)["seeds"]["1"]["left_out"] == [
        "evaluate: section evaluate of params.yaml was another; dvc repro evaluate"
    ]
    assert "left out: evaluate" in capsys.readouterr().out


def test_what_stands_on_an_old_upstream_is_left_out(folder):
    params = load_params("params.yaml")
    params["vocab"]["min_count"] = 2
    write(folder, "params.yaml", params)
    assert main(["record", "word-10k"]) == 2  # train itself is old
    lock(folder, "vocab")
    params["evaluate"]["stories"] = 50
    assert main(["record", "word-10k"]) == 0


def test_a_file_that_a_stage_did_not_write_is_left_out(folder, capsys):
    write(folder, "data/figures/evaluate.json", {"perplexity": 1.0})
    assert main(["record", "word-10k"]) == 0
    assert "evaluate" not in recorded(folder)["seeds"]["1"]["metrics"]
    assert (
        "data/figures/evaluate.json is not the file that stage evaluate wrote"
        in capsys.readouterr().out
    )


def test_a_name_of_another_preset_is_refused_and_its_record_stays(folder, capsys):
    """A published comparison was once replaced by the run of another preset, with exit code 0."""
    run(folder, 1, 9.0, *READS)
    assert main(["record", "word-10k"]) == main(["record", "mine"]) == 0
    before = {path: path.read_bytes() for path in (folder / "docs").rglob("*") if path.is_file()}
    write(folder, "params.yaml", parse_yaml(preset_text("storybook"), "storybook"))
    lock(folder, *READS)
    capsys.readouterr()
    for name, other in (("word-10k", "word-10k"), ("word-50k", "word-50k"), ("mine", "word-10k")):
        assert main(["record", name]) == 2
        assert capsys.readouterr().err == (
            f"error: name '{name}' is for preset {other}, and the run here is of preset storybook; allowed: storybook, "
            "or a name that is no preset's and holds no other's run\n"
        )
    assert {
        path: path.read_bytes() for path in (folder / "docs").rglob("*") if path.is_file()
    } == before
    assert main(["record", "storybook"]) == main(["record", "another"]) == 0


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["record"], "no name"),
        (["record", "Word_10k"], "name 'Word_10k'; allowed: small letters, digits and -"),
        (["record", "../x"], "allowed: small letters"),
    ],
)
def test_bad_names_are_one_line(folder, capsys, words, message):
    assert main(words) == 2
    error = capsys.readouterr().err
    assert message in error
    assert len(error.splitlines()) == 1


def test_without_a_lock_or_a_run_it_says_what_to_run(folder, capsys):
    (folder / "data/figures/train.json").unlink()
    assert main(["record", "a"]) == 2
    assert "no training run to record: run dvc repro train" in capsys.readouterr().err
    (folder / "dvc.lock").unlink()
    assert main(["record", "a"]) == 2
    assert "dvc.lock is missing: run dvc repro" in capsys.readouterr().err


def test_the_list_names_what_is_recorded(folder, capsys):
    assert main(["record", "--list"]) == 0
    assert "nothing is recorded" in capsys.readouterr().out
    assert main(["record", "word-10k"]) == 0
    assert main(["record", "--list"]) == 0
    assert "word-10k: preset word-10k, seeds 1, " in capsys.readouterr().out


def test_the_table_takes_our_figures_from_the_record(folder, capsys):
    assert main(["record", "word-10k"]) == 0
    capsys.readouterr()
    assert main(["record", "--table"]) == 0
    (row,) = [line for line in capsys.readouterr().out.splitlines() if "12.42" in line]
    assert "| 12.42 | 30.00 |" in row


def test_the_ledger_is_written_with_each_record_and_printed_when_asked(folder, capsys):
    assert main(["record", "word-10k"]) == 0
    capsys.readouterr()
    written = (folder / "docs/ledger.yaml").read_text("utf-8")
    assert "claim: This model reaches a validation perplexity of 12.42." in written
    assert main(["record", "--ledger"]) == 0
    out = capsys.readouterr().out
    assert (
        "E-epoch-1-perplexity: not run yet\n  Validation perplexity after one epoch is 88.58.\n  made by: "
        in out
    )
    assert out.endswith("(85 claims)\n")
    assert (folder / "docs/ledger.yaml").read_text("utf-8") == written
