import dataclasses
import json

import pytest
import tokenizers

from tinylm.base.config import InputError
from tinylm.vocab.byte_level import CHARACTER_OF
from tinylm.vocab.gpt2 import load_gpt2
from tinylm.vocab.kinds import open_tokenizer
from tinylm.vocab.settings import VocabSettings

END_OF_TEXT = "<|endoftext|>"
SETTINGS = VocabSettings(tokenizer="gpt2", lower_case=False)
MERGES = [("Ġ", "t"), ("Ġt", "h"), ("Ġth", "e"), ("c", "a"), ("Ġ", "ca"), ("Ġca", "t")]
TOKENS = [*CHARACTER_OF.values(), *(left + right for left, right in MERGES), END_OF_TEXT]
END = len(TOKENS) - 1


def write_folder(folder):
    folder.mkdir(exist_ok=True)
    ids = {token: index for index, token in enumerate(TOKENS)}
    (folder / "vocab.json").write_text(json.dumps(ids), "utf-8")
    lines = "".join(f"{left} {right}\n" for left, right in MERGES)
    (folder / "merges.txt").write_text("#version: 0.2\n" + lines, "utf-8")
    return folder


def load(path):
    return load_gpt2(dataclasses.replace(SETTINGS, path=str(path)))


def test_the_saved_file_is_the_library_s(tmp_path):
    tokenizer = load(write_folder(tmp_path / "a"))
    tokenizer.save(tmp_path / "tokenizer.json")
    library = tokenizers.Tokenizer.from_file(str(tmp_path / "tokenizer.json"))
    loaded = open_tokenizer(tmp_path / "tokenizer.json")
    assert tokenizer.tokens == loaded.tokens == TOKENS
    assert loaded.kind == "gpt2"
    for text in ["the cat sat", "naïve 日本 😀\n\n x", END_OF_TEXT, ""]:
        ids = tokenizer.encode(text)
        assert ids == library.encode(text).ids == loaded.encode(text)


def test_one_token_serves_every_role_and_no_text_spells_it(tmp_path):
    tokenizer = load(write_folder(tmp_path / "a"))
    assert {tokenizer.sos_id, tokenizer.eos_id, tokenizer.pad_id} == tokenizer.specials == {END}
    text = f"{END_OF_TEXT} the cat{END_OF_TEXT}"
    assert tokenizer.encode_story(text) == [END, *tokenizer.encode(text), END]
    assert END not in tokenizer.encode(text)
    assert tokenizer.decode(tokenizer.encode_story(text)) == tokenizer.normalise(text) == text
    assert tokenizer.split(" the cats") == ["Ġthe", "Ġcat", "s"]


def test_other_paths_are_refused(tmp_path):
    (tmp_path / "vocab.json").write_text("{}")
    for path in (tmp_path, tmp_path / "nowhere"):
        with pytest.raises(InputError, match=r"vocab\.path"):
            load(path)


def test_a_folder_that_dvc_does_not_hash_is_refused(tmp_path):
    (write_folder(tmp_path / "a") / ".dvc").mkdir()
    with pytest.raises(InputError, match=r"vocab\.path"):
        load(tmp_path / "a")
