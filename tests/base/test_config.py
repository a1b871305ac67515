import dataclasses
import math
from pathlib import Path

import pytest
from ruamel.yaml import YAML

from tinylm.base.config import InputError, load_params, parse_yaml, read_section, setting

PRESET = Path(__file__).parents[2] / "tinylm/presets/storybook.yaml"


MERGES = "a0: &a0 {k: 1}\n" + "".join(  # each line holds nine times as many keys as the one before
    f"a{i}: &a{i} {{<<: [{', '.join([f'*a{i - 1}'] * 9)}], k{i}: 1}}\n" for i in range(1, 9)
)


def test_values_are_those_of_yaml_1_2_as_dvc_reads_them():
    text = "a: [1e-3, 010, 0o10, off, yes, true, 1:30, 1_000, ~, '1', .inf]\n"
    value = parse_yaml(text, "params.yaml")
    assert value == {"a": [0.001, 10, 8, "off", "yes", True, "1:30", 1000, None, "1", math.inf]}
    assert str(value) == str(YAML(typ="safe", pure=True).load(text))


def test_the_preset_is_what_dvc_reads():
    assert str(load_params(PRESET)) == str(
        YAML(typ="safe", pure=True).load(PRESET.read_text("utf-8"))
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "p: is empty; allowed: a mapping of sections"),
        ("# only a comment\n", "p: is empty"),
        ("- 1\n- 2\n", r"p: holds \[1, 2\]; allowed: a mapping of sections"),
        ("just text", "p: holds 'just text'"),
        ("a: 1\nb: 2\na: 3\n", "p, line 3: key 'a' appears twice"),
        ("a:\n  b: 1\n  c: {d: 1, d: 2}\n", "p, line 3: key 'd' appears twice"),
        ("a: 1\n1: x\n0x1: y\n", "p, line 3: key '1' appears twice"),
        ("a:\n\tb: 1\n", r"p, line 2: not YAML: found character '\\t'"),
        ("a: 1\t# a tab\n", r"p, line 1: not YAML: found character '\\t'"),
        (
            "a: [1, 2\n",
            "p, line 2: not YAML: expected ',' or ']', but got '<stream end>'; a flow sequence begins in line 1",
        ),
        ("a: 'x\nb: 2\n", "p, line 3: not YAML: .* a quoted scalar begins in line 1"),
        (
            "a: 1\n b: 2\n",
            "p, line 2: not YAML: a ':' where none can stand; is one missing in the line before",
        ),
        ("a: *missing\n", "p, line 1: not YAML: found undefined alias"),
        ("a: 1\n---\nb: 2\n", "p, line 2: not YAML"),
        ("a: \x00\n", "p: not YAML: unacceptable character #x0000"),
        ("a: !!int abc\n", "p, line 1: not YAML: 'abc' is no int"),
        ("a: !!bool maybe\n", "p, line 1: not YAML: 'maybe' is no bool"),
        ("a: 2001-13-45\n", "p, line 1: not YAML: '2001-13-45' is no timestamp"),
        ("a: " + "9" * 5000 + "\n", "p, line 1: not YAML: '9+[.]+9+' is no int"),
        ("a: =\n", "p, line 1: not YAML: could not determine a constructor"),
        ("a: <<\n", "p, line 1: not YAML: could not determine a constructor"),
        (
            "a: !!python/object/apply:os.getcwd []\n",
            "p, line 1: not YAML: could not determine a constructor",
        ),
        ("a: " + "[" * 600 + "\n", "p: nested too deeply"),
        (MERGES, "p, line 6: not YAML: more than 10000 keys in one mapping"),
    ],
)
def test_text_that_is_not_a_mapping_of_sections_is_refused_with_its_line(text, message):
    with pytest.raises(InputError, match=f"^{message}") as caught:
        parse_yaml(text, "p")
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 200


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "params.yaml is missing; `tinylm preset storybook` writes one"),
        (b"a: caf\xe9\n", "params.yaml, byte 6: not UTF-8; save the file as UTF-8"),
        (b"\xff\xfea\x00", "params.yaml, byte 0: not UTF-8"),
        (b"a: 1\na: 2\n", "params.yaml, line 2: key 'a' appears twice"),
    ],
)
def test_a_file_that_cannot_be_read_is_named(tmp_path, monkeypatch, content, message):
    monkeypatch.chdir(tmp_path)
    if content is not None:
        Path("params.yaml").write_bytes(content)
    with pytest.raises(InputError) as caught:
        load_params()
    assert str(caught.value).startswith(message)


def test_a_folder_in_place_of_the_file_is_named(tmp_path):
    with pytest.raises(InputError, match="cannot be read: Is a directory"):
        load_params(tmp_path)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Settings:
    layers: int = setting(low=1, high=10)
    width: int | None = setting(low=1)
    rate: float = setting(above=0.0, high=1.0)
    bias: bool = setting()
    norm: str = setting(choices=("pre", "post"))
    sizes: tuple[int, ...] = setting(low=1, length=2)
    title: str = setting()

    def problems(self) -> list[str]:
        return ["layers = 7; allowed: not seven"] if self.layers == 7 else []


GOOD = {
    "layers": 3,
    "width": None,
    "rate": 1e-3,
    "bias": False,
    "norm": "pre",
    "sizes": [4, 2],
    "title": "x",
}


def read(**changes):
    return read_section({"model": GOOD | changes, "train": {}}, "model", Settings)


def test_good_values_come_through_with_their_types():
    settings = read(width=5, rate=1)
    assert settings == Settings(
        layers=3, width=5, rate=1.0, bias=False, norm="pre", sizes=(4, 2), title="x"
    )
    assert type(settings.rate) is float
    assert read().width is None


@pytest.mark.parametrize(
    ("key", "value", "allowed"),
    [
        ("layers", 0, "a whole number >= 1 and <= 10"),
        ("layers", 11, "a whole number >= 1 and <= 10"),
        ("layers", True, "a whole number >= 1 and <= 10"),
        ("layers", 3.0, "a whole number >= 1 and <= 10"),
        ("layers", "3", "a whole number >= 1 and <= 10"),
        ("layers", None, "a whole number >= 1 and <= 10"),
        ("layers", [3], "a whole number >= 1 and <= 10"),
        ("width", 0, "a whole number >= 1, or null"),
        ("width", False, "a whole number >= 1, or null"),
        ("width", "null", "a whole number >= 1, or null"),
        ("rate", "1e-3", "a number > 0.0 and <= 1.0"),
        ("rate", 0, "a number > 0.0 and <= 1.0"),
        ("rate", -0.5, "a number > 0.0 and <= 1.0"),
        ("rate", math.nan, "a number > 0.0 and <= 1.0"),
        ("rate", math.inf, "a number > 0.0 and <= 1.0"),
        ("rate", True, "a number > 0.0 and <= 1.0"),
        ("rate", {"a": 1}, "a number > 0.0 and <= 1.0"),
        ("bias", "off", "true or false"),
        ("bias", 0, "true or false"),
        ("bias", None, "true or false"),
        ("norm", "Pre", "pre | post"),
        ("norm", True, "pre | post"),
        ("sizes", 4, "a list of whole numbers, at least 2, all different, each >= 1"),
        ("sizes", [4], "a list of whole numbers, at least 2, all different, each >= 1"),
        ("sizes", [4, 4], "a list of whole numbers, at least 2, all different, each >= 1"),
        ("sizes", [4, 0], "a list of whole numbers, at least 2, all different, each >= 1"),
        ("sizes", [4, 2.0], "a list of whole numbers, at least 2, all different, each >= 1"),
        ("sizes", None, "a list of whole numbers, at least 2, all different, each >= 1"),
        ("title", 5, "a text"),
    ],
)
def test_a_wrong_value_is_named_with_what_is_allowed(key, value, allowed):
    with pytest.raises(InputError) as caught:
        read(**{key: value})
    assert str(caught.value) == f"params.yaml: model.{key} = {value!r}; allowed: {allowed}"


def test_a_whole_number_past_every_float_is_refused_and_shown_short():
    with pytest.raises(InputError, match=r"model\.rate = 1000.*allowed: a number") as caught:
        read(rate=10**4000)
    assert len(str(caught.value)) < 150


def test_an_unknown_key_is_named_with_the_nearest_one():
    with pytest.raises(
        InputError, match=r"^params.yaml: model\.layer is unknown; did you mean 'layers'\?$"
    ):
        read(layer=3)
    with pytest.raises(InputError, match=r"^params.yaml: model\.7 is unknown$"):
        read_section({"model": GOOD | {7: 1}}, "model", Settings)


def test_all_errors_come_at_once():
    section = {**GOOD, "rates": 1, "layers": 0, "bias": "no"}
    del section["title"]
    with pytest.raises(InputError) as caught:
        read_section({"model": section}, "model", Settings, "other.yaml")
    assert str(caught.value).splitlines() == [
        "other.yaml: model.rates is unknown; did you mean 'rate'?",
        "other.yaml: model.layers = 0; allowed: a whole number >= 1 and <= 10",
        "other.yaml: model.bias = 'no'; allowed: true or false",
        "other.yaml: model.title is missing; allowed: a text",
    ]


def test_rules_between_fields_are_asked_last():
    with pytest.raises(InputError, match=r"^params.yaml: model\.layers = 7; allowed: not seven$"):
        read(layers=7)


@pytest.mark.parametrize("section", [None, [], 3, "text"])
def test_a_section_that_is_no_mapping_is_refused(section):
    with pytest.raises(InputError, match="allowed: a mapping of settings"):
        read_section({"model": section}, "model", Settings)


def test_a_missing_section_is_named_and_no_misspelling_proposed():
    with pytest.raises(InputError, match=r"section 'model' is missing$"):
        read_section({"modell": GOOD, 1: {}}, "model", Settings)
