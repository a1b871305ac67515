"""tinylm describe --check: right parts pass at the published sizes and at one's own, a broken part is named."""

import re
from pathlib import Path

import pytest
import torch
import yaml

from tinylm.base.config import load_params
from tinylm.cli import main, part_checks
from tinylm.model.settings import ModelSettings
from tinylm.model.transformer import Block, SelfAttention, TinyLM
from tinylm.presets.write import FOLDER

D = {
    "layers": 6, "heads": 8, "head_width": None, "feed_forward": 2048, "context": 64, "norm": "post",
    "activation": "relu", "init": "torch", "qkv_bias": False, "tied_output": False, "output_bias": True
}  # fmt: skip
E = {
    "layers": 2,
    "heads": 1,
    "feed_forward": 128,
    "context": 50,
    "norm_kind": "rms",
    "tied_output": False,
}


@pytest.fixture(autouse=True)
def plant(tmp_path, monkeypatch):
    """params.yaml of the storybook, a call changes its section `model`."""
    monkeypatch.chdir(tmp_path)

    def write(**changes):
        params = load_params(FOLDER / "storybook.yaml")
        params["model"] |= changes
        Path("params.yaml").write_text(yaml.safe_dump(params), "utf-8")

    write()
    return write


def check(capsys, vocab_size: int = 97, width: int = 24) -> tuple[int, str, str]:
    code = main(["describe", "--check", "--vocab-size", str(vocab_size), "--width", str(width)])
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def marks(out: str) -> list[str]:
    """The words of every line that carries a mark."""
    return [
        " ".join(line.split()) for line in out.splitlines() if re.search(r"  (ok|WRONG)$", line)
    ]


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {
            "heads": 5,
            "norm": "post",
            "norm_kind": "std",
            "positions": "learned",
            "output_bias": True,
        },
        {
            "heads": 1,
            "norm_kind": "rms",
            "positions": "none",
            "tied_output": False,
            "final_norm": False,
        },
        {"heads": 3, "head_width": 7, "qkv_bias": False, "context": 2, "init": "xavier"},
    ],
    ids=str,
)
def test_every_part_of_a_sound_model_passes(plant, capsys, changes):
    plant(**changes)
    code, out, err = check(capsys)
    assert (code, err) == (0, "")
    found = marks(out)
    assert len(found) > 25
    assert all(line.endswith(" ok") for line in found)


def test_the_published_sizes_are_shown(capsys):
    _, out, _ = check(capsys)
    found = marks(out)
    for line in (
        "embedding tokens 0-2 of 100 x 512 (3, 512) (3, 512) ok",
        "attention zeros (2, 10, 16) (2, 10, 16) (2, 10, 16) ok",
        "split into heads (32, 10, 512) (32, 10, 8, 64) (32, 10, 8, 64) ok",
        "block (32, 4, 512) (32, 4, 512) (32, 4, 512) ok",
        "decoder of 2 layers ids (2, 10) (2, 10, 512) (2, 10, 512) ok",
        "embedding tokens 0-2 of 97 x 24 (3, 24) (3, 24) ok",
        "split into heads (32, 10, 24) (32, 10, 4, 6) (32, 10, 4, 6) ok",
        "logits (2, 10, 97) (2, 10, 97) ok",
    ):
        assert line in found
    assert (
        "  positions, row 1         0.8415   0.5403   0.8219   0.5697  ...\n" in out
    )  # sin 1, cos 1, sin 0.9646...


def test_the_parameters_of_published_systems_part_by_part(plant, capsys):
    plant(**E)
    _, out, _ = check(capsys, 500, 128)
    assert "all parameters 326,784 326,784 ok" in marks(out)
    with torch.device("meta"):
        params = load_params(FOLDER / "storybook.yaml")["model"] | D
        blank = TinyLM(ModelSettings(**params), torch.empty(50_257, 512))
    found = {line.what: (line.found, line.ok) for line in part_checks.check_parameters(blank)}
    assert found == {
        "embedding": ("25,731,584", True), "blocks": ("18,905,088", True), "final norm": ("1,024", True),
        "output": ("25,781,841", True), "all": ("70,419,537", True)
    }  # fmt: skip


def doubled(original):
    return lambda self, *given, **named: 2 * original(self, *given, **named) + 1


def refuse(self, *given, **named):
    raise RuntimeError("sizes do not fit\nmore")


def swapped(self, x, original=SelfAttention.project):
    return original(self, x).transpose(1, 3)


def looks_ahead(self, x, mask, *rest, original=SelfAttention.forward, **named):
    return original(self, x, torch.zeros_like(mask), *rest, **named)


@pytest.mark.parametrize(
    ("place", "name", "broken", "named"),
    [
        (TinyLM, "vectors", doubled(TinyLM.vectors), "embedding rows"),
        (TinyLM, "vectors", lambda self, ids: self.embedding[ids][..., :5], "embedding"),
        (SelfAttention, "project", swapped, "split into heads"),
        (SelfAttention, "forward", looks_ahead, "attention weights"),
        (SelfAttention, "forward", looks_ahead, "all but the last state"),
        (SelfAttention, "forward", refuse, "attention"),
        (Block, "forward", refuse, "block"),
        (TinyLM, "logits", lambda self, hidden: hidden, "logits"),
    ],
)
def test_a_broken_part_is_marked_and_fails_in_one_line(
    monkeypatch, capsys, place, name, broken, named
):
    monkeypatch.setattr(place, name, broken)
    code, out, err = check(capsys)
    assert code == 1
    assert re.fullmatch(r"error: \d+ of 33 checks went wrong, marked above\n", err)
    wrong = [line for line in marks(out) if line.endswith(" WRONG")]
    assert any(line.startswith(named) for line in wrong)
    if broken is refuse:
        assert any("RuntimeError: sizes do not fit WRONG" in line for line in wrong)


def test_other_positions_than_the_papers_are_found(monkeypatch, capsys):
    original = TinyLM.__init__

    def shifted(self, *given):
        original(self, *given)
        self.positions = self.positions.roll(1, 1)

    monkeypatch.setattr(TinyLM, "__init__", shifted)
    code, out, _ = check(capsys)
    assert code == 1
    assert {line.split()[2] for line in marks(out) if line.endswith("WRONG")} == {"0", "1"}


def test_a_parameter_too_many_is_found(monkeypatch, capsys):
    original = Block.__init__

    def more(self, *given):
        original(self, *given)
        self.extra = torch.nn.Parameter(torch.zeros(1, device="meta"))

    monkeypatch.setattr(Block, "__init__", more)
    code, out, _ = check(capsys)
    assert code == 1
    assert [line.split()[0] for line in marks(out) if line.endswith("WRONG")] == ["blocks", "all"]


def test_a_model_past_the_memory_is_refused(capsys):
    code, _, err = check(capsys, 100_000_000, 8192)
    assert code == 2
    assert err.startswith("error: --check runs the model: 6107.7 GiB needed, ")
    assert err.count("\n") == 1
