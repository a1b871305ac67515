import dataclasses
import itertools
import json
import math
from collections import Counter
from dataclasses import dataclass

import pytest

from tinylm.base.config import InputError, read_section
from tinylm.base.files import sha256
from tinylm.download import readers, sources
from tinylm.download import splits as corpus
from tinylm.download.rows import without_first_lines
from tinylm.download.splits import write_stories
from tinylm.download.stories import SPLITS, DataSettings, read_stories
from tinylm.vocab.settings import VocabSettings
from tinylm.vocab.words import count_words

LOCAL = DataSettings(
    source="local",
    path="",
    hub_id="a/b",
    hub_revision="0123",
    column="text",
    drop_first_line=False,
    train_stories=None,
    evaluation_stories=None,
    held_out="hash",
    held_out_share=0.2,
    overlap=0,
    repair_quotes=True,
    seed=1,
)


def jsonl(path, texts):
    path.write_text("".join(json.dumps({"text": text}) + "\n" for text in texts))
    return dataclasses.replace(LOCAL, path=str(path))


def dataset(folder, train, evaluation):
    folder.mkdir(exist_ok=True)
    jsonl(folder / "train.jsonl", train)
    jsonl(folder / "validation.jsonl", evaluation)
    return dataclasses.replace(LOCAL, path=str(folder))


def written(folder):
    return {split: [row["text"] for row in read_stories(folder, split)] for split in SPLITS}


STORIES = [f"Story number {i}." for i in range(300)]


def content(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


@pytest.mark.parametrize(
    "limits", [{}, {"train_stories": 51, "evaluation_stories": 3}, {"held_out": "tokens"}]
)
def test_processes_parts_and_compiled_code_change_no_byte(tmp_path, monkeypatch, limits):
    pieces = [
        "It was.",
        '"No!"\n',
        "caf\u00e9",
        "\u00e2\u20ac\u0153Go\u00e2\u20ac",
        "a\tb",
        "\\n",
        "  \n",
    ]
    texts = ["", *(f"{pieces[i % 7]} {i % 170} {pieces[i % 5]}" for i in range(200)), "", " "]
    monkeypatch.setattr(corpus, "SMALL", 10)
    (tmp_path / "a.txt").write_text("<|endoftext|>\n".join(texts), "utf-8")
    settings = dataclasses.replace(LOCAL, path=str(tmp_path / "a.txt"), **limits)
    found = {"small": write_stories(settings, tmp_path / "small")}
    monkeypatch.setattr(readers, "PIECE", 300)
    for workers in (1, 2) if limits else (1, 2, 3):
        found[f"{workers}"] = write_stories(settings, tmp_path / f"{workers}", workers)
    monkeypatch.setenv("CXX", "no-such-compiler")
    found["plain"] = write_stories(settings, tmp_path / "plain", 1)
    for name, info in found.items():
        assert info == found["small"], name
        assert content(tmp_path / name) == content(tmp_path / "small"), name
    sums = json.loads((tmp_path / "2" / "sha256.json").read_text())
    assert all(
        sums[name] == sha256(tmp_path / "2" / name) for name in sums if name.endswith(".jsonl")
    )


def test_every_story_stands_in_exactly_one_split(tmp_path):
    info = write_stories(jsonl(tmp_path / "a.jsonl", STORIES), tmp_path / "stories")
    splits = written(tmp_path / "stories")
    assert sorted(itertools.chain.from_iterable(splits.values())) == sorted(STORIES)
    assert 30 < len(splits["held_out"]) < 90
    assert 30 < len(splits["evaluation"]) < 90
    assert splits["train"] == [
        story for story in STORIES if story in set(splits["train"])
    ]  # order kept
    assert info["splits"]["train"] == {
        "stories": len(splits["train"]),
        "words": 3 * len(splits["train"]),
        "bytes": sum(map(len, splits["train"])),
    }
    assert info["evaluation_split"] == "set apart by hash"
    assert info["source"] == "local"


def test_official_evaluation_never_reaches_train(tmp_path):
    held = [f"Held story {i}." for i in range(20)]
    leaked = ["  Held   story\n3. ", "Held story 7.", "\ufeffHeld story 9.", "HELD, story... 11!"]
    info = write_stories(dataset(tmp_path / "d", STORIES + leaked, held), tmp_path / "stories")
    splits = written(tmp_path / "stories")
    assert splits["evaluation"] == held
    assert sorted(splits["train"] + splits["held_out"]) == sorted(STORIES)
    assert info["dropped"] == {"empty": 0, "in_evaluation": 4, "over_limit": 0}
    assert info["evaluation_split"] == "validation"


def test_evaluation_words_never_reach_the_vocabulary(tmp_path):
    held = [f"zebra{i} quagga" for i in range(5)]
    write_stories(dataset(tmp_path / "d", STORIES + held, held), tmp_path / "stories")
    texts = (row["text"] for row in read_stories(tmp_path / "stories", "train"))
    counts = count_words(texts, VocabSettings(tokenizer="words"))
    assert "story" in counts
    assert not any("zebra" in word or "quagga" in word for word in counts)


def test_copies_fall_on_one_side_and_a_further_story_moves_no_other(tmp_path):
    write_stories(jsonl(tmp_path / "a.jsonl", STORIES), tmp_path / "one")
    write_stories(jsonl(tmp_path / "a.jsonl", ["New.", *STORIES, *STORIES]), tmp_path / "two")
    one, two = written(tmp_path / "one"), written(tmp_path / "two")
    for split in SPLITS:
        assert Counter(two[split]) - Counter({"New.": 1}) == Counter(one[split] * 2)


def test_seed_decides_the_split(tmp_path):
    settings = jsonl(tmp_path / "a.jsonl", STORIES)
    for name, seed in (("one", 1), ("again", 1), ("other", 2)):
        write_stories(dataclasses.replace(settings, seed=seed), tmp_path / name)
    assert written(tmp_path / "one") == written(tmp_path / "again") != written(tmp_path / "other")


def test_limits(tmp_path):
    settings = dataclasses.replace(
        jsonl(tmp_path / "a.jsonl", STORIES), train_stories=100, evaluation_stories=5
    )
    info = write_stories(settings, tmp_path / "stories")
    sizes = {split: info["splits"][split]["stories"] for split in SPLITS}
    assert sizes["train"] + sizes["held_out"] == 100
    assert sizes["evaluation"] == 5
    assert info["dropped"]["over_limit"] > 0
    splits = written(tmp_path / "stories")
    write_stories(dataclasses.replace(settings, evaluation_stories=None), tmp_path / "all")
    assert splits["evaluation"] == written(tmp_path / "all")["evaluation"][:5]
    assert (
        splits["train"] == written(tmp_path / "all")["train"]
    )  # what evaluation leaves over is not trained on


def test_limit_stops_reading(tmp_path):
    settings = dataset(tmp_path / "d", STORIES[:50], STORIES[50:60])
    with open(tmp_path / "d" / "train.jsonl", "a") as handle:
        handle.write("broken\n")
    info = write_stories(dataclasses.replace(settings, train_stories=50), tmp_path / "stories")
    assert info["splits"]["train"]["stories"] + info["splits"]["held_out"]["stories"] == 50


def test_stories_are_cleaned_and_empty_ones_dropped(tmp_path):
    settings = dataset(
        tmp_path / "d",
        [*STORIES, "", " \n\u3000", "\ufeff"],
        ["\u00e2\u20ac\u0153Go!\u00e2\u20ac\r\n"],
    )
    info = write_stories(settings, tmp_path / "stories")
    assert written(tmp_path / "stories")["evaluation"] == ["\u201cGo!\u201d"]
    assert info["dropped"]["empty"] == 3
    assert info["splits"]["evaluation"]["bytes"] == len("\u201cGo!\u201d".encode())


@pytest.mark.parametrize("count", [3, 4, 7])
def test_smallest_corpora_fill_all_splits(tmp_path, count):
    settings = dataclasses.replace(
        jsonl(tmp_path / "a.jsonl", STORIES[:count] * 2), held_out_share=0.01
    )
    write_stories(settings, tmp_path / "stories")
    splits = written(tmp_path / "stories")
    assert sorted(itertools.chain.from_iterable(splits.values())) == sorted(STORIES[:count] * 2)
    assert [len(set(splits[split])) for split in SPLITS] == [count - 2, 1, 1]


def test_two_train_stories_suffice_beside_an_official_evaluation(tmp_path):
    write_stories(dataset(tmp_path / "d", STORIES[:2], STORIES[2:3]), tmp_path / "stories")
    assert [len(texts) for texts in written(tmp_path / "stories").values()] == [1, 1, 1]


@pytest.mark.parametrize(
    "texts",
    [[], ["", " \n"], ["one story"], ["same"] * 50, ["a b", "c d"], ["a  b", "a b", "a\nb", "c"]],
)
def test_too_small_a_corpus_is_refused_and_nothing_written(tmp_path, texts):
    with pytest.raises(InputError, match=r"a\.jsonl: too few different stories .* at least 3"):
        write_stories(jsonl(tmp_path / "a.jsonl", texts), tmp_path / "stories")
    assert not list((tmp_path / "stories").glob("*"))


def test_a_text_of_one_story_a_line_is_told_what_separates_stories(tmp_path):
    (tmp_path / "a.txt").write_text("".join(f"{story}\n" for story in STORIES))
    with pytest.raises(
        InputError,
        match=r"for three splits, 1; .*; in a text file a blank line or <\|endoftext\|> sep",
    ):
        write_stories(
            dataclasses.replace(LOCAL, path=str(tmp_path / "a.txt")), tmp_path / "stories"
        )


def test_train_within_evaluation_is_refused(tmp_path):
    with pytest.raises(InputError, match="too few different stories"):
        write_stories(dataset(tmp_path / "d", STORIES[:20], STORIES[:20]), tmp_path / "stories")
    with pytest.raises(InputError, match="evaluation split has no story"):
        write_stories(dataset(tmp_path / "d", STORIES[:20], ["", " "]), tmp_path / "stories")


def test_held_out_by_tokens_leaves_all_train_stories_in_order(tmp_path):
    settings = dataclasses.replace(
        jsonl(tmp_path / "a.jsonl", [*STORIES, STORIES[3]]), held_out="tokens", overlap=50
    )
    info = write_stories(settings, tmp_path / "stories")
    assert written(tmp_path / "stories") == {
        "train": [*STORIES, STORIES[3]],
        "held_out": [],
        "evaluation": [],
    }
    assert info["evaluation_split"] == "the held-out tokens"
    assert "stage vocab cuts" in info["split"]
    write_stories(dataclasses.replace(settings, train_stories=7), tmp_path / "few")
    assert written(tmp_path / "few")["train"] == STORIES[:7]


def test_held_out_by_tokens_keeps_an_official_evaluation(tmp_path):
    settings = dataclasses.replace(
        dataset(tmp_path / "d", STORIES[:9], STORIES[8:12]), held_out="tokens"
    )
    info = write_stories(settings, tmp_path / "stories")
    assert written(tmp_path / "stories") == {
        "train": STORIES[:8],
        "held_out": [],
        "evaluation": STORIES[8:12],
    }
    assert info["evaluation_split"] == "validation"
    with pytest.raises(InputError, match="every train story with text also occurs in evaluation"):
        write_stories(
            dataclasses.replace(settings, train_stories=None, path=str(same(tmp_path))),
            tmp_path / "none",
        )
    assert not list((tmp_path / "none").glob("*"))


def same(folder):
    """A dataset whose train stories all stand in its evaluation split."""
    dataset(folder / "same", STORIES[:2], STORIES[:2])
    return folder / "same"


PLAY = "First:\nWe walk.\nWe run.\n\nSecond:\nYou know\nhim.\n\n\nThird:\n\nFirst:\n  So do I.\n"


@pytest.mark.parametrize(("name", "end"), [("play.txt", "\n"), ("crlf.txt", "\r\n")])
def test_a_play_without_its_speakers_stays_in_order(tmp_path, name, end):
    (tmp_path / name).write_bytes(PLAY.replace("\n", end).encode())
    settings = dataclasses.replace(
        LOCAL, path=str(tmp_path / name), held_out="tokens", drop_first_line=True
    )
    info = write_stories(settings, tmp_path / "stories")
    assert written(tmp_path / "stories")["train"] == [
        "We walk.\nWe run.",
        "You know\nhim.",
        "So do I.",
    ]
    assert info["dropped"]["empty"] == 1


def test_the_first_line_of_every_block_goes():
    assert without_first_lines("A:\nx\ny\n\nB:\nz") == "x\ny\n\nz"
    assert without_first_lines("one line") == without_first_lines("") == ""
    assert without_first_lines("A\n \n\t\nB\nb") == "b"


def test_error_in_the_data_leaves_earlier_files_alone(tmp_path):
    settings = dataset(tmp_path / "d", STORIES, STORIES[:3])
    write_stories(settings, tmp_path / "stories")
    before = {path.name: path.read_bytes() for path in (tmp_path / "stories").iterdir()}
    with open(tmp_path / "d" / "train.jsonl", "a") as handle:
        handle.write('{"text": null}\n')
    with pytest.raises(InputError, match=r"train\.jsonl, line 301: column 'text' holds null"):
        write_stories(settings, tmp_path / "stories")
    assert {path.name: path.read_bytes() for path in (tmp_path / "stories").iterdir()} == before


def test_hub_source(tmp_path, monkeypatch):
    held = ["held one", "held two"]

    def read_hub(hub_id, revision, split, column):
        assert (hub_id, revision, column) == ("a/b", "0123", "text")
        return iter({"train": STORIES + held, "test": held}[split])

    monkeypatch.setattr(sources.readers, "hub_splits", lambda *_: ["train", "test"])
    monkeypatch.setattr(sources.readers, "read_hub", read_hub)
    info = write_stories(dataclasses.replace(LOCAL, source="hub"), tmp_path / "stories")
    assert info["dropped"]["in_evaluation"] == 2
    assert (info["hub_id"], info["revision"], info["evaluation_split"]) == ("a/b", "0123", "test")


@dataclass
class Story:
    text: str
    log_prob: float


def test_storybook_reports_its_log_probabilities(tmp_path, monkeypatch):
    import tinylm.storybook.corpus as storybook

    def generate(train, evaluation, seed):
        assert seed == 1
        stories = [Story(f"Tale {i}.", -float(i)) for i in range(train + evaluation)]
        return iter(stories[evaluation:]), iter(stories[:evaluation])

    monkeypatch.setattr(storybook, "generate", generate)
    settings = dataclasses.replace(
        LOCAL, source="storybook", train_stories=100, evaluation_stories=7
    )
    info = write_stories(settings, tmp_path / "stories")
    assert info["splits"]["evaluation"]["log_prob_nats"] == -sum(range(7))
    sums = [info["splits"][split]["log_prob_nats"] for split in SPLITS]
    assert math.isclose(sum(sums), -sum(range(107)))
    assert next(read_stories(tmp_path / "stories", "evaluation")) == {
        "text": "Tale 0.",
        "log_prob": 0.0,
    }


def test_settings_state_what_a_source_needs():
    section = dataclasses.asdict(LOCAL) | {"source": "storybook", "path": "x"}
    with pytest.raises(InputError) as caught:
        read_section({"data": section}, "data", DataSettings)
    assert str(caught.value).count("allowed with source: storybook: a whole number >= 1") == 2
    rules = {"overlap": 3, "drop_first_line": True, "train_stories": 5, "evaluation_stories": 5}
    with pytest.raises(InputError) as caught:
        read_section({"data": section | rules}, "data", DataSettings)
    assert "data.overlap = 3; allowed with held_out: hash: 0" in str(caught.value)
    assert "data.drop_first_line = True; allowed with source: storybook: false" in str(caught.value)
    assert "data.path = 'x'; allowed with source: storybook: tinylm/storybook" in str(caught.value)
    with pytest.raises(InputError, match=r"data\.hub_revision is empty; needed with source: hub"):
        read_section(
            {"data": section | {"source": "hub", "hub_revision": ""}}, "data", DataSettings
        )


def test_read_stories_names_stage_and_line(tmp_path):
    with pytest.raises(InputError, match=r"train\.jsonl is missing: run dvc repro download"):
        read_stories(tmp_path, "train")
    (tmp_path / "train.jsonl").write_text('{"text": "a"}\n{"te')
    with pytest.raises(InputError, match=r"train.jsonl, line 2: not a story; rm .* -s download"):
        list(read_stories(tmp_path, "train"))
