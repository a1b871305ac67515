"""Properties of the corpus: where each row and each file of it is, and what its tokens spell."""

import itertools
import json
import re
import unicodedata
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np

from tests.drawn.corpora import LANGUAGES
from tests.drawn.drawing import DrawnRun
from tests.drawn.plain_files import Run
from tests.drawn.properties import holds
from tests.support.stages import STORIES, read
from tinylm.base.config import InputError
from tinylm.download.settings import GENERATED
from tinylm.vocab.open_tokenizer import open_tokenizer
from tinylm.vocab.settings import VocabSettings
from tinylm.vocab.tokenizer import Tokenizer

SPLITS = ("train", "held_out", "evaluation")
ASCII_SYMBOLS = "$+<=>^`|~"
VALIDATION = re.compile(r"(?<![a-z])(validation|valid|val|dev)(?![a-z])")


def report_of(folder: Path) -> dict[str, Any]:
    """data/figures/download.json."""
    found: dict[str, Any] = Run(folder).json("data/figures/download")
    return found


def data_files(drawn: DrawnRun) -> dict[str, list[str]]:
    """{path below what `data.path` names: its texts}, as download.json names the files."""
    if drawn.params()["data"]["source"] in GENERATED:
        return {}
    if not drawn.files.stories:
        return {"stories.jsonl": STORIES}
    return {
        name.removeprefix(f"{drawn.files.path}/"): texts
        for name, texts in drawn.files.stories.items()
    }


def rows_of(drawn: DrawnRun, folder: Path, role: str) -> list[str]:
    """The texts of the files that were read as "train" or as "evaluation", in order.

    Blank lines separate the stories of a text file, so a blank text is no row of it.
    """
    rows = []
    for name in report_of(folder)["files"].get(role, []):
        texts = data_files(drawn)[name]
        rows += [text for text in texts if ".txt" not in name or text.strip()]
    return rows


def stored(folder: Path, split: str) -> list[str]:
    """The texts of a split."""
    lines = (folder / f"data/stories/{split}.jsonl").read_text("utf-8").split("\n")
    return [json.loads(line)["text"] for line in lines if line]


def words_of(text: str, drop_first_line: bool = False) -> tuple[str, ...]:
    """The words of a clean text, whatever white space is between them.

    drop_first_line: without the line that follows a blank one, or nothing.
    """
    lines = text.strip().split("\n")
    if drop_first_line:
        before = ["", *lines]
        lines = [line for line, above in zip(lines, before, strict=False) if above.strip()]
    return tuple(unicodedata.normalize("NFC", "\n".join(lines)).split())


def bare(text: str) -> str:
    """Letters, vowel signs, digits and symbols in lower case, by Unicode's categories."""
    letters = [
        letter
        for letter in "".join(character.lower() for character in text)
        if unicodedata.category(letter)[0] not in "PZC" and letter not in ASCII_SYMBOLS
    ]
    return unicodedata.normalize("NFC", "".join(letters))


def compares_exactly(drawn: DrawnRun) -> bool:
    """Whether texts are the same only if their characters are: to tokenizers that keep marks."""
    return VocabSettings(**drawn.params()["vocab"]).keeps_punctuation


@holds("prepared")
def every_row_is_in_a_split_or_counted_as_dropped(drawn: DrawnRun, folder: Path) -> None:
    """The rows of all files that were read: those of the splits and those counted under a reason.

    Rows may be left unread only where `read_first` says that the settings end the reading. What is
    stored are rows that were read, in their order; nothing is invented.
    """
    report = report_of(folder)
    data = drawn.params()["data"]
    kept = sum(counts["stories"] for counts in report["splits"].values())
    dropped = sum(report["dropped"].values())
    if data["source"] in GENERATED:
        rows = data["train_stories"] + data["evaluation_stories"]
        assert kept + dropped == rows, f"{rows} rows written, {kept} kept and {dropped} dropped"
        return
    by_role = {role: rows_of(drawn, folder, role) for role in ("train", "evaluation")}
    read_so_far = dict.fromkeys(by_role, 0)  # the place after the last row that is stored
    for split in SPLITS:
        texts = stored(folder, split)
        assert len(texts) == report["splits"][split]["stories"], split
        is_official = split == "evaluation" and by_role["evaluation"]
        role = "evaluation" if is_official else "train"
        rest = enumerate(
            (words_of(text, data["drop_first_line"]) for text in by_role[role]), start=1
        )
        place = 0
        for text in texts:
            wanted = words_of(text)
            place = next((place for place, words in rest if words == wanted), 0)
            assert place, f"{split}: {text[:60]!r} is no row of {role}, or out of order"
        read_so_far[role] = max(read_so_far[role], place)
    rows = sum(map(len, by_role.values()))
    where = f"{kept} rows in splits and {dropped} in dropped: {report['dropped']}"
    ended_early = report.get("read_first", {})
    if not ended_early:
        assert kept + dropped == rows, f"expected {rows} rows in splits or dropped, got {where}"
        return
    for role, count in ended_early.items():
        assert count == data[f"{role}_stories"], f"{role} ends after {count} stories"
    least = sum(
        read_so_far[role] if role in ended_early else len(by_role[role]) for role in by_role
    )
    assert least <= kept + dropped < rows, f"expected {least} to {rows - 1} rows, got {where}"


@holds("prepared")
def no_text_is_on_two_sides(drawn: DrawnRun, folder: Path) -> None:
    """A story of one split is the same as no story of another.

    With `held_out: hash`, stories that differ only in case and punctuation share a side, whatever the tokenizer.
    """
    for one, other in (("train", "held_out"), ("train", "evaluation"), ("held_out", "evaluation")):
        is_hashed = drawn.params()["data"]["held_out"] == "hash" and other == "held_out"
        is_exact = compares_exactly(drawn) and not is_hashed
        forms = {
            split: {text if is_exact else bare(text) or text for text in stored(folder, split)}
            for split in (one, other)
        }
        both = forms[one] & forms[other]
        assert not both, f"in {one} and in {other}: {sorted(both)[0][:60]!r}"


@holds("prepared")
def every_data_file_is_read_or_named(drawn: DrawnRun, folder: Path) -> None:
    """download.json names each file of a data folder: as read, or as left out."""
    if not drawn.files.stories:
        return
    text = json.dumps(report_of(folder), ensure_ascii=False)
    missing = [name for name in data_files(drawn) if json.dumps(name)[1:-1] not in text]
    assert not missing, f"not read, and not named in download.json: {', '.join(missing)}"


@holds("prepared")
def evaluation_reads_the_validation_files(drawn: DrawnRun, folder: Path) -> None:
    """Of a folder with files of split validation and of split test, the former are read."""
    report = report_of(folder)
    files = report.get("files", {})
    read = set(data_files(drawn)) - set(report.get("not_read", {}))
    is_validation = {name: bool(VALIDATION.search(name)) for name in read}
    evaluation = files.get("evaluation", [])
    if any(is_validation.values()) and evaluation:
        other = [name for name in evaluation if not is_validation[name]]
        assert not other, f"validation files {is_validation}, but evaluation read {other}"


def ids_of(folder: Path, split: str) -> list[np.ndarray]:
    """The ids of each story of a token store."""
    base = folder / "data/tokens" / split
    info = read(base.with_suffix(".json"))
    ids = np.fromfile(base.with_suffix(".ids"), dtype=f"<u{2 if info['dtype'] == 'uint16' else 4}")
    starts = np.fromfile(base.with_suffix(".offsets"), dtype="<i8")
    return [ids[start:end] for start, end in itertools.pairwise(starts)]


def assert_spelt(tokenizer: Tokenizer, ids: np.ndarray, texts: list[str]) -> None:
    """The ids spell these texts, one after the other."""
    shown = f"{' '.join(texts)[:60]!r}"
    if tokenizer.lossless:
        expected = "".join(map(tokenizer.normalise, texts))
        found = tokenizer.decode(ids.tolist())
        assert found == expected, f"expected {expected[:200]!r}, got {found[:200]!r}"
        assert characters(expected) == characters("".join(texts)), (
            f"{shown}, got {expected[:200]!r}"
        )
        return
    marks = tokenizer.specials - {tokenizer.unk_id}
    tokens = [index for index in ids.tolist() if index not in marks]
    words = [word for text in texts for word in tokenizer.split(text)]
    assert len(tokens) == len(words), f"{shown}: expected {len(words)} tokens, got {len(tokens)}"
    known = set(tokenizer.tokens)
    for index, word in zip(tokens, words, strict=True):
        is_right = (
            index == tokenizer.unk_id if word not in known else tokenizer.tokens[index] == word
        )
        assert is_right, f"{shown}: {word!r} became {tokenizer.tokens[index]!r}"


def characters(text: str) -> Counter[str]:
    """All characters but white space, of any case: what no lossless tokenizer may lose."""
    return Counter("".join(unicodedata.normalize("NFC", text).split()).casefold())


@holds("prepared")
def tokens_spell_the_stories(drawn: DrawnRun, folder: Path) -> None:
    """The ids of every split decode to its stories; only words outside the vocabulary are unknown."""
    tokenizer = open_tokenizer(folder / "data/vocab/tokenizer.json")
    data = drawn.params()["data"]
    of_splits = {split: ids_of(folder, split) for split in SPLITS}
    texts = {split: stored(folder, split) for split in SPLITS}
    if data["held_out"] == "tokens":  # one stream, cut anywhere
        stream = np.concatenate(of_splits["train"])
        rest = np.concatenate(of_splits["held_out"])
        overlap = data["overlap"]
        np.testing.assert_array_equal(stream[len(stream) - overlap :], rest[:overlap])
        assert_spelt(tokenizer, np.concatenate([stream, rest[overlap:]]), texts["train"])
        return
    for split in SPLITS:
        assert len(of_splits[split]) == len(texts[split]), split
        for ids, text in zip(of_splits[split], texts[split], strict=True):
            assert_spelt(tokenizer, ids, [text])


@holds("prepared")
def a_lossless_tokenizer_spells_any_text_that_it_accepts(drawn: DrawnRun, folder: Path) -> None:
    """Texts that the corpus may lack: decoding their ids gives the text that is modelled."""
    tokenizer = open_tokenizer(folder / "data/vocab/tokenizer.json")
    if not tokenizer.lossless:
        return
    for text in [
        *LANGUAGES.values(),
        *drawn.files.texts(),
        "\U0001f43b 1\n2  \n\n3 ",
        "<|endoftext|>",
    ]:
        try:
            ids = tokenizer.encode_story(text)
        except InputError:
            continue
        assert_spelt(tokenizer, np.array(ids, int), [text])
