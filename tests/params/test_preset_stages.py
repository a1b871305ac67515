"""Every preset through all its stages on a few stories: its own kinds of everything, small sizes, no network."""

import itertools
import json
from pathlib import Path

import pytest

from tests.support import stages
from tests.support.stages import ORDER, STORIES, plant, read, run
from tinylm.base.config import parse_yaml
from tinylm.params.presets.write import names, preset_text

SMALL = (
    stages.SMALL
    | {  # sizes only: which tokenizer, norm, positions, layout ... stay the preset's
        "data": {"train_stories": None, "evaluation_stories": None, "held_out_share": 0.2},
        "embedding": {"width": 24},
        "model": {"layers": 2, "feed_forward": 16, "context": 16},
        "train": {"batch_size": 4, "validate_every": 5},
        "runtime": {"threads": 1, "device": "cpu"},
    }
)
PLAY = "\n".join(
    f"{who}:\n{line}\nAnd {line.lower()}\n" for who in ("KING", "Fool") for line in STORIES[:6]
)


def small(name: str) -> dict:
    """The preset's parameters with small sizes and a corpus of the current folder."""
    params = parse_yaml(preset_text(name), name)
    for section, values in SMALL.items():
        assert set(values) <= set(params[section])
        params[section] |= values
    if params["train"]["epochs"] is None:
        params["train"]["tokens"] = 1500
    else:
        params["train"]["epochs"] = 2.0
    if params["train"]["keep_epochs"]:
        params["train"]["keep_epochs"] = [1, 2]
    if params["model"]["head_width"] is not None:
        params["model"]["head_width"] = 3
    params["data"] |= {"source": "local", "path": "stories.jsonl"}
    if params["data"]["drop_first_line"]:
        params["data"]["path"] = "play.txt"
    if params["data"]["overlap"]:
        params["data"]["overlap"] = params["model"]["context"]
    if params["vocab"]["max_size"] is not None:
        params["vocab"]["max_size"] = 300 if params["vocab"]["tokenizer"] == "bpe" else 60
    if params["vocab"]["tokenizer"] == "gpt2":
        params["vocab"]["path"] = "gpt2"
    return params


def plant_gpt2(folder: Path) -> None:
    """A vocabulary of GPT-2's form and size, 50,257 ids: bytes, 50,000 pairs, <|endoftext|>."""
    from tokenizers.pre_tokenizers import ByteLevel

    symbols = sorted(ByteLevel.alphabet())
    pairs = list(itertools.islice(itertools.product(symbols, symbols), 50_000))
    tokens = [*symbols, *("".join(pair) for pair in pairs), "<|endoftext|>"]
    folder.mkdir()
    ids = {token: number for number, token in enumerate(tokens)}
    (folder / "vocab.json").write_text(json.dumps(ids), encoding="utf-8")
    merges = "".join(f"{left} {right}\n" for left, right in pairs)
    (folder / "merges.txt").write_text("#version: 0.2\n" + merges, encoding="utf-8")


@pytest.mark.parametrize("name", names())
def test_a_preset_runs_through_all_its_stages(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    params = small(name)
    plant(tmp_path, params)
    Path("play.txt").write_text(PLAY, encoding="utf-8")
    if name == "gpt2-bpe":  # whose own vocabulary is not at hand: this one stands in for it
        plant_gpt2(tmp_path / "gpt2")
    assert {command: run(command) for command in ORDER} == dict.fromkeys(ORDER, 0)
    evaluated = read(Path("data/figures/evaluate.json"))
    assert 1.0 < evaluated["perplexity"] < read(Path("data/figures/vocab.json"))["size"] * 2
    assert read(Path("data/figures/kv_bench.json"))["same_ids"] is True
    for path in Path("data/times").glob("*.json"):
        assert read(path).get("not_measured", []) == [], path.name
    assert "<h2>Gradient checkpointing</h2>" in Path("report/index.html").read_text("utf-8")
