"""What is read of a revision, and which runs are one setting."""

import copy
import hashlib
import json

import numpy as np
import pytest

from tinylm.base.config import InputError
from tinylm.compare.comparison import compare
from tinylm.compare.results import by_setting, read_result, stories_of


def test_a_whole_revision_is_read(revision):
    result = read_result(revision())
    assert result.name == "main"
    assert result.params == {"train.lr": 0.003, "train.seed": 1}
    assert result.perplexity == 2.5
    assert result.stories[1]["text_id"].tolist() == ["t1", "t2", "t3"]
    assert result.stories[1]["nats"].tolist() == [2.5, 5.0, 7.5]
    assert np.isnan(result.stories[1]["raw_bits"]).all()
    assert result.notes == []


def test_a_run_that_diverged_has_losses_though_no_perplexity(revision):
    result = read_result(revision(**{"metrics/evaluate.json": {"perplexity": None}}))
    assert result.perplexity is None
    assert result.stories[1]["nats"].tolist() == [2.5, 5.0, 7.5]


def test_a_text_that_occurs_twice_is_one_row_with_the_sums(revision):
    header, *rows = """\
text_id,tokens_id,nats,tokens,raw_bits,raw_bytes
t1,v1,2,1,4,9
t2,v2,5,2,6,8
t1,v1,2,1,4,9
""".splitlines()
    table = read_result(revision(**{"data/evaluate/stories.csv": "\n".join([header, *rows])}))
    assert table.stories[1].to_numpy().tolist() == [
        ["t1", "v1", 4, 2, 8, 18],
        ["t2", "v2", 5, 2, 6, 8],
    ]


def test_inputs_are_the_code_and_data_that_no_stage_wrote(revision, lock):
    lock["vocab"] = {"outs": [{"path": "data/tokens", "md5": "t1.dir"}]}
    result = read_result(revision(lock=lock))
    assert result.inputs == {"tinylm/model": "m1.dir", "../stories.jsonl": "s1"}


def test_parameters_are_those_of_the_last_run(revision):
    result = read_result(revision(**{"params.yaml": "train:\n  lr: 1e-2\n  seed: 1\n"}))
    assert result.params["train.lr"] == 0.003
    assert "train.lr" in result.notes[0]
    assert len(result.stories[1]) == 3


def test_an_evaluation_of_another_model_is_left_out(revision, lock):
    """As after `dvc repro train`: the losses are those of the model before."""
    lock["evaluate"]["deps"][0]["md5"] = "w0.dir"
    result = read_result(revision(lock=lock))
    assert result.stories == {}
    assert "evaluate" in result.notes[0]


def test_missing_or_damaged_files_are_noted_or_named_and_the_rest_read(revision):
    result = read_result(revision(**{"data/evaluate/stories.csv": None}))
    assert result.notes == ["data/evaluate/stories.csv: not here"]
    assert result.perplexity == 2.5
    damaged = read_result(revision(**{"data/evaluate/stories.csv": "text_id\na\n"}))
    assert damaged.notes[0].startswith("data/evaluate/stories.csv")
    assert damaged.stories == {}
    with pytest.raises(InputError, match=r"params\.yaml"):
        read_result(revision(**{"params.yaml": None}))
    with pytest.raises(InputError, match=r"main: metrics/evaluate\.json: not JSON"):
        read_result(revision(**{"metrics/evaluate.json": "{"}))


def test_further_seeds_have_the_losses_that_stage_seed_score_wrote(revision, lock):
    lock["seeds"] = {"params": {"params.yaml": {"seeds": {"more": [2, 3]}}}}
    lock["seed_train@2"] = {
        "params": lock["train"]["params"],
        "deps": lock["train"]["deps"],
        "outs": [{"path": "data/seeds/2", "md5": "w2"}],
    }
    lock["seed_score@2"] = {"deps": [{"path": "data/seeds/2", "md5": "w2"}]}
    lock["seed_train@3"] = {"params": {"params.yaml": {"train": {"lr": 9}}}}  # of an earlier run
    columns = {"nats": [1, 2, 3], "raw_bits": [None, 8, 9]}
    files = {f"data/seeds/{seed}.json": {"stories": columns} for seed in (2, 3)}
    stories = read_result(revision(lock=lock, **files)).stories
    assert list(stories) == [1, 2]
    assert stories[2]["nats"].tolist() == [1, 2, 3]
    assert stories[2]["tokens"].equals(stories[1]["tokens"])


@pytest.mark.parametrize(
    ("stage", "path"),
    [
        ("seed_train@2", "tinylm/model"),
        ("seed_train@2", "data/tokens"),
        ("seed_score@2", "data/seeds/2"),
        ("seed_score@2", "../stories.jsonl"),
    ],
)
def test_a_seed_of_other_code_data_or_weights_does_not_count(revision, lock, stage, path):
    lock["seeds"] = {"params": {"params.yaml": {"seeds": {"more": [2]}}}}
    weights = {"path": "data/seeds/2", "md5": "w2"}
    lock["seed_train@2"] = copy.deepcopy(lock["train"]) | {"outs": [weights]}
    lock["seed_score@2"] = {"deps": [dict(weights), {"path": "../stories.jsonl", "md5": "s1"}]}
    columns = {"nats": [1, 2, 3], "raw_bits": [None, 8, 9]}
    files = {"data/seeds/2.json": {"stories": columns}}
    assert list(read_result(revision(lock=lock, **files)).stories) == [1, 2]
    changed = next(row for row in lock[stage]["deps"] if row["path"] == path)
    changed["md5"] = "other"
    result = read_result(revision(lock=lock, **files))
    assert list(result.stories) == [1]
    assert "seed 2 was run with other" in result.notes[0]


@pytest.mark.parametrize("stage", ["train", "evaluate"])
def test_a_stage_that_has_not_run_on_new_data_gives_no_results(revision, lock, stage):
    """As after `dvc exp run -S data.evaluation_stories=20 train`."""
    lock["vocab"] = {"outs": [{"path": "data/tokens", "md5": "t1.dir"}]}
    lock["evaluate"]["deps"].append({"path": "data/tokens", "md5": "t1.dir"})
    assert read_result(revision(lock=lock)).perplexity == 2.5
    changed = next(row for row in lock[stage]["deps"] if row["path"] == "data/tokens")
    changed["md5"] = "t0.dir"
    result = read_result(revision(lock=lock))
    assert (result.perplexity, result.stories) == (None, {})
    assert f"stage {stage} ran on older" in result.notes[0]


def test_runs_that_differ_in_train_seed_alone_are_one_setting(make_run):
    runs = [
        make_run("a"),
        make_run("b", {"train.lr": 1}),
        make_run("c", {"train.seed": 2}),
        make_run("d", {"train.lr": 1, "train.seed": 2}),
        make_run("e", {"data.seed": 2}),
        make_run("f", inputs={"tinylm/model": "m2"}),
    ]
    names = [[run.name for run in setting] for setting in by_setting(runs)]
    assert names == [["a", "c"], ["b", "d"], ["e"], ["f"]]
    assert list(stories_of(by_setting(runs)[0])) == [1, 2]


def test_a_seed_counts_once_and_the_first_runs_texts_decide(make_run):
    first = make_run("a")
    again = make_run("b", shift=2.0)
    other = make_run("c", {"train.seed": 2}, texts=["another", "text"])
    stories = stories_of([first, again, other])
    assert list(stories) == [1]
    assert stories[1] is first.stories[1]


def test_metrics_of_another_run_than_the_lock_are_left_out(revision, lock):
    """As after `git commit params.yaml dvc.lock`."""
    written = json.dumps({"perplexity": 2.5})
    lock["evaluate"]["outs"].append(
        {"path": "metrics/evaluate.json", "md5": hashlib.md5(written.encode()).hexdigest()}
    )
    assert read_result(revision(lock=lock)).perplexity == 2.5
    other = read_result(revision(lock=lock, **{"metrics/evaluate.json": {"perplexity": 9.0}}))
    assert other.perplexity is None
    assert "metrics/evaluate.json is of another run" in other.notes[0]
    assert len(other.stories[1]) == 3


@pytest.mark.parametrize(("one", "other"), [(1, 1.0), ([1, 2], [1.0, 2]), ("true", True)])
def test_equal_values_are_one_setting_however_they_are_written(make_run, one, other):
    runs = [make_run("a", {"train.x": one}), make_run("b", {"train.x": other, "train.seed": 2})]
    assert len(by_setting(runs)) == 1
    (row,) = compare(runs).rows
    assert (row.differs, row.verdict) == (["train.seed 1 → 2"], "only the seed differs")
