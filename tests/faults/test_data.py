"""Rows 24 to 32: the corpus, its text, the vocabulary made of it, and the hub."""

import json
import socket
import tracemalloc
from pathlib import Path

import pytest

from tests.support.stages import STORIES, plant, run, small_params
from tinylm.download import readers
from tinylm.download.cleaning import clean_text
from tinylm.vocab.bpe import train_bpe
from tinylm.vocab.longest_match import train_longest_match
from tinylm.vocab.settings import VocabSettings
from tinylm.vocab.words import MAX_WORD, UNK_ID, build_tokenizer, count_words


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def refused(capsys, command: str = "download") -> str:
    """The one line with which the stage refuses; nothing of its output stands there."""
    assert run(command) == 2
    (line,) = capsys.readouterr().err.splitlines()
    made = {"download": "data/stories", "vocab": "data/vocab"}[command]
    assert not [path for path in Path(made).rglob("*") if path.is_file()]
    return line.removeprefix("error: ")


def plant_corpus(folder: Path, texts: list, name: str = "stories.jsonl", **values) -> None:
    params = small_params()
    params["data"] |= {"path": name}
    for section, changes in values.items():
        params[section] |= changes
    plant(folder, params)
    rows = "".join(json.dumps({"text": text}) + "\n" for text in texts)
    (folder / name).write_text(rows, encoding="utf-8")


FEW = "stories.jsonl: too few different stories with text for three splits"


def test_fault_24_a_corpus_of_punctuation_gives_no_empty_vocabulary(folder, capsys):
    plant_corpus(folder, ["." * n + "!" * (9 - n) for n in range(9)])
    code = run("download")
    if code == 0:
        assert refused(capsys, "vocab").startswith(
            "vocab.punctuation = drop: the train split holds no word"
        )
    else:  # stories that differ in punctuation alone are one story
        assert capsys.readouterr().err.startswith(f"error: {FEW}")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (None, "stories.jsonl, line 4: column 'text' holds null; allowed: text"),
        (7, "stories.jsonl, line 4: column 'text' holds int '7'; allowed: text"),
        (["a"], "stories.jsonl, line 4: column 'text' holds list \"['a']\"; allowed: text"),
    ],
)
def test_fault_25_what_is_no_text_is_told_by_file_and_row(folder, capsys, text, message):
    plant_corpus(folder, [*STORIES[:3], text, *STORIES[3:]])
    assert refused(capsys) == message


def test_fault_25_a_missing_column_names_those_that_are_there(folder, capsys):
    plant_corpus(folder, STORIES, data={"column": "story"})
    assert (
        refused(capsys) == "stories.jsonl, line 1: no column 'story' (data.column); columns: text"
    )


def test_fault_25_a_folder_without_a_train_split_names_its_splits(folder, capsys):
    plant_corpus(folder, STORIES, data={"path": "set"})
    Path("set").mkdir()
    Path("set/test.jsonl").write_text('{"text": "a"}\n')
    assert refused(capsys) == "set: no split 'train'; splits: test"


@pytest.mark.parametrize("punctuation", ["drop", "keep", "attached"])
@pytest.mark.parametrize(
    "word", ["x" * 1_000_000, "\u00e9" * 300_000, "x" * 10_000_000, "a b " * 2_500_000]
)
def test_fault_26_a_word_or_a_line_of_megabytes_is_parted_within_bounds(punctuation, word):
    settings = VocabSettings(tokenizer="words", punctuation=punctuation)
    tracemalloc.start()
    counts = count_words([clean_text(word, True)], settings)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert max(map(len, counts)) <= MAX_WORD
    assert sum(len(piece) * count for piece, count in counts.items()) == len(word.replace(" ", ""))
    assert peak < 40 * len(word) + (1 << 20)


HOSTILE = "A\ufeffb\0c\u2028d\re\r\nf \ud800 \U0001f600 \u05e9\u05dc\u05d5\u05dd \u202ex\u202c e\u0301 \u1e9b\u0323 z\u200b"


def _tokenizers(texts: list[str]) -> list:
    words = [
        VocabSettings(tokenizer="words", punctuation=each) for each in ("drop", "keep", "attached")
    ]
    made = [build_tokenizer(count_words(texts, settings), settings) for settings in words]
    for kind, train in (("bpe", train_bpe), ("longest_match", train_longest_match)):
        made.append(train(texts, VocabSettings(tokenizer=kind, lower_case=False, max_size=400)))
    return made


def test_fault_27_hostile_characters_follow_the_rule_and_come_back():
    text = clean_text(HOSTILE, True)
    assert clean_text(text, True) == text
    assert not set(text) & set("\0\r\u2028\ufeff\u202e\u200b\ud800")
    assert "\U0001f600" in text
    assert "\u00e9" in text  # composed
    for tokenizer in _tokenizers([text, "other words"]):
        ids = tokenizer.encode_story(text)
        assert ids == tokenizer.encode_story(text)
        assert tokenizer.unk_id not in ids or tokenizer.unk_id is None
        if tokenizer.lossless:
            assert tokenizer.decode(ids) == tokenizer.normalise(text)
        raw = tokenizer.encode(HOSTILE.replace("\u2028", " "))  # as in a prompt
        tokenizer.decode(raw).encode()


@pytest.mark.filterwarnings("ignore:characters outside")
def test_fault_28_text_that_spells_a_control_token_is_text():
    text = "<eos> <unk> <sos> <pad> </s> <|endoftext|> a<eos>b << eos >> <EOS>"
    for tokenizer in _tokenizers([text, "a"]):
        ids = tokenizer.encode(text)
        assert len(ids) > 5
        assert not tokenizer.specials & set(ids)
        assert not tokenizer.specials & set(tokenizer.encode_story(text)[1:-1])


def test_fault_29_sizes_of_the_vocabulary_are_defined(folder, capsys):
    plant_corpus(folder, STORIES, vocab={"max_size": 1}, decode={"top_k": 0})
    assert run("download") == run("vocab") == 0
    assert "unknown words of evaluation" in capsys.readouterr().out
    made = json.loads(Path("data/figures/vocab.json").read_text())
    assert made["size"] == UNK_ID + 2
    assert 0 < made["coverage"]["train"] < 1
    plant_corpus(folder, STORIES, vocab={"max_size": 10**9})
    assert run("vocab") == 0
    assert json.loads(Path("data/figures/vocab.json").read_text())["coverage"]["train"] == 1.0


@pytest.fixture
def no_network(monkeypatch):
    """A machine without a network, on which asking for one is counted."""
    asked: list = []

    def refuse(*address, **_):
        asked.append(address)
        raise socket.gaierror(-2, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", refuse)
    monkeypatch.setattr(socket.socket, "connect", refuse)
    return asked


class _Hub:
    """A streamed dataset that breaks off behind `good` rows."""

    def __init__(self, good: int):
        self.good = good

    def iter(self, batch_size: int):
        for text in STORIES[: self.good]:
            yield {"text": [text]}
        if self.good < len(STORIES):
            raise ConnectionError("peer closed connection")


def test_fault_30_a_stream_that_breaks_off_leaves_nothing_and_a_retry_is_whole(
    folder, capsys, monkeypatch
):
    import datasets

    monkeypatch.setattr(readers, "hub_splits", lambda *_: ["train"])
    plant_corpus(folder, STORIES, data={"source": "hub"})
    monkeypatch.setattr(datasets, "load_dataset", lambda *_, **__: _Hub(40))
    message = refused(capsys)
    assert (
        "after row 40: reading from the hub broke off; run again, or use data.source: local"
        in message
    )
    monkeypatch.setattr(datasets, "load_dataset", lambda *_, **__: _Hub(len(STORIES)))
    assert run("download") == 0


def test_fault_31_the_source_is_what_is_written_there(folder, capsys, no_network):
    plant_corpus(folder, STORIES, data={"path": "roneneldan/TinyStories"})
    message = refused(capsys)  # a missing local path never goes to the hub
    assert message.startswith(
        "data.path = 'roneneldan/TinyStories': no such file or folder; allowed: a file ("
    )
    assert no_network == []
    shadow = folder / "roneneldan/TinyStories"
    shadow.mkdir(parents=True)
    (shadow / "train.jsonl").write_text(
        "".join(json.dumps({"text": text}) + "\n" for text in STORIES)
    )
    assert run("download") == 0
    plant_corpus(folder, STORIES, data={"source": "hub"})
    for split in Path("data/stories").iterdir():
        split.unlink()
    assert "the hub cannot be read" in refused(capsys)  # nor does a folder stand in for the hub
