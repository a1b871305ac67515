"""The written files, read by the library `tokenizers` and by AutoTokenizer, give our ids and texts."""

import json
import random
from itertools import islice

import pytest
import tokenizers
import transformers

from tinylm.exchange.tokenizer_files import tokenizer_files
from tinylm.storybook.corpus import generate
from tinylm.vocab.byte_level import CHARACTER_OF
from tinylm.vocab.gpt2 import Gpt2Tokenizer
from tinylm.vocab.kinds import make_tokenizer
from tinylm.vocab.settings import VocabSettings

CONTEXT = 64
SPECIAL = ["<sos>", "<eos>", "<pad>", "<unk>", "<|endoftext|>", "</s>", "[UNK]", "<EOS>"]
WORDS = "KING| KING| KINGdom|KiNG|'s|'S|'re|ÉCOLE|JQXZ| I|12|A1|it's|red-haired|O\u2019Neil|(x)|$5"
PIECES = [
    *map(chr, range(128)),
    *"ÄéÉİıßΣςσǅﬀ\u0301\u0338\u0345\u201c\u201d\u2018\u2019\u2026\u2014\u037e\u1fef\u212a",
    *"\u00a0\u3000\u2028\u2029\u0085\u1680\u202f\ufeff\u200b\u200d\u00ad\u202e\ufffd\x1c\x1d\x1e",
    *"😀❤👍🏽אבدسनि中文한\u1100\U000e0041\U0010fffd",
    *SPECIAL,
    *WORDS.split("|"),
    *("\r\n", "  ", "a" * 100, "é" * 250, ' "', '" '),
]
KINDS = {  # tokenizer, lower_case, punctuation, max_size
    "words-lower-keep": ("words", True, "keep", None),
    "words-cased-keep": ("words", False, "keep", None),
    "words-lower-drop": ("words", True, "drop", None),
    "words-cased-attached": ("words", False, "attached", None),
    "bpe-lower": ("bpe", True, "keep", 400),
    "bpe-cased": ("bpe", False, "keep", 400),
    "longest_match": ("longest_match", False, "keep", 300),
}


def strange_texts(count: int, seed: int, tokenizer: object = None) -> list[str]:
    """Texts of PIECES; none for longest match, which refuses what its tokens do not spell."""
    if getattr(tokenizer, "kind", "") == "longest_match":
        return []
    chooser = random.Random(seed)
    mixed = ["".join(chooser.choices(PIECES, k=chooser.randint(1, 30))) for _ in range(count)]
    return ["", *PIECES, *mixed]


def stories(count: int) -> list[str]:
    return [story.text for story in islice(generate(count, 0, 1)[0], count)]


def make(kind, texts):
    """A vocabulary of these texts."""
    tokenizer, lower, punctuation, size = KINDS[kind]
    if kind == "longest_match":
        texts = [text for text in texts if text.replace("\n", "").isprintable() and text.isascii()]
    settings = VocabSettings(
        tokenizer=tokenizer, lower_case=lower, punctuation=punctuation, max_size=size
    )
    return make_tokenizer(settings, lambda: texts)[0]


def tiny_gpt2(words):
    """Bytes, then whole words as merges: what Gpt2Tokenizer holds, at a size for tests."""
    tokens = sorted(CHARACTER_OF.values())
    merges = []
    for word in words:
        for end in range(1, len(word)):
            if word[: end + 1] not in tokens:
                merges.append((word[:end], word[end]))
                tokens.append(word[: end + 1])
    return Gpt2Tokenizer([*tokens, "<|endoftext|>"], merges)


@pytest.fixture(scope="module", params=[*KINDS, "gpt2"])
def tokenizer(request):
    """Each kind, over stories, lines in capitals, half of the strange texts."""
    if request.param == "gpt2":
        return tiny_gpt2(["Ġthe", "Ġand", "once", "Ġwas"])
    texts = stories(30)
    capitals = [text.upper() for text in texts[:5]]
    return make(request.param, [*texts, *capitals, *strange_texts(150, seed=1)[::2]])


def library(tokenizer) -> tokenizers.Tokenizer:
    files = tokenizer_files(tokenizer, CONTEXT)
    read = tokenizers.Tokenizer.from_str(json.dumps(files["tokenizer.json"]))
    read.encode_special_tokens = True  # what split_special_tokens sets in transformers
    return read


def prompt_ids(tokenizer, text: str) -> list[int]:
    ids = tokenizer.encode(text)
    return ids if tokenizer.sos_id is None else [tokenizer.sos_id, *ids]


def decoded(tokenizer, ids: list[int]) -> str:
    """Our decoding, without `<unk>`."""
    text = tokenizer.decode([index for index in ids if index != tokenizer.unk_id])
    return comparable(tokenizer, text)


def comparable(tokenizer, text: str) -> str:
    """The text, without spaces where the library has a rule of its own for those beside marks."""
    splitter = getattr(tokenizer, "splitter", None)
    return text.replace(" ", "") if splitter and splitter.punctuation == "keep" else text


def test_ids_and_texts_equal_ours_on_stories_and_strange_text(tokenizer):
    read = library(tokenizer)
    capitals = [text.upper() for text in stories(35)[30:]]
    for text in [*stories(60)[30:], *capitals, *strange_texts(400, 2, tokenizer)]:
        ids = prompt_ids(tokenizer, text)
        assert read.encode(text).ids == ids, repr(text)
        theirs = comparable(tokenizer, read.decode(ids, skip_special_tokens=True))
        assert theirs == decoded(tokenizer, ids), repr(text)


def test_any_ids_become_our_text(tokenizer):
    """Also those that no text gives: marks in any order, characters cut in two, special tokens."""
    read = library(tokenizer)
    chooser = random.Random(3)
    marks = []
    for index, token in enumerate(tokenizer.tokens):
        if len(token) == 1 and index not in tokenizer.specials:
            marks.append(index)
    for _ in range(800):
        pool = marks if chooser.random() < 0.5 else range(len(tokenizer))
        ids = chooser.choices(pool, k=chooser.randint(0, 20))
        theirs = comparable(tokenizer, read.decode(ids, skip_special_tokens=True))
        assert theirs == decoded(tokenizer, ids), ids


def test_transformers_reads_the_same_without_code_of_ours(tokenizer, tmp_path):
    for name, content in tokenizer_files(tokenizer, CONTEXT).items():
        (tmp_path / name).write_text(json.dumps(content), encoding="utf-8")
    transformers.GPT2Config().save_pretrained(tmp_path)
    read = transformers.AutoTokenizer.from_pretrained(tmp_path)
    texts = [*stories(32)[30:], *strange_texts(150, 4, tokenizer)]
    ids = [prompt_ids(tokenizer, text) for text in texts]
    assert [read(text).input_ids for text in texts] == ids
    texts = [decoded(tokenizer, row) for row in ids]
    theirs = read.batch_decode(ids, skip_special_tokens=True)
    assert [comparable(tokenizer, text) for text in theirs] == texts
    assert len(read) == len(tokenizer)
    assert read.model_max_length == CONTEXT
    assert set(read("a")) == {"input_ids", "attention_mask"}
    roles = (read.bos_token_id, read.eos_token_id, read.pad_token_id)
    if tokenizer.kind == "longest_match":
        assert roles == (None, None, None)
        return
    assert roles == (tokenizer.sos_id, tokenizer.eos_id, tokenizer.pad_id)
    rows = read(["a b c", "a"], padding=True)
    short = prompt_ids(tokenizer, "a")
    padding = [tokenizer.pad_id] * (len(rows.input_ids[0]) - len(short))
    assert rows.input_ids[1] == padding + short
    assert sum(rows.attention_mask[1]) == len(short)
