"""tinylm check tries the data: whatever a stage would refuse in it is refused before any stage runs."""

import json
from pathlib import Path

import pytest
import yaml

from tests.support.stages import SMALL, STORIES
from tinylm.base.config import load_params
from tinylm.cli import rehearsal
from tinylm.cli.rehearsal import rehearse
from tinylm.host.params import read_sections
from tinylm.presets.write import FOLDER


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def tried(changes: dict | None = None) -> rehearsal.Tried:
    """What is found for the small pipeline with {"section.key": value} changed."""
    params = load_params(FOLDER / "storybook.yaml")
    for section, values in SMALL.items():
        params[section] |= values
    params["decode"]["top_k"] = 0
    params["data"]["held_out_share"] = 0.1
    for path, value in (changes or {}).items():
        section, _, key = path.partition(".")
        params[section][key] = value
    Path("params.yaml").write_text(yaml.safe_dump(params), "utf-8")
    read, errors = read_sections(load_params())
    assert not errors
    return rehearse(read)


def problems(changes: dict | None = None) -> list[str]:
    return [finding.problem for finding in tried(changes).findings if finding.problem]


def plant(texts=STORIES, name="stories.jsonl") -> None:
    Path(name).write_text("".join(json.dumps({"text": text}) + "\n" for text in texts), "utf-8")


def test_a_corpus_that_every_stage_can_use_is_counted_as_a_whole():
    plant()
    found = tried()
    values = {finding.what: finding.value for finding in found.findings}
    assert not [finding for finding in found.findings if finding.problem]
    assert sum(int(part.split()[1]) for part in values["stories"].split(", ")) == len(STORIES)
    assert values["vocabulary"] == f"{found.vocab_size:,} ids"
    assert found.tokens_per_epoch
    assert values["kv_bench.batch"] == "2 of 2"


@pytest.mark.parametrize(
    ("name", "content", "named"),
    [
        (
            "a.csv",
            b"id,story\n1,One day.\n",
            "a.csv, line 1: no column 'text' (data.column); columns: id, story",
        ),
        (
            "a.txt",
            b"",
            "a.txt: too few different stories with text for three splits, 0; allowed: at least 3",
        ),
        (
            "a.txt",
            b"One day.\nTwo days.\nThree days.\nFour days.\n",
            "a.txt: too few different stories with text",
        ),
        (
            "a.txt",
            "caf\u00e9\n\nb\n\nc\n\nd\n".encode("latin-1"),
            "a.txt, line 1, byte 4: 0xe9 is not UTF-8",
        ),
        (
            "a.jsonl",
            b'{"text": "a"}\n{"text": 1}\n',
            "a.jsonl, line 2: column 'text' holds int '1'; allowed: text",
        ),
        ("a.xlsx", b"PK", "a.xlsx: not a supported format; allowed: .parquet, .jsonl"),
    ],
)
def test_a_file_that_download_would_refuse(name, content, named):
    Path(name).write_bytes(content)
    (found,) = problems({"data.path": name})
    assert found.startswith(named)


def test_a_folder_that_is_no_dataset(folder):
    (folder / "stories").mkdir()
    (found,) = problems({"data.path": "stories"})
    assert found.startswith("stories: not laid out as a dataset")


def test_five_stories_are_too_few_for_the_benches():
    plant(STORIES[:5])
    found = problems()
    assert (
        "params.yaml: kv_bench.batch = 2; allowed: at most 1, as many evaluation stories are whole and have more "
        "than 5 words; or set apart more of the text (data.evaluation_stories, data.held_out_share)"
        in found
    )


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"train.tokens": 10}, "params.yaml: train.tokens = 10; allowed: at least "),
        (
            {"train.keep_epochs": [50.0]},
            "params.yaml: train.keep_epochs holds 50; allowed: at most ",
        ),
        ({"accum_sweep.tokens": 30}, "params.yaml: accum_sweep.tokens = 30; allowed: at least "),
        ({"kv_bench.batch": 90}, "params.yaml: kv_bench.batch = 90; allowed: at most "),
        (
            {"evaluate.prompt_tokens": 29},
            "params.yaml: evaluate.prompt_tokens = 29; allowed: fewer than the words of",
        ),
        (
            {"beam_bench.prompt_tokens": 29},
            "params.yaml: beam_bench.prompt_tokens = 29; allowed: less than the words",
        ),
        ({"vocab.min_count": 9999}, "vocab.min_count = 9999: no word is left; allowed: at most "),
        (
            {"vocab.tokenizer": "longest_match", "vocab.max_size": 5},
            "vocab.max_size = 5; allowed with tokenizer: lo",
        ),
        ({"vocab.tokenizer": "gpt2", "vocab.path": "no"}, "vocab.path = 'no': "),
        (
            {"vocab.tokenizer": "longest_match", "vocab.max_size": 100, "train.sample_prompt": ""},
            "params.yaml: train.sample_prompt is empty, and this vocabulary has no token that opens a text",
        ),
        (
            {"data.held_out": "tokens", "data.overlap": 999_999},
            "params.yaml: data.held_out_share = 0.1, data.overlap =",
        ),
    ],
)
def test_a_demand_that_a_later_stage_would_refuse(changes, named):
    plant()
    (found,) = problems(changes)
    assert found.startswith(named)


@pytest.mark.parametrize(
    ("prompt", "note"), [("the zorp", "not in the vocabulary, seen as <unk>: 'zorp'"), ("the", "")]
)
def test_words_of_the_sample_prompt_that_the_vocabulary_lacks_get_a_note(prompt, note):
    plant()
    (found,) = [
        one
        for one in tried({"train.sample_prompt": prompt}).findings
        if one.what == "train.sample_prompt"
    ]
    assert (found.problem, found.note) == ("", note)


def test_vectors_of_none_of_the_words():
    plant()
    Path("v.vec").write_text("1 8\nzorp 1 2 3 4 5 6 7 8\n")
    vectors = {"embedding.source": "file", "embedding.path": "v.vec"}
    (found,) = problems(vectors)
    assert found.startswith("v.vec: has none of the vocabulary's ")
    Path("v.vec").write_text("1 8\ndog 1 2 3 4 5 6 7 8\n")
    assert problems(vectors) == []


def test_what_more_data_may_cure_is_no_problem_of_a_beginning(monkeypatch):
    """Only the beginning of a large corpus is read: too few prompts there say nothing, a wrong line does."""
    plant([f"{text} {number}" for number in range(40) for text in STORIES])
    monkeypatch.setattr(rehearsal, "WORDS_BYTES", 2000)
    asked = {"kv_bench.batch": 40, "vocab.min_count": 100, "decode.top_k": 45}
    found = tried(asked)
    assert not [finding for finding in found.findings if finding.problem]
    stories = next(finding for finding in found.findings if finding.what == "stories")
    assert stories.value.endswith("; only the beginning was read")
    assert found.tokens_per_epoch is None
    assert problems({"train.tokens": 10}) != []
    Path("stories.jsonl").write_text('{"text": 3}\n' + Path("stories.jsonl").read_text())
    assert problems(asked) == ["stories.jsonl, line 1: column 'text' holds int '3'; allowed: text"]


def test_an_evaluation_split_is_read_as_far_as_it_is_needed(folder, monkeypatch):
    (folder / "d").mkdir()
    plant(STORIES, "d/train.jsonl")
    plant([f"{text} Then it rained." for text in STORIES], "d/validation.jsonl")
    asked = {"data.path": "d", "data.evaluation_stories": None}
    assert problems({**asked, "kv_bench.batch": len(STORIES)}) == []
    (found,) = problems({**asked, "kv_bench.batch": len(STORIES) + 1})
    assert found.startswith(
        f"params.yaml: kv_bench.batch = {len(STORIES) + 1}; allowed: at most {len(STORIES)}, "
    )
    monkeypatch.setattr(rehearsal, "EVALUATION_STORIES", 5)
    assert problems({**asked, "kv_bench.batch": 2, "beam_bench.prompts": 7}) == []


def test_the_storybook_is_tried_in_part_and_the_hub_not_at_all(monkeypatch):
    monkeypatch.setattr(rehearsal, "STORYBOOK_STORIES", 20)
    storybook = {
        "data.source": "storybook",
        "data.path": "tinylm/storybook",
        "data.train_stories": 900,
    }
    book = {**storybook, "data.evaluation_stories": 20, "evaluate.tendency_sentences": 3}
    values = {finding.what: finding.value for finding in tried(book).findings}
    assert values["stories"].endswith("only the beginning was read")
    monkeypatch.setattr(rehearsal, "open_source", lambda _: pytest.fail("asked the hub"))
    assert problems({"data.source": "hub"}) == []


def test_nothing_is_left_in_the_folder():
    plant()
    before = sorted(Path.cwd().rglob("*"))
    tried()
    assert sorted(set(Path.cwd().rglob("*")) - {Path.cwd() / "params.yaml"}) == before


@pytest.mark.parametrize("section", ["model", "train"])
def test_a_section_with_an_error_does_not_end_the_check(section):
    """The whole of a small corpus is read, and then no batch can be made without these settings."""
    plant()
    tried()
    params = load_params()
    params[section]["no_such_key"] = 1
    read, _ = read_sections(params)
    assert section not in read
    assert rehearse(read).tokens_per_epoch is None
