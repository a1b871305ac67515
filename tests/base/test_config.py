"""params.yaml is read as DVC reads it, and every error is named at once with its key path."""

import dataclasses
import math
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tinylm.base.config import InputError, load_params, parse_yaml, read_section, read_yaml, setting
from tinylm.params.presets.write import FOLDER


def test_values_are_those_of_yaml_1_2_as_dvc_reads_them():
    text = "a: [1e-3, 010, 0o10, off, yes, true, 1:30, 1_000, ~, '1', .inf]\n"
    value = parse_yaml(text, "params.yaml")
    assert value == {"a": [0.001, 10, 8, "off", "yes", True, "1:30", 1000, None, "1", math.inf]}


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("", None),
        ("just text", None),
        ("a: 1\nb: 2\na: 3\n", 3),
        ("a:\n\tb: 1\n", 2),
        ("a: [1, 2\n", 2),
        ("a: 1\n---\nb: 2\n", 2),
        ("a: " + "9" * 5000 + "\n", None),
        ("a: " + "[" * 600 + "\n", None),
    ],
)
def test_text_that_is_not_a_mapping_of_sections_is_one_line_with_its_place(text, line):
    with pytest.raises(InputError) as caught:
        parse_yaml(text, "p")
    message = str(caught.value)
    assert "\n" not in message
    assert len(message) < 300
    assert message.startswith("p: " if line is None else f"p, line {line}: ")


PRESET = (FOLDER / "storybook.yaml").read_text("utf-8").splitlines()
SETTINGS = [number for number, line in enumerate(PRESET) if re.match(r"  \w+: +[\w.]", line)]
# A section with a single setting is left out: without the space, the section is a valid text.
SETTINGS = [number for number in SETTINGS if {number - 1, number + 1} & set(SETTINGS)]


@given(st.sampled_from(SETTINGS))
def test_a_setting_without_the_space_after_its_colon_is_named_by_its_line(number):
    lines = PRESET.copy()
    lines[number] = re.sub(r": +", ":", lines[number], count=1)
    with pytest.raises(InputError, match=f"^p, line {number + 1}: "):
        parse_yaml("\n".join(lines), "p")


@pytest.mark.parametrize("content", [b"a: caf\xe9\n", b"\xff\xfea\x00", b"a: 1\na: 2\n"])
def test_a_file_that_cannot_be_read_is_named(tmp_path, monkeypatch, content):
    monkeypatch.chdir(tmp_path)
    Path("params.yaml").write_bytes(content)
    with pytest.raises(InputError, match=r"^params\.yaml"):
        load_params()


def test_only_a_missing_params_file_is_answered_with_a_preset(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError, match=r"^params\.yaml .*tinylm preset"):
        load_params()
    with pytest.raises(InputError, match=r"^dvc\.lock is missing$"):
        read_yaml("dvc.lock")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Settings:
    layers: int = setting(low=1, high=10)
    threads: int = setting(low=1, auto=4)
    width: int | None = setting(low=1)
    rate: float = setting(above=0.0, high=1.0)
    bias: bool = setting()
    norm: str = setting(choices=("pre", "post"))
    compile: str = setting(choices=("true", "false", "auto"))
    sizes: tuple[int, ...] = setting(low=1, length=2)
    title: str = setting()

    def problems(self) -> list[str]:
        return ["layers: expected another number, got 7"] if self.layers == 7 else []


GOOD = {
    "layers": 3,
    "threads": "auto",
    "width": None,
    "rate": 1e-3,
    "bias": False,
    "norm": "pre",
    "compile": True,
    "sizes": [4, 2],
    "title": "x",
}


def read(**changes):
    return read_section({"model": GOOD | changes, "train": {}}, "model", Settings)


def test_good_values_come_through_with_their_types():
    settings = read(width=5, rate=1)
    assert settings.width == 5
    assert (settings.threads, read(threads=9).threads) == (4, 9)
    assert type(settings.rate) is float
    assert settings.compile == "true"
    assert settings.sizes == (4, 2)
    assert read().width is None


@pytest.mark.parametrize(
    ("key", "values"),
    [
        ("layers", [0, 11, True, 3.0, "3", None, [3]]),
        ("threads", [0, "Auto", None]),
        ("width", [0, False, "null"]),
        ("rate", ["1e-3", 0, -0.5, math.nan, math.inf, True, {"a": 1}, 10**4000]),
        ("bias", ["off", 0, None]),
        ("norm", ["Pre", True]),
        ("compile", [None, 1]),
        ("sizes", [4, [4], [4, 4], [4, 0], [4, 2.0], None]),
        ("title", [5]),
    ],
)
def test_a_wrong_value_is_one_short_line_with_its_key_and_what_is_allowed(key, values):
    for value in values:
        with pytest.raises(InputError) as caught:
            read(**{key: value})
        message = str(caught.value)
        assert message.startswith(f"params.yaml: model.{key}: ")
        assert "\n" not in message
        assert len(message) < 200


def test_an_unknown_key_is_named_with_the_nearest_one():
    with pytest.raises(InputError, match=r"model\.layer is unknown.*'layers'"):
        read(layer=3)
    with pytest.raises(InputError, match=r"model\.7 is unknown"):
        read_section({"model": GOOD | {7: 1}}, "model", Settings)


def test_all_errors_come_at_once():
    section = {**GOOD, "rates": 1, "layers": 0, "bias": "no"}
    del section["title"]
    with pytest.raises(InputError) as caught:
        read_section({"model": section}, "model", Settings, "other.yaml")
    keys = [line.split()[1].rstrip(":") for line in str(caught.value).splitlines()]
    assert keys == ["model.rates", "model.layers", "model.bias", "model.title"]


def test_rules_between_fields_are_checked_too():
    with pytest.raises(InputError, match=r"^params.yaml: model\.layers: .*7"):
        read(layers=7)
