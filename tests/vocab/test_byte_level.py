"""Tokens over bytes: equal to the library `tokenizers`, whether trained here or GPT-2's."""

import dataclasses
import json
import random

import pytest
import tokenizers
from tokenizers import decoders, pre_tokenizers

from tinylm.base.config import InputError
from tinylm.vocab.bpe import SPECIALS, train_bpe
from tinylm.vocab.byte_level import BYTE_OF, CHARACTER_OF, ByteTokens, checked
from tinylm.vocab.gpt2 import load_gpt2
from tinylm.vocab.open_tokenizer import open_tokenizer
from tinylm.vocab.settings import VocabSettings

PIECES = [
    " ", "  ", "\n", "\t", "\u00a0", "a", "it's", "Don't", "12", "3", ".", "?!", "é", "日本", "😀", "\ufffd",
    "<|endoftext|>", "<eos>", "a<sos>b", "\0\x7f\ufeff", "İSTANBUL ΟΔΟΣ", "zebra" * 40
]  # fmt: skip


def hostile_texts(count, longest):
    chooser = random.Random(5)
    return ["".join(chooser.choices(PIECES, k=chooser.randint(0, longest))) for _ in range(count)]


def test_the_characters_are_those_of_the_library():
    assert sorted(BYTE_OF) == sorted(pre_tokenizers.ByteLevel.alphabet())
    assert (CHARACTER_OF[ord(" ")], CHARACTER_OF[ord("\n")]) == ("Ġ", "Ċ")
    assert [BYTE_OF[CHARACTER_OF[byte]] for byte in range(256)] == list(range(256))


def test_decoding_equals_the_library_even_within_a_character():
    tokens = ["<eos>", *(CHARACTER_OF[byte] for byte in range(256))]
    byte_tokens = ByteTokens(tokens, specials=[0])
    for text in hostile_texts(200, 20):
        ids = [byte + 1 for byte in text.encode()]
        assert byte_tokens.decode([0, *ids, 0]) == text
        shown = [tokens[index] for index in ids[:-1]]
        assert byte_tokens.decode(ids[:-1]) == decoders.ByteLevel().decode(shown)
    words = [byte_tokens.word_of(index) for index in (0, ord("a") + 1, ord(" ") + 1, 0xE3 + 1)]
    assert words == ["", "a", "", ""]
    whole = ByteTokens(["ĠâĢľLook", "å°ıçĮ«", "âĢ", "Ċ"], specials=[])
    shown = list(map(whole.shown, range(4)))
    assert shown == ["Ġ“Look", "小猫", "âĢ", "Ċ"]


def test_merges_are_learned_from_text_as_it_is_read():
    """Lower-cased, if `lower_case` is set."""
    settings = VocabSettings(tokenizer="bpe", max_size=280, lower_case=True)
    texts = ["DO NOT ASK", "DO NOT GO", "Do not ask"]
    learned = train_bpe(texts, settings)
    assert learned.tokens == train_bpe([text.lower() for text in texts], settings).tokens


def test_a_word_too_long_to_merge_is_named_with_its_story():
    for word in ("a" * 40_000, " " * 40_000):
        with pytest.raises(InputError, match=r"a story with.*words of at most"):
            checked("a story with " + word)
    assert checked("word " * 20_000) == "word " * 20_000


END_OF_TEXT = "<|endoftext|>"
SETTINGS = VocabSettings(tokenizer="gpt2", lower_case=False)
MERGES = [("Ġ", "t"), ("Ġt", "h"), ("Ġth", "e"), ("c", "a"), ("Ġ", "ca"), ("Ġca", "t")]
TOKENS = [*CHARACTER_OF.values(), *(left + right for left, right in MERGES), END_OF_TEXT]
END = len(TOKENS) - 1


def write_folder(folder, left_out=(), gap=0, merges=MERGES):
    folder.mkdir(exist_ok=True)
    kept = [token for token in TOKENS if token not in left_out]
    ids = {token: index for index, token in enumerate(kept)}
    ids[END_OF_TEXT] += gap
    (folder / "vocab.json").write_text(json.dumps(ids), "utf-8")
    lines = "".join(f"{left} {right}\n" for left, right in merges)
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


def test_other_paths_and_damaged_files_are_refused(tmp_path):
    with pytest.raises(InputError, match=r"vocab\.path"):
        load(tmp_path / "nowhere")
    folder = write_folder(tmp_path / "a")
    for content in (b"{", b"[]", b"\xff\xfe", b"[" * 20_000, b'{"a": "b"}'):
        (folder / "vocab.json").write_bytes(content)
        with pytest.raises(InputError, match=str(folder)) as caught:
            load(folder)
        assert "\n" not in str(caught.value)
    (folder / "vocab.json").unlink()
    with pytest.raises(InputError, match=r"vocab\.path"):
        load(folder)


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"left_out": ["O", "M"]}, "256 bytes, but 2 have none, such as 'M'"),
        ({"gap": 1}, r"vocab\.json: expected ids 0 to 262"),
        ({"left_out": ["Ġthe"]}, "do not match"),
        ({"merges": [*MERGES, ("Ġthe", "日")]}, "do not match"),
    ],
)
def test_a_vocabulary_that_would_lose_text_or_change_ids_is_refused(tmp_path, changes, named):
    with pytest.raises(InputError, match=named) as caught:
        load(write_folder(tmp_path / "a", **changes))
    assert str(tmp_path / "a") in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_folder_that_dvc_does_not_hash_is_refused(tmp_path):
    (write_folder(tmp_path / "a") / ".dvc").mkdir()
    with pytest.raises(InputError, match=r"vocab\.path"):
        load(tmp_path / "a")


TEXTS = [
    "The cat sat on the mat. The cat's hat!",
    "A cat, that cat and the other cat\nsat there.",
    "naïve 日本 cats 😀",
]


def settings(max_size=300, min_count=1, lower_case=False):
    return VocabSettings(
        tokenizer="bpe", lower_case=lower_case, min_count=min_count, max_size=max_size
    )


def test_merges_are_the_most_frequent_pairs():
    bpe = train_bpe(["xyxy xyz q xy"], settings(263))
    assert bpe.tokens[:3] == list(SPECIALS)
    assert bpe.tokens[3:259] == sorted(CHARACTER_OF.values())
    assert bpe.tokens[259:] == ["xy", "Ġxy", "Ġq", "xyxy"]  # 4 times, twice, then once each, by ids
    assert bpe.split("xyxyxy xyx") == ["xyxy", "xy", "Ġxy", "x"]


@pytest.mark.parametrize("lower_case", [True, False])
def test_ids_equal_the_library_and_nothing_is_lost(tmp_path, lower_case):
    bpe = train_bpe(TEXTS, settings(lower_case=lower_case))
    bpe.save(tmp_path / "tokenizer.json")
    library = tokenizers.Tokenizer.from_file(str(tmp_path / "tokenizer.json"))
    loaded = open_tokenizer(tmp_path / "tokenizer.json")
    for text in [*TEXTS, *hostile_texts(300, 9)]:
        ids = bpe.encode(text)
        assert ids == library.encode(text).ids == loaded.encode(text)
        assert min(ids, default=9) >= len(SPECIALS)  # no text becomes a special token
        assert bpe.decode(bpe.encode_story(text)) == bpe.normalise(text)
        if not lower_case and text.isprintable():
            assert bpe.normalise(text) == text
