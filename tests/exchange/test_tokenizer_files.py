"""Ids and texts of the written files, by the library `tokenizers` and by AutoTokenizer, against our tokenizers."""

import json
import random
import warnings
from itertools import islice
from pathlib import Path

import pytest
import tokenizers

from tinylm.exchange.tokenizer_files import tokenizer_files
from tinylm.storybook.corpus import generate
from tinylm.vocab.gpt2 import Gpt2Tokenizer
from tinylm.vocab.settings import PUNCTUATIONS, VocabSettings
from tinylm.vocab.tokenizer import make_tokenizer

CONTEXT = 64
PIECES = [
    *map(chr, range(128)),
    *"ÄéÉİıßΣςσǅﬀ\u0130\u0301\u0338\u0345\u201c\u201d\u2018\u2019\u2026\u2014\u037e\u1fef\u212a\uff1c\uff1e",
    *"\u00a0\u3000\u2028\u2029\u0085\u1680\u202f\ufeff\u200b\u200d\u00ad\u202e\ufe0f\ufffd\x1c\x1d\x1e",
    *"😀❤👍🏽אבدسनि中文한\u1100\U000e0041\U0010fffd",
    *("<sos>", "<eos>", "<pad>", "<unk>", "<|endoftext|>", "</s>", "[UNK]", "<EOS>"),
    *(
        " KING",
        "KING",
        " KINGdom",
        "KiNG",
        "'s",
        "'S",
        "'re",
        "'m",
        "\r\n",
        "  ",
        "ÉCOLE",
        "JQXZ",
        " I",
        "12",
        "A1",
    ),
    *(
        "a" * 100,
        "b" * 101,
        "é" * 250,
        "it's",
        "rock'n'roll",
        "red-haired",
        "O\u2019Neil",
        ' "',
        '" ',
        "(x)",
        "$5",
    ),
]
KINDS = {
    **{
        f"words-{'lower' if lower else 'cased'}-{punctuation}": ("words", lower, punctuation, None)
        for lower in (True, False)
        for punctuation in PUNCTUATIONS
    },
    "bpe-lower": ("bpe", True, "keep", 400),
    "bpe-cased": ("bpe", False, "keep", 400),
    "longest_match": ("longest_match", False, "keep", 300),
    "longest_match-wide": ("longest_match", False, "keep", 500),
}


def strange_texts(count: int, seed: int) -> list[str]:
    chooser = random.Random(seed)
    return [
        "",
        *PIECES,
        *("".join(chooser.choices(PIECES, k=chooser.randint(1, 30))) for _ in range(count)),
    ]


def stories(count: int) -> list[str]:
    return [story.text for story in islice(generate(count, 0, 1)[0], count)]


def make(kind, texts):
    """`longest_match` knows few characters, so that most of the strange ones are left out, its wide form more."""
    tokenizer, lower, punctuation, size = KINDS[kind]
    if kind == "longest_match-wide":
        texts = [
            *texts[:20],
            "Élan ü ß é 中文 한 😀 it's HERE; QUIT, 12\tx \u00a0y \u2026 \u201cKING\u201d",
        ]
    elif tokenizer == "longest_match":
        texts = [text for text in texts if text.replace("\n", "").isprintable() and text.isascii()]
    settings = VocabSettings(
        tokenizer=tokenizer, lower_case=lower, punctuation=punctuation, max_size=size
    )
    return make_tokenizer(settings, lambda: texts)[0]


def tiny_gpt2(words):
    """Bytes, then whole words as merges of GPT-2's kind: what Gpt2Tokenizer holds, at a size for tests."""
    from tinylm.vocab.byte_level import CHARACTER_OF

    tokens, merges = sorted(CHARACTER_OF.values()), []
    for word in words:
        for end in range(1, len(word)):
            pair = (word[:end], word[end])
            if "".join(pair) not in tokens:
                merges.append(pair)
                tokens.append("".join(pair))
    return Gpt2Tokenizer([*tokens, "<|endoftext|>"], merges)


@pytest.fixture(scope="module")
def known() -> list[str]:
    """What vocabularies are made of: stories, lines in capitals, half of the strange texts."""
    told = stories(30)
    return [*told, *(text.upper() for text in told[:5]), *strange_texts(150, seed=1)[::2]]


@pytest.fixture(scope="module", params=[*KINDS, "gpt2"])
def own(request, known):
    return (
        tiny_gpt2(["Ġthe", "Ġand", "once", "Ġwas"])
        if request.param == "gpt2"
        else make(request.param, known)
    )


def library(own) -> tokenizers.Tokenizer:
    files = tokenizer_files(own, CONTEXT)
    assert files["tokenizer_config.json"]["split_special_tokens"] is True
    read = tokenizers.Tokenizer.from_str(json.dumps(files["tokenizer.json"]))
    read.encode_special_tokens = True  # what split_special_tokens sets in transformers
    return read


def prompt_ids(own, text: str) -> list[int]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # longest_match: characters that are left out
        return [*([] if own.sos_id is None else [own.sos_id]), *own.encode(text)]


def spoken(own, ids: list[int]) -> str:
    """Our decoding, without `<unk>`."""
    return own.decode([index for index in ids if index != own.unk_id])


def read_elsewhere(own, folder: Path):
    """The files, read by AutoTokenizer beside the config of a GPT-2."""
    transformers = pytest.importorskip("transformers")
    for name, content in tokenizer_files(own, CONTEXT).items():
        (folder / name).write_text(json.dumps(content), encoding="utf-8")
    transformers.GPT2Config().save_pretrained(folder)
    return transformers.AutoTokenizer.from_pretrained(folder)


def test_ids_and_texts_equal_ours_on_stories_and_strange_text(own):
    read = library(own)
    for text in [
        *stories(60)[30:],
        *(text.upper() for text in stories(35)[30:]),
        *strange_texts(400, seed=2),
    ]:
        ids = prompt_ids(own, text)
        assert read.encode(text).ids == ids, repr(text)
        assert read.decode(ids, skip_special_tokens=True) == spoken(own, ids), repr(text)


def test_any_ids_become_our_text(own):
    """Also those that no text gives: marks in any order, characters cut in two, special tokens in the middle."""
    read, chooser = library(own), random.Random(3)
    marks = [
        index
        for index, token in enumerate(own.tokens)
        if len(token) == 1 and index not in own.specials
    ]
    for _ in range(800):
        pool = marks if chooser.random() < 0.5 else range(len(own))
        ids = chooser.choices(pool, k=chooser.randint(0, 20))
        assert read.decode(ids, skip_special_tokens=True) == spoken(own, ids), ids


def test_quotes_open_and_close_in_turn():
    own = make(
        "words-cased-keep", ['"Hi," said Tom. "Go (now) for $5!" \u201cWell\u2019s\u201d it\'s']
    )
    read = library(own)
    for text in (
        '"Hi," said Tom. "Go (now) for $5!"',
        '" "',
        '""" Hi',
        'said "Tom" "Hi" "',
        "\u201cGo\u201d, it's",
    ):
        ids = prompt_ids(own, text)
        assert read.decode(ids, skip_special_tokens=True) == own.decode(ids)
    assert (
        read.decode(own.encode('" Hi , " said Tom . "'), skip_special_tokens=True)
        == '"Hi," said Tom. "'
    )


@pytest.mark.parametrize(
    "text", ["a<eos>b", "<sos> <pad>", "<|endoftext|>", "<unk>", "<|endoftext|> a"]
)
def test_text_that_spells_a_special_token_is_text(own, text):
    ids = library(own).encode(text).ids
    start = own.sos_id is not None
    assert ids[:start] == [own.sos_id][:start]
    assert not set(ids[start:]) & (own.specials - {own.unk_id})


def test_transformers_reads_the_same_without_code_of_ours(own, tmp_path):
    read = read_elsewhere(own, tmp_path)
    texts = [*stories(32)[30:], *strange_texts(150, seed=4)]
    ids = [prompt_ids(own, text) for text in texts]
    assert [read(text).input_ids for text in texts] == ids
    assert read.batch_decode(ids, skip_special_tokens=True) == [spoken(own, row) for row in ids]
    assert len(read) == len(own)
    assert read.model_max_length == CONTEXT
    assert (
        set(read("a"))
        == set(read.init_kwargs["model_input_names"])
        == {"input_ids", "attention_mask"}
    )
    read.save_pretrained(tmp_path / "again")
    again = type(read).from_pretrained(tmp_path / "again")
    assert [again(text).input_ids for text in texts] == ids


def test_special_tokens_play_our_roles_in_transformers(own, tmp_path):
    read = read_elsewhere(own, tmp_path)
    roles = (read.bos_token_id, read.eos_token_id, read.pad_token_id, read.unk_token_id)
    if own.kind == "longest_match":
        assert roles == (None, None, None, None)
        return
    assert roles[:3] == (own.sos_id, own.eos_id, own.pad_id)
    assert roles[3] == (own.pad_id if own.unk_id is None else own.unk_id)
    rows = read(["a b c", "a"], padding=True)
    width = len(rows.input_ids[0])
    assert rows.input_ids[1] == [own.pad_id] * (width - len(prompt_ids(own, "a"))) + prompt_ids(
        own, "a"
    )
    assert sum(rows.attention_mask[1]) == len(prompt_ids(own, "a"))


def test_longest_match_is_encoded_as_a_prompt_is():
    """Capitals are made small only where all of the small letters are tokens, and only a whole word of them."""
    own = make("longest_match", ["the king said no\nKing Anne QUIT, SAID I: A B KINGDOM THE"])
    read = library(own)
    for text in (
        "THE KING",
        "SAID THE KING",
        "the KINGdom KING",
        "QUIT",
        " QUIT",
        "A B",
        "'sKING",
        "KING\nKING",
    ):
        assert read.encode(text).ids == prompt_ids(own, text), text
    assert read.encode("SAID").ids == own.encode("SAID") != own.encode_story("SAID")
    assert read.decode(read.encode(" KING").ids) == " king"
    assert read.decode(read.encode("KING").ids) == "King"


def test_a_lone_surrogate_is_refused_and_not_encoded_otherwise(own):
    with pytest.raises((UnicodeEncodeError, TypeError)):
        library(own).encode("a\ud800b")
