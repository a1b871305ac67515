import dataclasses
import json
import sys
import types
from pathlib import Path

import pytest
import tokenizers

from tinylm.base.config import InputError
from tinylm.vocab import gpt2
from tinylm.vocab.byte_level import CHARACTER_OF
from tinylm.vocab.gpt2 import load_gpt2, vocabulary_sha256
from tinylm.vocab.settings import VocabSettings
from tinylm.vocab.tokenizer import open_tokenizer

END_OF_TEXT = "<|endoftext|>"
SHARED = Path(__file__).resolve().parents[3] / "shared" / "gpt2"
SETTINGS = VocabSettings(tokenizer="gpt2", lower_case=False, punctuation="keep")
BYTES = list(CHARACTER_OF.values())
WORDS = [("Ġ", "t"), ("Ġt", "h"), ("Ġth", "e"), ("c", "a"), ("Ġ", "ca"), ("Ġca", "t")]
PAIRS = [(left, right) for right in BYTES for left in BYTES if left + right not in ("Ġt", "ca")]
MERGES = [
    *WORDS,
    *PAIRS[: 50_000 - len(WORDS)],
]  # of GPT-2's size, which takes any merges in any order
TOKENS = [*BYTES, *(left + right for left, right in MERGES), END_OF_TEXT]


@pytest.fixture
def published(monkeypatch):
    """The vocabulary above counts as the published one."""
    monkeypatch.setattr(gpt2, "PUBLISHED_SHA256", vocabulary_sha256(TOKENS, MERGES))


def write_folder(folder, names=("vocab.json", "merges.txt"), head=""):
    folder.mkdir(exist_ok=True)
    ids = {token: index for index, token in enumerate(TOKENS)}
    (folder / names[0]).write_text(json.dumps(ids), "utf-8")
    lines = "".join(f"{left} {right}\n" for left, right in MERGES)
    (folder / names[1]).write_text(head + lines, "utf-8")
    return folder


def load(path):
    return load_gpt2(dataclasses.replace(SETTINGS, path=str(path)))


def test_both_layouts_give_the_same(tmp_path, published):
    hugging_face = load(write_folder(tmp_path / "a"))
    openai = load(write_folder(tmp_path / "b", ("encoder.json", "vocab.bpe"), "#version: 0.2\n"))
    assert hugging_face.tokens == openai.tokens == TOKENS
    assert hugging_face.encode("the cat") == openai.encode("the cat")


def test_one_token_serves_every_role_and_no_text_spells_it(tmp_path, published):
    own = load(write_folder(tmp_path / "a"))
    assert {own.sos_id, own.eos_id, own.pad_id} == own.specials == {50_256}
    assert (own.unk_id, own.tokens[50_256], own.word_of(50_256), own.lossless) == (
        None,
        END_OF_TEXT,
        "",
        True,
    )
    text = f"{END_OF_TEXT} the cat{END_OF_TEXT}"
    assert own.encode_story(text) == [50_256, *own.encode(text), 50_256]
    assert 50_256 not in own.encode(text)
    assert own.decode(own.encode_story(text)) == own.normalise(text) == text
    assert own.split(" the cats") == ["Ġthe", "Ġcat", "s"]
    assert own.word_of(own.tokens.index("Ġthe")) == "the"


def test_the_saved_file_is_the_library_s(tmp_path, published):
    own = load(write_folder(tmp_path / "a"))
    own.save(tmp_path / "tokenizer.json")
    library = tokenizers.Tokenizer.from_file(str(tmp_path / "tokenizer.json"))
    loaded = open_tokenizer(tmp_path / "tokenizer.json")
    assert (loaded.kind, loaded.tokens) == ("gpt2", TOKENS)
    for text in ["the cat sat", "naïve 日本 😀\n\n x", END_OF_TEXT, ""]:
        assert own.encode(text) == library.encode(text).ids == loaded.encode(text)
        assert own.decode(own.encode(text)) == text


def damage(path, old, new):
    content = path.read_text("utf-8")
    assert content.count(old) >= 1
    path.write_text(content.replace(old, new, 1), "utf-8")


@pytest.mark.parametrize(
    ("name", "old", "new"),
    [
        ("vocab.json", '"!": 33', '"!": "33"'),
        ("vocab.json", '"!": 33, ', ""),
        ("vocab.json", '"!": 33', '"!!!": 33'),
        ("vocab.json", "{", "["),
        ("merges.txt", "Ġt h\n", "Ġt h e\n"),
        ("merges.txt", "Ġt h\n", ""),
        ("merges.txt", "Ġ t\nĠt h\n", "Ġt h\nĠ t\n"),
    ],
)
def test_a_damaged_folder_is_refused_in_one_line(tmp_path, published, name, old, new):
    folder = write_folder(tmp_path / "a")
    damage(folder / name, old, new)
    with pytest.raises(InputError) as caught:
        load(folder)
    assert str(folder) in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("name", ["nowhere", "empty", "gpt2.py", "half"])
def test_other_paths_are_refused(tmp_path, name):
    (tmp_path / "empty").mkdir()
    (tmp_path / "half").mkdir()
    (tmp_path / "half" / "vocab.json").write_text("{}")
    (tmp_path / "gpt2.py").write_text("")
    with pytest.raises(
        InputError,
        match=r"vocab\.path = ",
    ):
        load(tmp_path / name)


@pytest.mark.parametrize("content", [b"\xff\xfe", b"[" * 100_000, b"[]", b"{}", b"\x00"])
def test_a_file_that_is_no_vocabulary_is_refused(tmp_path, content):
    folder = write_folder(tmp_path / "a")
    (folder / "vocab.json").write_bytes(content)
    with pytest.raises(InputError):
        load(folder)


def test_a_tokenizer_file_that_is_not_gpt2_s_is_refused(tmp_path, published, monkeypatch):
    own = load(write_folder(tmp_path / "a"))
    own.save(tmp_path / "tokenizer.json")
    monkeypatch.undo()
    with pytest.raises(InputError, match=r"tokenizer\.json: not GPT-2's published vocabulary"):
        open_tokenizer(tmp_path / "tokenizer.json")


def test_from_the_hub(tmp_path, published, monkeypatch):
    folder = write_folder(tmp_path / "a")
    asked = []

    def download(hub_id, name, revision, etag_timeout):
        asked.append((hub_id, name, revision))
        return str(folder / name)

    monkeypatch.setitem(
        sys.modules, "huggingface_hub", types.SimpleNamespace(hf_hub_download=download)
    )
    settings = dataclasses.replace(SETTINGS, hub_id="who/what", hub_revision="f00", path="nowhere")
    assert len(load_gpt2(settings)) == 50_257
    assert asked == [("who/what", "vocab.json", "f00"), ("who/what", "merges.txt", "f00")]

    def fail(*_, **__):
        raise OSError("no network\nmore")

    monkeypatch.setitem(sys.modules, "huggingface_hub", types.SimpleNamespace(hf_hub_download=fail))
    with pytest.raises(
        InputError,
        match=r"vocab\.hub_id = 'who/what'",
    ) as e:
        load_gpt2(settings)
    assert "\n" not in str(e.value)


@pytest.mark.skipif(not SHARED.is_dir(), reason="no ../shared/gpt2")
def test_the_published_vocabulary():
    own = load(SHARED)
    assert len(own) == 50_257
    assert own.encode("Hello world!") == [15496, 995, 0]
    assert own.split(" TinyStories") == ["ĠTiny", "St", "ories"]
