"""tinylm check: each planted problem is named by its key, before any work."""

import dataclasses
import json
import math
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch
from hypothesis import HealthCheck, given, settings, strategies

from tests.drawn.reruns import other_values
from tests.storybook.worlds import FRENCH, write_world
from tests.support.clone import set_params
from tinylm.base.config import load_params
from tinylm.base.files import read_json, write_json
from tinylm.cli import check, main
from tinylm.download.settings import DataSettings
from tinylm.params import estimate, speed
from tinylm.params.params import read_sections
from tinylm.params.presets.write import FOLDER

BASE = load_params(FOLDER / "storybook.yaml")


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    """A folder that has all a run needs."""
    monkeypatch.chdir(tmp_path)
    Path(BASE["data"]["path"]).mkdir(parents=True)
    for section in ("vocab", "embedding"):
        path = Path(BASE[section]["path"])
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    Path("dvc.yaml").touch()
    plant({})
    monkeypatch.setattr(check, "measure", lambda params: speed.Speed(1e-4, 0.03, "cpu"))
    return tmp_path


def plant(changes: dict) -> None:
    """params.yaml of the storybook with {"section.key": value} changed."""
    shutil.copy(FOLDER / "storybook.yaml", "params.yaml")
    set_params(Path(), {"runtime.threads": "auto", "runtime.device": "auto"} | changes)


def problems() -> list[str]:
    return check.find_all().problems.lines


def test_a_folder_in_order_has_no_problem(capsys):
    assert main(["check"]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 2
    assert sum(read_json(estimate.FILE)["seconds"].values()) > 100


def test_a_text_that_experiments_cannot_read_is_named():
    plant({"report.title": "a ${x}", "report.prompts": ["one", "${two}"]})
    notes = [note.partition(":")[0] for note in check.find_all().notes if "${" in note]
    assert notes == ["report.prompts.1", "report.title"]


def test_a_world_is_checked_by_file_and_line(tmp_path):
    plant({"data.source": "world", "data.path": "welt"})
    assert problems() == ["params.yaml: data.path: expected a readable file or folder, got 'welt'"]
    write_world(tmp_path / "welt", FRENCH | {"slots.txt": "hero: animaux\nami: ami\n"})
    expected = "welt/slots.txt, line 1: expected the list animaux: in lexicon.txt, got none"
    assert expected in problems()
    write_world(tmp_path / "welt", FRENCH)
    assert problems() == []
    lexicon = {"lexicon.txt": "a:\nx, y\n", "slots.txt": "", "plots.txt": "story:\n{*a} z\n"}
    write_world(tmp_path / "small", lexicon)
    plant({"data.source": "world", "data.path": "small"})
    (note,) = [note for note in check.find_all().notes if "small" in note]
    assert "48 of 50 stories are repeats" in note


def test_the_estimate_follows_the_size_of_the_corpus(capsys):
    def seconds(**data):
        plant({f"data.{key}": value for key, value in data.items()})
        assert main(["check"]) == 0
        return read_json(estimate.FILE)["seconds"]

    default = seconds()
    Path("few.txt").write_text("A dog saw a cat.\n\n" * 500, encoding="utf-8")
    few = seconds(source="local", path="few.txt", train_stories=None)
    assert few["download"] < 0.5 * default["download"]
    assert "validation" not in capsys.readouterr().out
    many = seconds(train_stories=2_000_000)
    assert many["train"] > 5 * default["train"]
    assert (
        "of the training time is validation; reduce it with a smaller data.held_out_share"
        in capsys.readouterr().out
    )


def test_within_an_hour_the_same_settings_are_not_measured_again(monkeypatch, capsys):
    assert main(["check"]) == 0
    monkeypatch.setattr(check, "measure", lambda params: pytest.fail("measured again"))
    assert main(["check"]) == 0
    plant({"beam_bench.widths": [1, 2], "data.train_stories": 500})
    assert main(["check"]) == 0
    assert "measured" not in capsys.readouterr().out
    for minutes in (30, -5, 61):
        kept = read_json(speed.FILE)
        write_json(speed.FILE, kept | {"at": time.time() - 60 * minutes})
        if minutes == 30:
            assert main(["check"]) == 0
            assert "on this machine (measured 30 min ago)" in capsys.readouterr().out
            continue
        with pytest.raises(pytest.fail.Exception, match="measured again"):
            main(["check"])


@pytest.mark.parametrize("section", ["model", "train", "runtime", "embedding"])
@settings(max_examples=20, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=strategies.data())
def test_a_setting_that_changes_the_speed_is_measured_anew(section, data):
    sections = read_sections(BASE)[0]
    measured = speed.Speed(1.0, 2.0, "cpu")
    speed.keep_speed(sections, measured)
    keys = dataclasses.asdict(sections[section])
    others_of = {key: other_values(f"{section}.{key}", value) for key, value in keys.items()}
    key = data.draw(strategies.sampled_from([key for key, others in others_of.items() if others]))
    other = data.draw(strategies.sampled_from(others_of[key]))
    edited = dataclasses.replace(sections[section], **{key: other})
    others = {"embedding": {"width"}, "runtime": {"threads", "device"}}
    changes_speed = key in others[section] if section in others else key not in speed.SAME_SPEED
    expected = None if changes_speed else measured
    assert speed.kept_speed(sections | {section: edited}) == expected


JUNK = (
    strategies.none()
    | strategies.text()
    | strategies.floats()
    | strategies.integers(-(10**400), 10**400)
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    key=strategies.sampled_from(["token_s", "forward_s", "device", "at", "of", None]),
    value=JUNK | strategies.lists(JUNK) | strategies.dictionaries(strategies.text(), JUNK),
)
def test_an_edited_measurement_is_measured_anew_or_read_as_a_sound_one(key, value):
    sections = read_sections(BASE)[0]
    speed.keep_speed(sections, speed.Speed(1.0, 2.0, "cpu"))
    kept = read_json(speed.FILE)
    speed.FILE.write_text(json.dumps(value if key is None else kept | {key: value}))
    found = speed.kept_speed(sections)
    assert found is None or 0 < found.token_s < math.inf > found.forward_s > 0


@pytest.mark.parametrize("content", ["", "{", "[]", "null", "{}"])
def test_a_damaged_measurement_is_measured_anew(content):
    speed.FILE.parent.mkdir(parents=True)
    speed.FILE.write_text(content)
    assert main(["check"]) == 0
    assert read_json(speed.FILE)["token_s"] == 1e-4


def test_the_speed_of_a_card_is_not_kept_since_it_may_be_missing_the_next_time():
    sections = read_sections(BASE)[0]
    speed.keep_speed(sections, speed.Speed(1.0, 2.0, "cuda"))
    assert speed.kept_speed(sections) is None


def test_a_second_check_does_not_load_torch():
    program = (
        "import sys; from tinylm.cli import main; print(main(['check']), 'torch' in sys.modules)"
    )
    command = [sys.executable, "-c", program]
    lines = [subprocess.run(command, stdout=subprocess.PIPE, text=True).stdout for _ in range(2)]
    assert [text.splitlines()[-1] for text in lines] == ["0 True", "0 False"]


@pytest.mark.parametrize("train_stories", [None, 1000])
def test_the_share_of_evaluation_is_of_the_stories_that_are_read(train_stories):
    Path("many.txt").write_text("A dog saw a cat.\n\n" * 500_000, encoding="utf-8")
    data = DataSettings(
        source="local", path="many.txt", held_out_share=0.2, train_stories=train_stories
    )
    corpus = estimate.corpus_of(data)
    read = corpus.train / 0.8 if train_stories else corpus.train
    assert corpus.evaluation == pytest.approx(0.2 * read)


def test_problems_of_all_sections_and_the_machine_are_shown_at_once(capsys):
    plant({"train.lr": -1, "model.layers": "four", "vocab.path": "nowhere"})
    assert main(["check"]) == 2
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 3
    for named, line in zip(("model.layers", "train.lr", "vocab.path"), lines, strict=True):
        assert named in line


def test_params_that_cannot_be_read_are_one_problem():
    Path("params.yaml").write_text("train: [\n")
    assert main(["check"]) == 2
    (problem,) = problems()
    assert problem.startswith("params.yaml")


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"data.path": "nowhere", "data.source": "local"}, "data.path"),
        ({"data.path": "inputs/stories", "data.source": "local"}, "preset NAME --hub"),
        ({"data.path": "a.xlsx", "data.source": "local"}, "a.xlsx"),
        ({"data.path": "names.txt", "data.source": "local"}, "at least 3 stories"),
        ({"vocab.path": "nowhere"}, "vocab.path"),
        ({"embedding.path": "nowhere"}, "embedding.path"),
        ({"embedding.source": "file", "embedding.path": "v.vec"}, "embedding.width"),
        ({"runtime.device": "cuda"}, "runtime.device"),
        ({"train.compile": "true"}, "train.compile"),
    ],
)
def test_a_planted_problem_is_the_only_one(changes, named, monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    Path("a.xlsx").write_bytes(b"PK")
    Path("names.txt").write_text("Ann\nBo\nCy\n")
    Path("v.vec").write_text("2 3\na 1 2 3\nb 1 2 3\n")
    plant(changes)
    (problem,) = problems()
    assert named in problem


def test_data_outside_the_repository_is_noted():
    Path("stories").mkdir()
    Path("stories/a.jsonl").write_text('{"text": "a dog"}\n' * 3)
    plant({"data.source": "local", "data.path": f"../{Path.cwd().name}/stories"})
    assert "--temp" in "\n".join(check.find_all().notes)


def test_what_is_not_read_of_a_corpus_is_noted():
    for name in ("train.jsonl", "stories.jsonl"):
        Path("stories").mkdir(exist_ok=True)
        Path("stories", name).write_text('{"text": "a dog"}\n' * 3)
    plant({"data.source": "local", "data.path": "stories", "data.train_stories": 7})
    notes = "\n".join(check.find_all().notes)
    assert "stories.jsonl" in notes
    assert "data.train_stories" in notes
    plant({"data.source": "local", "data.path": "stories/train.jsonl", "data.train_stories": None})
    assert "data." not in "\n".join(check.find_all().notes)
