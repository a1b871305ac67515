"""Presets: every one is a whole, valid params.yaml; a hand-edited file is not lost."""

import dataclasses
import json
import re
from pathlib import Path

import pytest
from dvc.utils.hydra import apply_overrides
from hypothesis import given, settings
from hypothesis import strategies as st
from ruamel.yaml import YAML

from studies.records import published
from tinylm.base.config import InputError, load_params, parse_yaml
from tinylm.cli import main
from tinylm.params.params import SECTIONS, params_from
from tinylm.params.presets import write
from tinylm.params.presets.write import (
    differences,
    merge,
    names,
    preset_text,
    preset_values,
    write_preset,
)

BASE_FILE = write.FOLDER / "storybook.yaml"
BASE = """\
# head
train:        # stage train
  lr: 3e-3    # peak
  clip:       # null: off
  on: true
  widths:
  - 1
  - 5
  title: 'a: b'
"""

# Sections that decide a published result: a key that is not set there follows the default preset.
MARKED = ("model", "train", "decode", "cache", "evaluate", "beam_bench", "kv_bench")
MARKED += ("accum_sweep", "ckpt_bench")
KEYS = [
    (section, field.name, "tuple" in str(field.type))
    for section, kind in SECTIONS.items()
    for field in dataclasses.fields(kind)
]
LISTS = [each for each in KEYS if each[2]]


@st.composite
def a_key_and_values(draw):
    """(section, key, values to set one after the other): lists, or other values, as the key takes."""
    section, key, takes_lists = draw(st.sampled_from(KEYS + 30 * LISTS))
    items = [7, 0.5, "word", "two words"]
    values = st.lists(st.sampled_from(items), max_size=2) | st.none()
    if not takes_lists:
        values = st.sampled_from([None, *items])
    return section, key, draw(st.lists(values, min_size=2, max_size=4))


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("dvc.yaml").touch()
    return tmp_path


def comments_of(text):
    """All comments, in order, without their columns."""
    return [" ".join(comment.split()) for comment in re.findall(r"# .*", text)]


@settings(max_examples=30)
@given(st.sampled_from(names()), a_key_and_values(), st.booleans())
def test_values_are_set_one_after_the_other_and_all_comments_stay(name, key_and_values, by_dvc):
    """By `dvc exp run -S` or by a sweep. A comment beside a list that becomes empty would make it invalid YAML."""
    text = preset_text(name)
    expected = parse_yaml(text, name)
    section, key, values = key_and_values
    for value in values:
        if by_dvc:
            Path("params.yaml").write_text(text, "utf-8")
            apply_overrides("params.yaml", [f"{section}.{key}={json.dumps(value)}"])
            text = Path("params.yaml").read_text("utf-8")
        else:
            text = merge(text, json.dumps({section: {key: value}}), "-S")
        expected[section][key] = value
        assert parse_yaml(text, name) == expected
        assert comments_of(text) == comments_of(preset_text(name))


@pytest.mark.parametrize("name", names())
def test_a_preset_is_valid_and_reads_alike_with_dvcs_library(name):
    write_preset(name)
    expected = load_params(BASE_FILE)
    if name != "storybook":
        override = (write.FOLDER / f"{name}.yaml").read_text("utf-8")
        for section, values in parse_yaml(override, name).items():
            expected[section] |= values
    params = load_params()
    assert repr(params) == repr(expected)
    assert repr(YAML(typ="safe").load(Path("params.yaml"))) == repr(expected)
    params_from(params)


@pytest.mark.parametrize("system", published().values(), ids=lambda system: system["preset"])
def test_a_published_preset_sets_every_key_and_has_the_printed_values(system):
    text = (write.FOLDER / f"{system['preset']}.yaml").read_text("utf-8")
    params = parse_yaml(text, system["preset"])
    for section in MARKED:
        ours = load_params(BASE_FILE)[section]
        for key in ours.keys() - params[section].keys():  # only what is off may be left out
            default = SECTIONS[section].__dataclass_fields__[key].default
            assert ours[key] == default, f"{section}.{key}"
    for section in ("model", "train", "decode"):
        for key, value in system.get(section, {}).items():
            assert value == "none" or params[section].get(key, value) == value, key


def test_merge_changes_only_the_named_values():
    override = "# why\ntrain:\n  lr: null\n  on: false\n  widths: [2, 3, 4]\n"
    changed = BASE.replace("3e-3 ", "     ").replace("on: true", "on: false")
    changed = changed.replace("  - 1\n  - 5\n", "  - 2\n  - 3\n  - 4\n")
    assert merge(BASE, override, "x.yaml") == "# why\n" + changed


@pytest.mark.parametrize("comment", ["", " # why", "\n  # why"])
def test_merge_empties_a_list_below_comments(comment):
    base = f"train:\n  widths:{comment}\n  - 1 # one\n  - 5\n\nrest:\n  title: a b\n  on: true\n"
    merged = parse_yaml(merge(base, "train: {widths: []}", "x.yaml"), "x.yaml")
    assert merged == {"train": {"widths": []}, "rest": {"title": "a b", "on": True}}


@pytest.mark.parametrize(
    ("override", "named"),
    [
        ("train:\n  lrr: 1\n", "x.yaml: train"),
        ("trian:\n  lr: 1\n", "x.yaml: .*trian"),
        ("train: 5\n", "x.yaml: .*train"),
        ("train:\n  lr: 1\n  lr: 2\n", "x.yaml, line 3"),
    ],
)
def test_merge_refuses_what_the_base_does_not_have(override, named):
    with pytest.raises(InputError, match=named):
        merge(BASE, override, "x.yaml")


def test_differences_name_changed_new_and_lost_keys():
    old = {"a.x": 1, "a.y": None, "a.z": True}
    new = {"a.x": 1, "a.y": 0.5, "b": "t"}
    assert differences(old, new) == ["a.y: null -> 0.5", "b: (none) -> t", "a.z: true -> (none)"]


@pytest.mark.parametrize("name", write.HUB)
def test_the_hub_form_differs_in_where_its_files_are(name):
    write_preset(name)
    changed = write_preset(name, hub=True)
    assert "data.source: local -> hub" in changed
    assert {line.split(".")[0] for line in changed} <= {"data", "vocab", "embedding"}
    assert write.current() == name  # not taken for edited by hand
    params_from(load_params())
    assert preset_text(name, True).count(f"# {name}: ") == 1
    write_preset(name)
    assert Path("params.yaml").read_text("utf-8") == preset_text(name)


def test_another_source_is_a_hand_edit():
    write_preset("storybook")
    edited = BASE_FILE.read_text("utf-8").replace("source: storybook", "source: world", 1)
    Path("params.yaml").write_text(edited, "utf-8")
    assert write.current() is None
    with pytest.raises(InputError, match="--force"):
        write_preset("word-10k")


@pytest.mark.parametrize("hub", [False, True])
def test_a_hand_edit_is_refused(hub):
    write_preset("word-50k", hub=hub)
    text = Path("params.yaml").read_text("utf-8")
    edited = re.sub("^  context: .*", "  context: 4321", text, count=1, flags=re.MULTILINE)
    Path("params.yaml").write_text(edited, encoding="utf-8")
    with pytest.raises(InputError, match="--force"):
        write_preset("storybook")
    assert Path("params.yaml").read_text("utf-8") == edited
    assert write_preset("storybook", force=True)
    assert Path("params.yaml").read_bytes() == BASE_FILE.read_bytes()


@pytest.mark.parametrize("name", write.names())
def test_own_stories_do_not_hide_a_preset(name):
    write_preset(name, data="own/stories.txt")
    assert write.current() == name
    write_preset("storybook")  # is not refused


def test_a_file_without_a_place_is_no_preset():
    Path("params.yaml").write_text("data: {}\n", encoding="utf-8")
    assert write.current() is None


def test_the_stories_may_be_elsewhere(capsys):
    assert main(["preset", "word-10k", "--data", "own/stories.txt"]) == 0
    assert params_from(load_params()).data.path == "own/stories.txt"
    assert write.current() == "word-10k"  # not taken for edited by hand
    assert main(["preset", "word-10k", "--data", "x", "--hub"]) == 2
    assert params_from(load_params()).data.path == "own/stories.txt"


def test_the_command_writes_lists_and_refuses(capsys):
    assert main(["preset", "storybook"]) == 0
    assert main(["preset", "storybook"]) == 0
    capsys.readouterr()
    assert main(["preset", "word-50k"]) == 0
    *changed, _ = capsys.readouterr().out.splitlines()
    assert changed == differences(preset_values("storybook"), preset_values("word-50k"))
    assert main(["preset", "--list"]) == 0
    listed = capsys.readouterr().out.splitlines()
    assert [line[2:].split()[0] for line in listed] == names()
    assert [line.split()[1] for line in listed if line.startswith("*")] == ["word-50k"]


@pytest.mark.parametrize("words", [[], ["nope"], ["storybook", "--hub"]])
def test_a_preset_that_is_not_there_is_bad_input(words):
    assert main(["preset", *words]) == 2
    assert not Path("params.yaml").exists()
