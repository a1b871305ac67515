"""Which story goes to which split, and what is refused."""

import dataclasses
import json
import math
from collections import Counter
from dataclasses import asdict, replace

import pytest

from tests.support import folders
from tests.text.test_cleaning import hostile_texts
from tinylm.base import parallel
from tinylm.base.config import InputError, read_section
from tinylm.download import clean_rows
from tinylm.download.clean_rows import clean_row, without_first_lines
from tinylm.download.remarks import remarks
from tinylm.download.settings import DataSettings
from tinylm.download.splits import write_stories
from tinylm.storybook.corpus import Story
from tinylm.text.cleaning import clean_text
from tinylm.text.same_story import bare_text
from tinylm.text.stories import HELD_OUT_IS_EVALUATION, SPLITS, read_stories

LOCAL = DataSettings(source="local", path="", hub="a/b@0123", held_out_share=0.2)


class Corpus:
    """Writes a source file or folder, runs `write_stories` and reads the splits."""

    def __init__(self, folder):
        self.folder = folder
        self.stories = folder / "stories"

    def file(self, texts, name="a.jsonl"):
        folders.write_stories(self.folder / name, texts)
        return dataclasses.replace(LOCAL, path=str(self.folder / name))

    def dataset(self, train, evaluation, name="dataset"):
        folder = self.folder / name
        folders.write_stories(folder / "train.jsonl", train)
        folders.write_stories(folder / "validation.jsonl", evaluation)
        return dataclasses.replace(LOCAL, path=str(folder))

    def write(self, settings, workers=1, exact=False, **changes):
        settings = dataclasses.replace(settings, **changes)
        return write_stories(settings, self.stories, workers, exact)

    def splits(self):
        return {
            split: [row["text"] for row in read_stories(self.stories, split)] for split in SPLITS
        }

    def files(self):
        return folders.contents(self.stories)


@pytest.fixture
def corpus(tmp_path):
    return Corpus(tmp_path)


STORIES = [f"Story number {i}." for i in range(300)]


@pytest.mark.parametrize(
    "limits", [{}, {"train_stories": 51, "evaluation_stories": 3}, {"held_out": "tokens"}]
)
def test_the_number_of_processes_changes_no_byte(corpus, monkeypatch, limits):
    pieces = ["It was.", '"No!"\n', "café", "â€œGoâ€", "a\tb", "\\n", "  \n"]
    texts = ["", *(f"{pieces[i % 7]} {i % 170} {pieces[i % 5]}" for i in range(200)), "", " "]
    settings = corpus.file(texts)
    monkeypatch.setattr(clean_rows, "CHUNK_ROWS", 7)
    monkeypatch.setattr(parallel, "INLINE_TASKS", 2)
    alone = corpus.write(settings, **limits), corpus.files()
    assert (corpus.write(settings, workers=2, **limits), corpus.files()) == alone


def test_an_official_evaluation_story_never_reaches_train(corpus):
    held = [f"Held story {i}." for i in range(20)]
    leaked = ["  Held   story\n3. ", "Held story 7.", "\ufeffHeld story 9.", "HELD, story... 11!"]
    info = corpus.write(corpus.dataset(STORIES + leaked, held))
    written = corpus.splits()
    assert written["evaluation"] == held
    assert sorted(written["train"] + written["held_out"]) == sorted(STORIES)
    assert info["dropped"] == {"empty": 0, "in_evaluation": 4}
    assert info["evaluation_split"] == "validation"
    assert info["files"] == {"train": ["train.jsonl"], "evaluation": ["validation.jsonl"]}


CODE = [
    "return ax + by",
    "return ax - by",
    "Return ax + by",
    "return  ax + by",
    "( [ ] )",
    "[ ( ) ]",
]


# without `exact`: of the brackets the tokenizer sees nothing
@pytest.mark.parametrize(("exact", "kept"), [(False, []), (True, [1, 2, 3, 5])])
def test_stories_that_the_tokenizer_tells_apart_are_different(corpus, exact, kept):
    settings = corpus.dataset([*CODE, *STORIES], [CODE[0], CODE[4], "a"])
    info = corpus.write(settings, exact=exact)
    written = corpus.splits()
    assert set(written["train"] + written["held_out"]) == {*STORIES, *(CODE[i] for i in kept)}
    assert info["dropped"]["in_evaluation"] == (2 if exact else 4)
    assert info["dropped"]["empty"] == (0 if exact else 3)


def test_a_language_of_brackets_has_every_split(corpus):
    brackets = ["".join("([{<"[i // 4**k % 4] for k in range(5)) for i in range(300)]
    corpus.write(corpus.file(brackets), exact=True)
    assert all(len(texts) > 20 for texts in corpus.splits().values())


@pytest.mark.parametrize("exact", [False, True])
def test_copies_and_almost_equal_stories_are_on_one_side_and_a_further_one_moves_no_other(
    corpus, exact
):
    """Also for a tokenizer that tells them apart (`exact`)."""
    corpus.write(corpus.file(STORIES), exact=exact)
    before = corpus.splits()
    almost = [story.upper().replace(".", " !") for story in STORIES]  # equal to some tokenizers
    corpus.write(corpus.file(["New.", *STORIES, *almost, *STORIES]), exact=exact)
    for split, texts in corpus.splits().items():
        same = [text.lower().rstrip(" .!") for text in texts if text != "New."]
        assert Counter(same) == Counter([text.lower().rstrip(".") for text in before[split]] * 3)


def test_limits_count_stories_and_leave_the_rest_out(corpus):
    settings = corpus.file(STORIES)
    corpus.write(settings, train_stories=100)
    unlimited = corpus.splits()
    corpus.write(settings, train_stories=100, evaluation_stories=5)
    written = corpus.splits()
    assert len(written["train"] + written["held_out"]) == 100
    assert written["evaluation"] == unlimited["evaluation"][:5]
    assert written["train"] == unlimited["train"]


@pytest.mark.parametrize("limit", [4, None])
def test_every_row_is_in_a_split_or_counted_with_its_reason(corpus, limit):
    """Unless the settings end the reading, which is recorded."""
    info = corpus.write(corpus.file([*STORIES, "", " "]), evaluation_stories=limit)
    stored = sum(split["stories"] for split in info["splits"].values())
    assert stored + sum(info["dropped"].values()) == len(STORIES) + 2
    assert ("beyond_evaluation_stories" in info["dropped"]) == (limit is not None)
    assert "read_first" not in info
    assert len(remarks(info)) == sum(count > 0 for count in info["dropped"].values())


@pytest.mark.parametrize(
    ("train", "evaluation", "ended"),
    [
        (len(STORIES), 9, {}),
        (2**63, 2**63, {}),
        (len(STORIES) - 1, 9, {"train": len(STORIES) - 1}),
        (None, 8, {"evaluation": 8}),
        (5, 2, {"evaluation": 2, "train": 5}),
    ],
)
def test_reading_that_ends_early_is_recorded(corpus, train, evaluation, ended):
    settings = corpus.dataset(STORIES, [f"Held story {i}." for i in range(9)])
    info = corpus.write(settings, train_stories=train, evaluation_stories=evaluation)
    assert info.get("read_first", {}) == ended
    assert len(remarks(info)) == len(ended)


@pytest.mark.parametrize("name", ["valid", "val", "dev", "eval", "test", "evaluation"])
@pytest.mark.parametrize("pattern", ["{}.jsonl", "data/{}-00000-of-00001.jsonl"])
def test_other_names_of_the_evaluation_split_are_understood(corpus, name, pattern):
    folders.write_stories(corpus.folder / "set" / pattern.format("train"), STORIES)
    folders.write_stories(corpus.folder / "set" / pattern.format(name), ["Held.", "Out."])
    info = corpus.write(replace(LOCAL, path=str(corpus.folder / "set")))
    assert corpus.splits()["evaluation"] == ["Held.", "Out."]
    assert "not_read" not in info


def test_files_that_are_not_read_are_named(corpus):
    settings = corpus.dataset(STORIES, ["Held."])
    folder = corpus.folder / "dataset"
    for name in ("stories.jsonl", "test.jsonl", "more/a.csv", "b.tsv", "README.md", ".hidden"):
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text("")
    info = corpus.write(settings)
    assert list(info["not_read"]) == ["b.tsv", "more/a.csv", "stories.jsonl", "test.jsonl"]
    (line,) = remarks(info)
    assert all(name in line for name in info["not_read"])


def test_a_name_in_capital_letters_is_named_and_a_file_is_read_once(corpus):
    """`datasets` takes VALIDATION.jsonl for train; a README may list a file twice."""
    folder = corpus.folder / "set"
    folders.write_stories(folder / "Train.jsonl", STORIES)
    folders.write_stories(folder / "VALIDATION.jsonl", ["Held."])
    info = corpus.write(replace(LOCAL, path=str(folder)))
    assert "VALIDATION.jsonl is read as train" in remarks(info)[0]
    files = "configs:\n- config_name: default\n  data_files: [Train.jsonl, 'T*.jsonl']\n"
    (folder / "README.md").write_text(f"---\n{files}---\n")
    info = corpus.write(replace(LOCAL, path=str(folder)))
    assert info["files"]["train"] == ["Train.jsonl"]


def test_a_file_of_two_splits_is_refused(corpus):
    settings = corpus.dataset(STORIES, ["Held."])
    folders.write_stories(corpus.folder / "dataset/valid_train.jsonl", ["Both."])
    with pytest.raises(InputError, match=r"valid_train\.jsonl.*train and validation"):
        corpus.write(settings)


def test_held_out_tokens_that_are_also_evaluation_are_said(corpus):
    by_tokens = corpus.write(replace(corpus.file(STORIES), held_out="tokens"))
    assert remarks(by_tokens) == [HELD_OUT_IS_EVALUATION]
    with_split = replace(corpus.dataset(STORIES, ["Held."]), held_out="tokens")
    assert remarks(corpus.write(with_split)) == []


def test_a_row_is_the_story_as_json_with_its_counts():
    for number, raw in enumerate([*hostile_texts(), "The Hen\nOnce upon a time\n\nTom\nRun"]):
        log_prob = -0.1 * number if number % 3 else None
        settings = replace(LOCAL, drop_first_line=number % 2 == 1)
        row = clean_row(raw, log_prob, settings)
        text = clean_text(raw)
        if settings.drop_first_line:
            text = without_first_lines(text)
        if row is None:
            assert not bare_text(text)
            continue
        story = {"text": text} if log_prob is None else {"text": text, "log_prob": log_prob}
        assert json.loads(row.line) == story
        assert row.line.count(b"\n") == 1
        assert row.words == len(text.split())


@pytest.mark.parametrize("texts", [[], ["", " \n"], ["one story"], ["same"] * 50])
def test_a_corpus_without_a_story_for_each_split_is_refused_and_nothing_written(corpus, texts):
    settings = corpus.file(texts)
    with pytest.raises(InputError, match=r"data\.held_out_share|expected stories"):
        corpus.write(settings)
    assert corpus.files() == {}


def test_held_out_by_tokens_leaves_all_train_stories_in_order(corpus):
    settings = replace(corpus.file([*STORIES, STORIES[3]]), held_out="tokens", overlap=50)
    corpus.write(settings)
    expected = {"train": [*STORIES, STORIES[3]], "held_out": [], "evaluation": []}
    assert corpus.splits() == expected
    corpus.write(settings, train_stories=7)
    assert corpus.splits()["train"] == STORIES[:7]


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_a_play_without_its_speakers_stays_in_order(corpus, end):
    play = "First:\nWe walk.\nWe run.\n\nSecond:\nYou know\nhim.\n\n\nThird:\n\nFirst:\n  So do I."
    path = corpus.folder / "play.txt"
    path.write_bytes(play.replace("\n", end).encode())
    settings = replace(LOCAL, path=str(path), held_out="tokens", drop_first_line=True)
    info = corpus.write(settings)
    assert corpus.splits()["train"] == ["We walk.\nWe run.", "You know\nhim.", "So do I."]
    assert info["dropped"]["empty"] == 1


def test_an_error_in_the_data_leaves_earlier_files_alone(corpus):
    settings = corpus.dataset(STORIES, STORIES[:3])
    corpus.write(settings)
    before = corpus.files()
    with open(f"{settings.path}/train.jsonl", "a") as handle:
        handle.write('{"text": null}\n')
    with pytest.raises(InputError, match=r"train\.jsonl, line 301"):
        corpus.write(settings)
    assert corpus.files() == before


def test_the_storybook_reports_its_log_probabilities(corpus, monkeypatch):
    def generate(train, evaluation, seed, world):
        stories = [Story(f"Tale {i}.", -float(i)) for i in range(train + evaluation)]
        return iter(stories[evaluation:]), iter(stories[:evaluation])

    monkeypatch.setattr("tinylm.storybook.corpus.generate", generate)
    settings = replace(LOCAL, source="storybook", train_stories=100, evaluation_stories=7)
    info = corpus.write(settings)
    assert info["splits"]["evaluation"]["log_prob_nats"] == -sum(range(7))
    sums = [info["splits"][split]["log_prob_nats"] for split in SPLITS]
    assert math.isclose(sum(sums), -sum(range(107)))
    first = next(read_stories(corpus.stories, "evaluation"))
    assert first == {"text": "Tale 0.", "log_prob": 0.0}


@pytest.mark.parametrize(
    ("source", "changes", "keys"),
    [
        ("storybook", {"overlap": 3, "drop_first_line": True}, ["overlap", "drop_first_line"]),
        ("hub", {"hub": ""}, ["hub"]),
        ("local", {"path": "", "column": ""}, ["path", "column"]),
    ],
)
def test_rules_between_the_settings_name_their_keys(source, changes, keys):
    section = asdict(LOCAL) | {"source": source} | changes
    with pytest.raises(InputError) as caught:
        read_section({"data": section}, "data", DataSettings)
    for key in keys:
        assert f"data.{key}" in str(caught.value)
