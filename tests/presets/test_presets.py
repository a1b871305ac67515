"""Presets: every one is a whole, valid params.yaml; a hand-edited file is not lost."""

import re
from pathlib import Path

import pytest
from ruamel.yaml import YAML

from tinylm.base.config import InputError, load_params, parse_yaml
from tinylm.cli import main
from tinylm.host.params import read_sections
from tinylm.presets import write
from tinylm.presets.write import (
    differences,
    flatten,
    merge,
    names,
    preset_text,
    preset_values,
    write_preset,
)

OVERRIDES = [name for name in names() if name != "storybook"]
BASE_FILE = write.FOLDER / "storybook.yaml"
BASE = """\
# head
train:        # stage train
  lr: 3e-3    # peak
  clip: null  # null: off
  on: true
  widths: [1, 5]
  title: "a: b"
"""


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("dvc.yaml").touch()
    for name in ("data", "vocab"):  # what the complete preset reads
        Path(preset_values("storybook")[f"{name}.path"]).parent.mkdir(parents=True, exist_ok=True)
        Path(preset_values("storybook")[f"{name}.path"]).touch()
    return tmp_path


@pytest.mark.parametrize("name", names())
def test_preset_is_valid_in_every_section(name):
    assert read_sections(parse_yaml(preset_text(name), name))[1] == []


@pytest.mark.parametrize("name", names())
def test_written_values_are_those_of_base_and_override_to_our_loader_and_to_ruamel(name):
    write_preset(name)
    expected = load_params(BASE_FILE)
    if name != "storybook":
        for section, values in load_params(write.FOLDER / f"{name}.yaml").items():
            expected[section] |= values
    ours = load_params()
    theirs = YAML(typ="safe").load(Path("params.yaml"))  # what DVC reads
    assert repr(ours) == repr(expected)
    assert repr(theirs) == repr(expected)


@pytest.mark.parametrize("name", OVERRIDES)
def test_comments_of_the_base_survive(name):
    def comments(text):
        return [line.split("# ", 1)[1] for line in text.splitlines() if "# " in line]

    written = comments(preset_text(name))
    assert [line for line in comments(BASE_FILE.read_text("utf-8")) if line not in written] == []
    assert preset_text(name).startswith(f"# {name}: ")


def test_storybook_is_copied_byte_for_byte():
    write_preset("storybook")
    assert Path("params.yaml").read_bytes() == BASE_FILE.read_bytes()


def test_merge_changes_only_the_named_values():
    merged = merge(BASE, "# why\ntrain:\n  lr: 1e-4  # theirs\n  on: false\n", "x.yaml")
    assert merged == "# why\n" + BASE.replace("3e-3", "1e-4").replace("on: true", "on: false")


def test_merge_writes_null_and_lists_readably():
    merged = merge(BASE, "train:\n  lr: null\n  widths: [2, 3, 4]\n", "x.yaml")
    assert merged == BASE.replace("3e-3 ", "null ").replace("[1, 5]", "[2, 3, 4]")
    assert parse_yaml(merged, "m")["train"]["clip"] is None


@pytest.mark.parametrize(
    ("override", "named"),
    [
        ("train:\n  lrr: 1\n", "x.yaml: train.lrr is unknown"),
        ("trian:\n  lr: 1\n", "x.yaml: section 'trian'"),
        ("train: 5\n", "x.yaml: section 'train'"),
        ("train:\n  lr: 1\n  lr: 2\n", "x.yaml, line 3: key 'lr' appears twice"),
    ],
)
def test_merge_refuses_what_the_base_does_not_have(override, named):
    with pytest.raises(InputError) as error:
        merge(BASE, override, "x.yaml")
    assert str(error.value).startswith(named)


def test_differences_name_changed_new_and_lost_keys():
    old, new = {"a.x": 1, "a.y": None, "a.z": True}, {"a.x": 1, "a.y": 0.5, "b": "t"}
    assert differences(old, new) == ["a.y: null -> 0.5", "b: (none) -> t", "a.z: true -> (none)"]


def test_flatten_keeps_values_outside_sections():
    assert flatten({"a": {"x": 1}, "b": 2}) == {"a.x": 1, "b": 2}


@pytest.mark.parametrize("name", OVERRIDES)
def test_there_and_back_is_the_same_file(name):
    write_preset("storybook")
    changed = write_preset(name)
    assert changed == differences(preset_values("storybook"), preset_values(name))
    assert load_params() == parse_yaml(preset_text(name), name)
    write_preset("storybook")
    assert Path("params.yaml").read_bytes() == BASE_FILE.read_bytes()


def edit(pattern: str, new: str) -> None:
    text, count = re.subn(pattern, new, Path("params.yaml").read_text("utf-8"), flags=re.MULTILINE)
    assert count
    Path("params.yaml").write_text(text, encoding="utf-8")


def test_hand_edit_is_refused_and_named_against_the_nearest_preset():
    write_preset("word-50k")
    edit("^  context: .*", "  context: 4321")
    theirs, base = (preset_values(name)["model.context"] for name in ("word-50k", "storybook"))
    before = Path("params.yaml").read_bytes()
    with pytest.raises(InputError) as error:
        write_preset("storybook")
    named = f"params.yaml was edited since preset word-50k was written (model.context: {theirs} -> 4321); --force"
    assert str(error.value).startswith(named)
    assert Path("params.yaml").read_bytes() == before
    assert f"model.context: 4321 -> {base}" in (write_preset("storybook", force=True) or [])
    assert Path("params.yaml").read_bytes() == BASE_FILE.read_bytes()


def test_a_long_list_of_edits_is_cut():
    write_preset("storybook")
    edit("^  (?=[a-z])", "  new_")
    with pytest.raises(InputError, match=r", and \d+ more\)"):
        write_preset("storybook")


def test_comments_edited_by_hand_stay_where_the_values_are_the_presets():
    write_preset("storybook")
    edit("# D, the model's width", "# mine")
    before = Path("params.yaml").read_bytes()
    assert write_preset("storybook") == []
    assert Path("params.yaml").read_bytes() == before


@pytest.mark.parametrize("content", [b"train: [\n", b"\xff\xfe", b"", b"a: 1\na: 2\n"])
def test_unreadable_params_are_kept_unless_forced(content):
    Path("params.yaml").write_bytes(content)
    with pytest.raises(InputError, match=r"params\.yaml"):
        write_preset("storybook")
    assert Path("params.yaml").read_bytes() == content
    assert write_preset("storybook", force=True) is None
    assert Path("params.yaml").read_bytes() == BASE_FILE.read_bytes()


def test_command_writes_lists_and_refuses(capsys):
    assert main(["preset", "storybook"]) == 0
    assert capsys.readouterr().out == "params.yaml: preset storybook written; dvc repro runs it\n"
    assert main(["preset", "storybook"]) == 0
    assert capsys.readouterr().out == "params.yaml holds preset storybook already\n"
    assert main(["preset", "word-50k"]) == 0
    out = capsys.readouterr().out.splitlines()
    assert differences(preset_values("storybook"), preset_values("word-50k")) == out[:-1]
    assert out[-1].startswith(
        f"params.yaml: preset word-50k written, {len(out) - 1} values changed"
    )
    assert main(["preset", "--list"]) == 0
    listed = capsys.readouterr().out.splitlines()
    assert max(map(len, listed)) <= 100
    lines = [line for line in listed if line[2] != " "]  # long titles go on in a further line
    assert [line[2:].split()[0] for line in lines] == names()
    assert [line.split()[1] for line in lines if line.startswith("*")] == ["word-50k"]
    edit("^  context: .*", "  context: 4321")
    assert main(["preset", "storybook"]) == 2
    assert " -> 4321); --force writes over it" in capsys.readouterr().err
    assert main(["preset", "storybook", "--force"]) == 0


@pytest.mark.parametrize("words", [["preset"], ["preset", "nope"]])
def test_command_without_a_known_name_is_bad_input(words, capsys):
    assert main(words) == 2
    assert "allowed: storybook | " in capsys.readouterr().err
    assert not Path("params.yaml").exists()


@pytest.mark.parametrize("name", write.hub_names())
def test_hub_form_is_valid_differs_in_where_its_files_are_and_is_the_presets_own(name, folder):
    write_preset(name)
    changed = write_preset(name, hub=True)
    assert "data.source: local -> hub" in changed
    assert {line.split(".")[0] for line in changed} <= {"data", "vocab", "embedding"}
    official = "embedding.hub_id: null -> facebook/fasttext-en-vectors" in changed
    assert official == (
        name in ("assignment-baseline", "word-50k", "word-10k")
    )  # whose sources name pretrained ones
    assert write.current() == name  # not taken for edited by hand
    assert read_sections(load_params())[1] == []
    assert preset_text(name, True).count(f"# {name}: ") == 1
    write_preset(name)
    assert Path("params.yaml").read_text("utf-8") == preset_text(name)


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (
            ["word-50k"],
            "before dvc repro: data.path = '../shared/tinystories': no such file or folder; set data.path, or tinylm "
            "preset word-50k --hub, with data from the Hugging Face hub",
        ),
        (["word-50k", "--hub"], "dvc repro runs it"),
        (
            ["shakespeare-bpe"],
            "before dvc repro: data.path = '../shared/tinyshakespeare/input.txt': no such file or folder; set "
            "data.path",
        ),
    ],
)
def test_a_preset_whose_data_are_absent_says_where_they_come_from(words, told, capsys):
    assert main(["preset", *words]) == 0
    assert capsys.readouterr().out == f"params.yaml: preset {words[0]} written; {told}\n"


def test_a_preset_without_hub_data_refuses_the_option(folder, capsys):
    assert main(["preset", "shakespeare-bpe", "--hub"]) == 2
    assert "shakespeare-bpe has no data on the hub" in capsys.readouterr().err
