"""The written files, read by AutoTokenizer, give our ids and texts."""

import json
import random
from itertools import islice

import pytest
import transformers

from tests.vocab.test_words import hostile_texts
from tinylm.exchange.tokenizer_files import TOKENIZER_CONFIG, TOKENIZER_JSON, tokenizer_files
from tinylm.storybook.corpus import generate
from tinylm.vocab.byte_level import CHARACTER_OF
from tinylm.vocab.gpt2 import Gpt2Tokenizer
from tinylm.vocab.make_tokenizer import make_tokenizer
from tinylm.vocab.settings import VocabSettings

CONTEXT = 64
KINDS = {  # tokenizer, lower_case, punctuation, max_size
    "words-lower-keep": ("words", True, "keep", None),
    "words-cased-keep": ("words", False, "keep", None),
    "words-lower-drop": ("words", True, "drop", None),
    "words-cased-attached": ("words", False, "attached", None),
    "bpe-lower": ("bpe", True, "keep", 400),
    "bpe-cased": ("bpe", False, "keep", 400),
    "longest_match": ("longest_match", False, "keep", 300),
}


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
    capitals = [text.upper() for text in [*texts[:5], "jqxz"]]
    return make(request.param, [*texts, *capitals, *hostile_texts(150, seed=1)[1::2]])


@pytest.fixture(scope="module")
def read(tokenizer, tmp_path_factory):
    """The files, read by transformers without code of ours."""
    folder = tmp_path_factory.mktemp("files")
    for name, content in tokenizer_files(tokenizer, CONTEXT).items():
        (folder / name).write_text(json.dumps(content), encoding="utf-8")
    transformers.GPT2Config().save_pretrained(folder)
    return transformers.AutoTokenizer.from_pretrained(folder)


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


def test_ids_and_texts_equal_ours_on_stories_and_strange_text(tokenizer, read):
    capitals = [text.upper() for text in stories(35)[30:]]
    # longest match refuses what its tokens do not spell
    strange = [] if tokenizer.kind == "longest_match" else hostile_texts(400, seed=2)
    for text in [*stories(60)[30:], *capitals, "", *strange]:
        ids = prompt_ids(tokenizer, text)
        assert read(text).input_ids == ids, repr(text)
        theirs = comparable(tokenizer, read.decode(ids, skip_special_tokens=True))
        assert theirs == decoded(tokenizer, ids), repr(text)


def test_any_ids_become_our_text(tokenizer, read):
    """Also those that no text gives: marks in any order, characters cut in two, special tokens."""
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


def test_javascript_adds_sos_and_splits_lines(tokenizer):
    """transformers.js reads `add_bos_token`; @huggingface/tokenizers drops separators only of a Regex."""
    files = tokenizer_files(tokenizer, CONTEXT)
    assert files[TOKENIZER_CONFIG].get("add_bos_token", False) == (tokenizer.sos_id is not None)
    rule = files[TOKENIZER_JSON]["pre_tokenizer"]
    for part in rule.get("pretokenizers", [rule]):
        assert part["type"] != "Split" or "Regex" in part["pattern"]


def test_special_tokens_have_their_roles_and_prompts_are_padded_on_the_left(tokenizer, read):
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
