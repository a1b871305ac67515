"""What is read of a revision, and which runs are one setting."""

import copy
import hashlib
import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.size import ROOT
from tinylm.base.config import InputError, read_yaml
from tinylm.experiments.comparison import compare_settings
from tinylm.experiments.results import by_setting, read_result, stories_of


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


def test_a_run_is_what_it_was_whatever_is_edited_after_it(revision):
    ran_with = {"lr": 0.003, "seed": 1}
    run = read_result(revision())

    @settings(max_examples=30)
    @given(lr=st.sampled_from([0.003, 0.01]), seed=st.sampled_from([1, 2, 3]))
    def check(lr, seed):
        now = {"lr": lr, "seed": seed}
        result = read_result(revision(**{"params.yaml": json.dumps({"train": now})}))
        assert (result.params, result.perplexity) == (run.params, run.perplexity)
        assert list(result.stories) == [1]
        assert result.stories[1].equals(run.stories[1])
        noted = "".join(result.notes)
        for key, value in now.items():
            assert (f"train.{key}" in noted) == (value != ran_with[key])

    check()


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
    columns = {"nats": [1.000004, 2, 3], "raw_bits": [None, 8, 9]}
    files = {f"data/seeds/{seed}.json": {"stories": columns} for seed in (2, 3)}
    stories = read_result(revision(lock=lock, **files)).stories
    assert list(stories) == [1, 2]
    assert stories[2]["nats"].tolist() == [1, 2, 3]
    assert stories[2]["raw_bits"].tolist()[1:] == [8, 9]
    assert stories[2]["tokens"].equals(stories[1]["tokens"])


RUN = ("download", "vocab", "train", "evaluate")
PARTNERS = {"train": "seed_train@2", "evaluate": "seed_score@2"}
PARTNERS |= {further: stage for stage, further in PARTNERS.items()}


def locked(stage):
    """A stage of the project's dvc.yaml as in dvc.lock, where each file's MD5 is its path."""
    declared = read_yaml(ROOT / "dvc.yaml")["stages"][stage.partition("@")[0]]
    rows = {}
    for key in ("deps", "outs"):
        paths = [
            path.replace("${item.seed}", "2") for path in declared[key] if isinstance(path, str)
        ]
        rows[key] = [{"path": path, "md5": path} for path in paths]
    return rows | {"params": {"params.yaml": {"train": {"lr": 0.003, "seed": 1}}}}


LOCKED = {stage: locked(stage) for stage in (*RUN, "seed_train@2", "seed_score@2")}
LOCKED["seeds"] = {"params": {"params.yaml": {"seeds": {"more": [2]}}}}
DEPS = {stage: [row["path"] for row in LOCKED[stage].get("deps", ())] for stage in LOCKED}
WRITTEN = {row["path"] for stage in RUN for row in LOCKED[stage]["outs"]}
CASES = [("", "")] + [(stage, path) for stage in DEPS for path in DEPS[stage]]


@pytest.mark.parametrize(("stage", "changed"), CASES)
def test_only_seeds_and_stages_of_one_run_count(revision, stage, changed):
    """One input of one stage has changed, but not in the other stages that read it."""
    lock = copy.deepcopy(LOCKED)
    for row in lock.get(stage, {}).get("deps", ()):
        if row["path"] == changed:
            row["md5"] = "another"
    columns = {"nats": [1, 2, 3], "raw_bits": [None, 8, 9]}
    result = read_result(revision(lock=lock, **{"data/seeds/2.json": {"stories": columns}}))
    expected = [1, 2]
    if stage in RUN and changed in WRITTEN:
        expected = []
        assert result.perplexity is None
        assert f"stage {stage} is older than what it read" in result.notes[0]
    elif changed in DEPS.get(PARTNERS.get(stage, ""), ()) or changed == "data/seeds/2":
        expected = [1]
        assert "seed 2 was run with different" in result.notes[0]
    assert list(result.stories) == expected


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
    (row,) = compare_settings(runs).rows
    assert (row.differs, row.verdict) == (["train.seed 1 → 2"], "only the seeds differ")
