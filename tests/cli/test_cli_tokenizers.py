"""The commands over vocabularies with other roles than words have: no special token, bytes that are no character."""

import io
from pathlib import Path

import pytest
import torch
import yaml

from tinylm.api.language_model import pieces
from tinylm.base.config import load_params, read_section
from tinylm.cli import main
from tinylm.model.checkpoint import save_model
from tinylm.model.settings import ModelSettings
from tinylm.model.transformer import TinyLM
from tinylm.presets.write import BASE, preset_text
from tinylm.vocab.settings import VocabSettings
from tinylm.vocab.tokenizer import make_tokenizer

TEXTS = ["The 😀 cat sat on the mat.\nThe cat ran, é!", "THE DOG ran; the dog's cat sat. 日本"]
SIZES = {"bpe": 270, "longest_match": 60}


@pytest.fixture(params=SIZES)
def tokenizer(request, tmp_path, monkeypatch):
    """A vocabulary of each kind in a folder with a model of it, which is the working folder."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.stdin", io.StringIO(""))
    Path("params.yaml").write_text(preset_text(BASE), "utf-8")
    params = load_params()
    params["runtime"]["threads"] = 1
    params["vocab"] |= {"tokenizer": request.param, "max_size": SIZES[request.param]}
    params["model"] |= {"layers": 1, "heads": 2, "feed_forward": 8, "context": 16}
    Path("params.yaml").write_text(yaml.safe_dump(params), "utf-8")
    made, _ = make_tokenizer(read_section(params, "vocab", VocabSettings), lambda: TEXTS)
    made.save("data/vocab/tokenizer.json")
    torch.manual_seed(1)
    model = TinyLM(read_section(params, "model", ModelSettings), torch.randn(len(made), 12))
    save_model("models", model, layout="stream")
    return made


@pytest.mark.parametrize("options", [[], ["--beams", "3"], ["--no-cache", "--log-probs"]])
def test_a_prompt_is_continued(tokenizer, capsys, options):
    assert main(["generate", "the cat", "--max-tokens", "25", *options]) == 0
    text = capsys.readouterr().out
    assert text.startswith("the cat")
    assert len(text) > len("the cat\n")


def test_an_empty_prompt_needs_a_token_that_opens_a_text(tokenizer, capsys):
    opens = tokenizer.sos_id is not None
    assert main(["generate", "", "--max-tokens", "3"]) == (0 if opens else 2)
    assert main(["attention", "", "--output", "a.png"]) == (0 if opens else 2)
    errors = capsys.readouterr().err.splitlines()
    assert len(errors) == (0 if opens else 2)


def test_a_character_of_several_tokens_is_shown_when_it_is_whole(tokenizer):
    ids = tokenizer.encode_story("a😀c日")
    parts = list(pieces(tokenizer, (ids[:end] for end in range(1, len(ids) + 1))))
    assert "\ufffd" not in "".join(parts)
    assert "".join(parts) == "a😀c日"
    cut = ids[:-2] if tokenizer.eos_id is not None else ids[:-1]
    assert list(pieces(tokenizer, [cut])) == ["a😀c", "\ufffd"]


@pytest.mark.parametrize("options", [[], ["--beams", "3"]])
@pytest.mark.parametrize("tokenizer", ["bpe"], indirect=True)
def test_control_characters_do_not_reach_the_terminal(tokenizer, capsys, options):
    hostile = "a\x1b]0;x\x07\u202e é"
    assert main(["generate", hostile, "--max-tokens", "0", *options]) == 0
    assert capsys.readouterr().out == "a ]0;x  é\n"
