"""Rows 20 to 23: params.yaml and presets. Each stage refuses the whole file at once, before any work."""

import json
from pathlib import Path

import pytest
import yaml

from tests.support.stages import ORDER, plant, run, small_params
from tinylm.cli import main
from tinylm.presets.write import BASE, preset_text


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    plant(tmp_path, small_params())
    return tmp_path


def refused(capsys, command: str) -> list[str]:
    """What the stage says as it refuses; it must not have begun."""
    assert run(command) == 2
    lines = capsys.readouterr().err.splitlines()
    assert lines
    assert all(line.startswith("error: params.yaml") for line in lines)
    assert not Path("data").exists()
    assert not Path("metrics").exists()
    return [line.removeprefix("error: params.yaml: ") for line in lines]


def plant_text(**values: str) -> None:
    """params.yaml with values written as they stand, section__key."""
    lines = Path("params.yaml").read_text().splitlines()
    for path, text in values.items():
        section, _, key = path.partition("__")
        start = lines.index(f"{section}:")
        place = next(i for i in range(start, len(lines)) if lines[i].startswith(f"  {key}:"))
        lines[place] = f"  {key}: {text}"
    Path("params.yaml").write_text("\n".join(lines) + "\n")


BAD = {
    "train__lr": ("'1e-3'", "a number > 0.0 and <= 10.0"),
    "train__clip_norm": (".nan", "a number > 0.0, or null"),
    "train__seed": ("-1", "a whole number >= 0"),
    "train__tokens": ("1e400", "a whole number >= 1 and <= 1000000000000000, or null"),
    "model__layers": ("0", "a whole number >= 1 and <= 1000"),
    "model__context": ("9" * 4000, "a whole number >= 2 and <= 1000000"),
    "model__final_norm": ("yes", "true or false"),
    "model__dropout": ("off", "a number >= 0.0 and <= 0.99"),
    "data__seed": ("[1]", "a whole number >= 0"),
    "data__column": ("1", "a text"),
    "beam_bench__widths": (
        "5",
        "a list of whole numbers, at least 1, all different, each >= 1 and <= 100000",
    ),
    "evaluate__reference": ("half", "cut | whole"),
    "runtime__device": ("tpu", "auto | cpu | cuda"),
}


@pytest.mark.parametrize("command", ORDER)
def test_fault_20_every_error_of_every_section_at_once(folder, capsys, command):
    params = small_params()
    params["train"] |= {"learning_rate": 1, "Warmup": 0}
    del params["report"]
    text = yaml.safe_dump(params, sort_keys=False).replace(
        "  widths:\n  - 1\n  - 2\n", "  widths: [1, 2]\n"
    )
    Path("params.yaml").write_text(text)
    plant_text(**{key: text for key, (text, _) in BAD.items()})
    told = refused(capsys, command)
    for path, (_, allowed) in BAD.items():
        (line,) = [line for line in told if line.startswith(path.replace("__", ".") + " = ")]
        assert line.endswith(f"; allowed: {allowed}")
        assert len(line) < 250
    assert "train.learning_rate is unknown" in told
    assert "train.Warmup is unknown; did you mean 'warmup'?" in told
    assert "section 'report' is missing" in told
    assert len(told) == len(BAD) + 3


def test_fault_20_a_leading_zero_is_read_as_dvc_reads_it(folder):
    from ruamel.yaml import YAML

    from tinylm.base.config import load_params

    plant_text(train__seed="010", train__lr="1e-3", data__column="off")
    ours, theirs = load_params(), YAML(typ="safe", pure=True).load(Path("params.yaml"))
    assert ours == theirs
    assert (ours["train"]["seed"], ours["train"]["lr"], ours["data"]["column"]) == (10, 1e-3, "off")


RULES = [
    ({"model": {"heads": 0}}, "model.heads = 0; allowed: a whole number >= 1"),
    (
        {"model": {"heads": 9}},
        "model.heads = 9; allowed: at most the embedding's width 8, or a head_width",
    ),
    ({"model": {"head_width": 0}}, "model.head_width = 0; allowed: a whole number >= 1"),
    ({"model": {"context": 1}}, "model.context = 1; allowed: a whole number >= 2"),
    (
        {"vocab": {"max_size": 46}, "beam_bench": {"widths": [51]}},
        "beam_bench.widths = 51; allowed: at most the vocab",
    ),
    ({"vocab": {"max_size": 40}}, "decode.top_k = 50; allowed: at most the vocabulary's 44, or 0"),
    (
        {"data": {"evaluation_stories": 2}},
        "evaluate.stories = 3, evaluate.tendency_sentences = 3; allowed: at most da",
    ),
    (
        {"train": {"layout": "stream", "tokens": 100}},
        "train.tokens = 100; allowed: at least 128, one update of",
    ),
    ({"train": {"warmup": 1.0}}, "train.warmup = 1.0; allowed: a number >= 0.0 and <= 0.99"),
    (
        {"evaluate": {"prompt_tokens": 31}},
        "evaluate.prompt_tokens = 31; allowed: at most 30, two less than model.cont",
    ),
    ({"seeds": {"more": [1]}}, "seeds.more names 1; allowed: seeds other than train.seed"),
    ({"embedding": {"min_n": 4, "max_n": 3}}, "embedding.min_n = 4; allowed: at most max_n = 3"),
]


@pytest.mark.parametrize(("changes", "message"), RULES)
def test_fault_21_rules_between_sections_hold_before_any_work(folder, capsys, changes, message):
    params = small_params()
    for section, values in changes.items():
        params[section] |= values
    plant(folder, params)
    (line,) = refused(capsys, "download")
    assert line.startswith(message)


def test_fault_21_a_vector_file_of_another_width_is_told_before_download(folder, capsys):
    Path("v.vec").write_text("1 3\na 1 2 3\n")
    params = small_params()
    params["embedding"] |= {"source": "file", "path": "v.vec"}
    plant(folder, params)
    assert run("download") == 2
    assert (
        capsys.readouterr().err == "error: v.vec, line 1: vectors of width 3; embedding.width = 8\n"
    )
    assert not Path("data").exists()


def test_fault_21_an_empty_validation_split_is_refused(folder, capsys):
    params = small_params()
    params["data"]["path"] = "set"
    plant(folder, params)
    Path("set").mkdir()
    Path("set/train.jsonl").write_text(Path("stories.jsonl").read_text())
    Path("set/validation.jsonl").write_text(json.dumps({"text": " "}) + "\n")
    assert run("download") == 2
    assert capsys.readouterr().err == "error: set: the evaluation split has no story with text\n"
    assert not list(Path("data").rglob("*.jsonl"))


@pytest.mark.parametrize("command", ["download", "train", "report"])
@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "params.yaml: is empty; allowed: a mapping of sections"),
        (
            b"train:\n  lr: 1\n  lr: 2\n",
            "params.yaml, line 3: key 'lr' appears twice; keep one of them",
        ),
        (
            b"train:\n\tlr: 1\n",
            "params.yaml, line 2: not YAML: found character '\\t' that cannot start any token",
        ),
        (b"a: \xff\n", "params.yaml, byte 3: not UTF-8; save the file as UTF-8"),
        (
            b"a: " + b"[" * 600,
            "params.yaml: nested too deeply; sections hold plain values and lists",
        ),
    ],
)
def test_fault_22_a_file_that_is_no_yaml_of_ours(folder, capsys, command, content, message):
    Path("params.yaml").write_bytes(content)
    assert run(command) == 2
    assert capsys.readouterr().err == f"error: {message}\n"
    assert not Path("data").exists()


def test_fault_23_a_preset_over_a_file_edited_by_hand(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    Path("dvc.yaml").touch()
    edited = preset_text(BASE).replace("layers: 4", "layers: 5")
    Path("params.yaml").write_text(edited)
    assert main(["preset", "word-50k"]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert "model.layers: 4 -> 5" in line
    assert line.endswith("--force writes over it")
    assert Path("params.yaml").read_text() == edited
    assert main(["preset", "word-50k", "--force"]) == 0
    assert Path("params.yaml").read_text() == preset_text("word-50k")
