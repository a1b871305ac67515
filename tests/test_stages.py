"""Each stage on a few stories in a temporary folder; then what a stage says when it cannot work."""

import csv
import math
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import yaml

from tests.support.stages import ORDER, ROOT, SMALL, STORIES, plant, read, run, small_params
from tinylm.host.processes import exclusive_lock


@pytest.fixture
def pipeline(finished_run):
    return finished_run


@pytest.fixture
def empty(tmp_path, monkeypatch):
    """The current folder: parameters and stories, and nothing that a stage made."""
    monkeypatch.chdir(tmp_path)
    plant(tmp_path, small_params())
    return tmp_path


def test_every_stage_writes_its_outputs(pipeline):
    stages = yaml.safe_load((ROOT / "dvc.yaml").read_text(encoding="utf-8"))["stages"]
    assert {command.split()[0] for command in ORDER} == set(stages)
    named = [
        e
        for stage in stages.values()
        for kind in ("outs", "metrics", "plots")
        for e in stage.get(kind, [])
    ]
    paths = [entry if isinstance(entry, str) else next(iter(entry)) for entry in named]
    paths = [path.replace("${item.accumulation}", number) for path in paths for number in "12"]
    paths = [path.replace("${item.seed}", "2") for path in paths]
    assert [path for path in sorted(set(paths)) if not (pipeline / path).exists()] == []
    assert len(set(paths)) > 30


def test_download_and_vocab_count_the_same_stories(pipeline):
    splits = read(pipeline / "data/figures/download.json")["splits"]
    assert sum(split["stories"] for split in splits.values()) == len(set(STORIES)) == 90
    words = {word for story in STORIES for word in story.lower().replace(".", " ").split()}
    vocab = read(pipeline / "data/figures/vocab.json")
    assert vocab["size"] <= len(words) + 4
    for name, split in splits.items():
        assert (
            vocab["tokens"][name] == split["words"] + 2 * split["stories"]
        )  # <sos> and <eos> of each


def test_train_and_evaluate_agree_on_what_the_model_learned(pipeline):
    train, evaluate = (
        read(pipeline / f"data/figures/{name}.json") for name in ("train", "evaluate")
    )
    size = read(pipeline / "data/figures/vocab.json")["size"]
    assert train["held_out_loss_last"] < math.log(size) + 0.5
    assert train["tokens"] <= SMALL["train"]["tokens"]
    assert evaluate["perplexity"] == pytest.approx(math.exp(evaluate["nats_per_token"]))
    assert evaluate["baselines"]["uniform"]["perplexity"] == pytest.approx(size)
    with np.load(pipeline / "data/evaluate/attention.npz", allow_pickle=False) as arrays:
        words, maps = arrays["words_1"], arrays["maps_1"]
    assert maps.shape == (2, 2, len(words), len(words))
    assert maps.sum(-1) == pytest.approx(np.ones(maps.shape[:3]), abs=1e-5)


def test_evaluate_keeps_the_loss_of_each_story(pipeline):
    scored = read(pipeline / "data/figures/evaluate.json")
    with open(pipeline / "data/evaluate/stories.csv", encoding="utf-8", newline="") as handle:
        stories = list(csv.DictReader(handle))
    assert (
        len(stories)
        == read(pipeline / "data/figures/download.json")["splits"]["evaluation"]["stories"]
    )
    nats, bits = (sum(float(row[key]) for row in stories) for key in ("nats", "bits"))
    tokens, n_bytes = (sum(int(row[key]) for row in stories) for key in ("tokens", "bytes"))
    assert (tokens, n_bytes) == (scored["tokens"], scored["bytes"])
    assert math.exp(nats / tokens) == pytest.approx(scored["perplexity"], rel=1e-6)
    assert bits / n_bytes == pytest.approx(scored["bits_per_byte"], rel=1e-6)
    assert scored["raw_bits_per_byte"] is None  # of words; only lossless tokens have it
    splits = read(pipeline / "data/figures/download.json")["splits"]
    assert scored["raw_bytes"] == splits["evaluation"]["bytes"]
    with open(pipeline / "data/evaluate/samples.csv", encoding="utf-8", newline="") as handle:
        samples = list(csv.DictReader(handle))
    assert len(samples) == SMALL["evaluate"]["stories"]
    assert {int(row["story"]) for row in samples} < set(range(len(stories)))


def test_benches_measured_every_setting(pipeline):
    beams = read(pipeline / "data/figures/beam_bench.json")["methods"]
    assert list(beams) == ["sampling", "greedy", "beam 1", "beam 2"]
    assert beams["greedy"]["log_prob"] == pytest.approx(beams["beam 1"]["log_prob"], abs=1e-4)
    assert read(pipeline / "data/figures/kv_bench.json")["same_ids"] is True
    assert read(pipeline / "data/figures/ckpt_bench.json")["depths"] == [1]
    assert set(read(pipeline / "data/figures/accum_sweep.json")["settings"]) == {"1", "2"}
    for path in (pipeline / "metrics").glob("*_time.json"):
        assert read(path).get("not_measured", []) == [], path.name


def test_metrics_in_git_hold_no_time(pipeline):
    """Equal runs must give equal bytes: no seconds, rates, memory, date or machine."""

    def keys(value) -> set[str]:
        if isinstance(value, dict):
            return set(value) | {key for item in value.values() for key in keys(item)}
        return {key for item in value for key in keys(item)} if isinstance(value, list) else set()

    for path in (pipeline / "metrics").glob("*.json"):
        found = keys(read(path))
        measured = {
            key
            for key in found
            if key.endswith(("_s", "_mib")) or key in ("seconds", "conditions", "date")
        }
        assert bool(measured) == path.stem.endswith("_time"), f"{path.name}: {measured}"


def test_the_table_of_metrics_fits_a_screen(pipeline):
    """`dvc metrics show`: a column for each name of any stage, four spaces between them, numbers of five digits."""
    shown = {
        path.name: read(path)
        for path in (pipeline / "metrics").glob("*.json")
        if "_time" not in path.name
    }
    widths: dict[str, int] = {"sense": 5}  # of storybook runs
    for figures in shown.values():
        for name, value in figures.items():
            widths[name] = max(widths.get(name, 0), len(name), len(f"{value:.5g}"))
    assert "sd" in widths
    assert (
        len("metrics/") + max(map(len, shown)) + sum(4 + width for width in widths.values()) <= 160
    )


def test_plots_are_long_tables(pipeline):
    for path in (pipeline / "plots").glob("*.csv"):
        with open(path, encoding="utf-8", newline="") as handle:
            rows = list(csv.reader(handle))
        assert rows[0][-2:] == ["series", "value"], path.name
        assert len(rows) > 1, path.name
        assert all(
            len(row) == len(rows[0]) and math.isfinite(float(row[-1])) for row in rows[1:]
        ), path.name


def test_the_report_shows_everything(pipeline):
    page = (pipeline / "report/index.html").read_text(encoding="utf-8")
    assert "Not shown" not in page
    assert (pipeline / "plots/pictures/seconds.png").stat().st_size > 1000


@pytest.mark.parametrize(
    ("command", "path", "stage"),
    [
        ("vocab", "data/stories/train.jsonl", "download"), ("train", "data/vocab/tokenizer.json", "vocab"),
        ("evaluate", "models/config.json", "train"), ("beam_bench", "models/config.json", "train"),
        ("kv_bench", "data/vocab/tokenizer.json", "vocab"), ("accum_run 1", "data/vocab/tokenizer.json", "vocab"),
        ("accum_sweep", "data/accum/1.json", "accum_run@1"), ("ckpt_bench", "data/vocab/tokenizer.json", "vocab"),
        ("seed_train 2", "data/vocab/tokenizer.json", "vocab"),
        ("seed_score 2", "data/seeds/2/config.json", "seed_train@2"), ("seeds", "data/figures/train.json", "train")
    ],
)  # fmt: skip
def test_a_missing_input_names_the_stage_that_makes_it(empty, capsys, command, path, stage):
    assert run(command) == 2
    told = capsys.readouterr().err
    assert told.strip() == f"error: {path} is missing: run dvc repro {stage}"
    assert not (empty / "metrics").exists()
    assert not (empty / "models").exists()


HOSTILE = {
    "data": {"held_out_share": 2, "train_stories": "many", "seed": -1, "source": "web"},
    "embedding": {"width": 0, "lr": "fast"},
    "model": {"layers": 0, "norm": "none"},
    "train": {"lr": -1, "tokens": 0, "layout": "rows", "precision": None},
    "evaluate": {"stories": 0, "reference": "half", "ngram_order": "x", "bootstrap": 0},
    "beam_bench": {"widths": [], "prompts": 0, "repeats": 0.5},
    "kv_bench": {"lengths": [1], "batch": None},
    "accum_sweep": {"settings": 4, "tokens": -5, "batch_size": 0},
    "ckpt_bench": {"depths": ["two"], "batch_size": True},
    "seeds": {"more": [-1]},
    "report": {"samples": -1, "title": 7},
}


def test_bad_values_are_told_all_at_once(empty, capsys):
    params = small_params()
    for section, values in HOSTILE.items():
        params[section] |= {**values, "colour": "red"}
    plant(empty, params)
    assert run("download") == 2
    told = capsys.readouterr().err
    for section, values in HOSTILE.items():
        for key in [*values, "colour"]:
            assert f"error: params.yaml: {section}.{key} " in told
    assert "Traceback" not in told
    assert not (empty / "metrics").exists()


def test_rules_between_values(empty, capsys):
    params = small_params()
    params["embedding"] |= {"min_n": 9, "max_n": 3}
    plant(empty, params)
    assert run("vocab") == 2
    assert "params.yaml: embedding.min_n = 9; allowed: at most max_n = 3" in capsys.readouterr().err


@pytest.mark.parametrize("arguments", ["", "3", "1 2", "one"])
def test_accum_run_wants_one_of_its_settings(empty, capsys, arguments):
    assert run(f"accum_run {arguments}") == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(
        f"error: stages.accum_run: argument {arguments or 'nothing'}; allowed: one of "
    )
    assert "accum_sweep.settings" in line
    assert "[1, 2]" in line


@pytest.mark.parametrize("stage", ["seed_train", "seed_score"])
@pytest.mark.parametrize("arguments", ["", "1 2", "one", "-1"])
def test_a_further_seed_is_one_whole_number(empty, capsys, stage, arguments):
    assert run(f"{stage} {arguments}") == 2
    expected = f"error: stages.{stage}: argument {arguments or 'nothing'}; allowed: one seed, a whole number >= 0\n"
    assert capsys.readouterr().err == expected


def test_a_further_seed_trains_as_stage_train_does_with_that_seed(pipeline, tmp_path, monkeypatch):
    """And evaluate keeps no table or maps of an earlier run."""
    shutil.copytree(pipeline, tmp_path, symlinks=True, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    params = small_params()
    params["train"]["seed"] = 2
    params["seeds"]["more"] = []
    params["evaluate"]["greedy"] = 0
    plant(tmp_path, params)
    old = [tmp_path / "data/evaluate" / name for name in ("moments.npz", "greedy.csv")]
    for path in old:
        path.write_bytes(b"of an earlier run")
    assert run("train") == 0
    shutil.rmtree(tmp_path / "models/checkpoints")  # as where no weights of moments are kept
    assert run("evaluate") == run("seeds") == 0
    assert [path for path in old if path.exists()] == []
    first, second, other = (
        (folder / "model.safetensors").read_bytes()
        for folder in (pipeline / "models", pipeline / "data/seeds/2", tmp_path / "models")
    )
    assert first != second == other
    alone, both = (
        read(tmp_path / "data/figures/seeds.json"),
        read(pipeline / "data/figures/seeds.json"),
    )
    assert (alone["n"], both["n"]) == (1, 2)
    assert "sd" not in alone["perplexity"]
    assert alone["by_seed"]["2"] == both["by_seed"]["2"]
    assert set(both["by_seed"]) == {"1", "2"}
    assert both["perplexity"]["sd"] > 0
    trained = read(pipeline / "data/figures/train.json")
    assert both["by_seed"]["1"]["held_out_loss"] == pytest.approx(trained["held_out_loss_last"])
    assert (
        both["by_seed"]["1"]["perplexity"]
        == read(pipeline / "data/figures/evaluate.json")["perplexity"]
    )


def test_what_the_samples_share_with_train_is_measured(pipeline):
    found = read(pipeline / "data/figures/evaluate.json")["memorised"]
    with open(pipeline / "data/evaluate/memorised.csv", encoding="utf-8", newline="") as handle:
        rows = list(csv.DictReader(handle))
    assert len(rows) == 2 * SMALL["evaluate"]["stories"]
    references = [int(row["longest_run"]) for row in rows if row["text"] == "reference"]
    assert found["references"]["longest_run"]["value"] == pytest.approx(
        sum(references) / len(references)
    )
    assert min(references) >= 2  # the stories are made of few sentences


def test_a_damaged_corpus_is_told_by_file_and_line(empty, capsys):
    with open("stories.jsonl", "a", encoding="utf-8") as handle:
        handle.write('{"text": \n')
    assert run("download") == 2
    assert "stories.jsonl, line 91" in capsys.readouterr().err
    assert not list(empty.rglob("*.jsonl.*")) + list(empty.glob("data/stories/*"))


def test_two_trainings_at_once_are_refused(pipeline, capsys, monkeypatch):
    monkeypatch.chdir(pipeline)
    before = (pipeline / "models/model.safetensors").read_bytes()
    with exclusive_lock("runs/train.lock", "training"):
        assert run("train") == 2
    assert f"training is already running here (pid {os.getpid()}, since " in capsys.readouterr().err
    assert (pipeline / "models/model.safetensors").read_bytes() == before


def test_a_stage_as_a_command_of_its_own(empty):
    """As DVC starts it: the exit code reaches the shell, the error is one line on standard error."""
    words = [sys.executable, "-m", "stages.download"]
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    assert "evaluation: " in done.stdout
    Path("stories.jsonl").unlink()
    failed = subprocess.run(words, capture_output=True, text=True)
    assert failed.returncode == 2
    assert failed.stderr.startswith("error: ")
    assert "stories.jsonl" in failed.stderr
    assert len(failed.stderr.splitlines()) == 1


def test_outputs_behind_a_link_are_refused_before_any_work(empty, capsys):
    """DVC would run the stage, and then refuse what it wrote."""
    (empty / "elsewhere").mkdir()
    Path("data").symlink_to("elsewhere")
    assert run("download") == 2
    assert capsys.readouterr().err.startswith(
        "error: data is a link to elsewhere; allowed: a folder"
    )
    assert not list(Path("elsewhere").iterdir())


def test_a_run_is_known_by_the_borders_of_its_stories_too():
    """A vocabulary without marks gives other stories the same ids: their borders must part the runs."""
    from tinylm.train.preparation import DATA

    assert {
        f"data/tokens/{split}.{kind}"
        for split in ("train", "held_out")
        for kind in ("ids", "offsets")
    } <= set(DATA)
