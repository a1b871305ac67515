import copy
import json

import numpy as np
import pytest

from tinylm.compare.comparison import compare
from tinylm.compare.runs import read_run


@pytest.fixture
def lock(revision):
    """A copy of the lock that the revision has, to be changed."""
    return copy.deepcopy(json.loads(revision().text("dvc.lock")))


def test_a_whole_revision_is_read(revision):
    run = read_run(revision())
    assert (run.name, run.commit) == ("main", "c" * 40)
    assert run.params == {"train.lr": 0.003, "train.seed": 1}
    assert run.value("evaluate", "perplexity") == 2.5
    assert run.value("evaluate", "samples", "bleu4") is None
    assert run.value("seeds", "n") is None
    assert run.stories["text_id"].tolist() == ["t1", "t2", "t3"]
    assert run.stories["nats"].tolist() == [2.5, 5.0, 7.5]
    assert np.isnan(run.stories[["bits", "raw_bits"]]).to_numpy().all()
    sample = {"story": 1, "prompt": "a", "reference": "b", "continuation": "c, d\ne"}
    assert run.samples.to_dict("records") == [sample]
    assert run.notes == []


def test_inputs_are_the_code_and_data_that_no_stage_wrote(revision, lock):
    lock["stages"]["vocab"] = {"outs": [{"path": "data/tokens", "md5": "t1.dir"}]}
    run = read_run(revision(**{"dvc.lock": lock}))
    assert run.inputs == {"tinylm/model": "m1.dir", "../stories.jsonl": "s1"}


@pytest.mark.parametrize(
    "path", ["metrics/evaluate.json", "metrics/train.json", "data/evaluate/stories.csv"]
)
def test_a_missing_file_is_noted_and_the_rest_read(revision, path):
    run = read_run(revision(**{path: None}))
    assert run.notes == [f"{path}: not here"]
    assert run.params["train.lr"] == 0.003


def test_further_seeds_have_the_losses_that_stage_seed_score_wrote(revision, lock):
    lock["stages"]["seeds"] = {"cmd": "python -m stages.seeds"}
    columns = {"nats": [1, 2, 3], "bits": [4, 5, 6], "raw_bits": [None, 8, 9]}
    files = {
        "dvc.lock": lock,
        "params.yaml": "train:\n  lr: 3e-3\n  seed: 1\nseeds:\n  more: [2]\n",
        "metrics/seeds.json": {"n": 2, "seeds": [1, 2]},
        "data/seeds/2.json": {"stories": columns},
    }
    run = read_run(revision(**files))
    assert run.more_stories[2]["nats"].tolist() == [1, 2, 3]
    assert run.more_stories[2]["tokens"].equals(run.stories["tokens"])


def test_metrics_of_other_parameters_are_compared_with_nothing(revision):
    run = read_run(revision(**{"params.yaml": "train:\n  lr: 1e-2\n  seed: 1\n"}))
    assert run.metrics == {}
    assert [note.split(" is ")[0] for note in run.notes] == ["stage train", "stage evaluate"]


def test_an_evaluation_of_another_model_is_compared_with_nothing(revision, lock):
    """As after `dvc repro train`: the metrics are those of the model before."""
    lock["stages"]["evaluate"]["deps"][0]["md5"] = "w0.dir"
    run = read_run(revision("new", **PAIRS, **{"dvc.lock": lock}))
    assert list(run.metrics) == ["train"]
    assert run.stories is None
    assert len(run.samples) == len(run.pairs) == 0
    assert compare([read_run(revision("old", **PAIRS)), run]).against[0].findings == []


def test_all_metrics_are_preferred_to_the_few_in_git(revision, lock):
    lock["stages"]["evaluate"]["outs"].append({"path": "data/figures/evaluate.json"})
    whole = {"perplexity": 2.5, "samples": {"bleu4": 0.1}}
    run = read_run(revision(**{"dvc.lock": lock, "data/figures/evaluate.json": whole}))
    assert run.metrics["evaluate"] == {"perplexity": 2.5, "samples": {"bleu4": 0.1}}
    lost = read_run(revision(**{"dvc.lock": lock}))
    assert lost.value("evaluate", "perplexity") == 2.5
    assert lost.notes == ["data/figures/evaluate.json: not here"]


PAIRS = {
    "metrics/evaluate.json": {"pairs": {"all": {"model": 0.5}}, "perplexity": 2.5},
    "data/evaluate/pairs.csv": (
        "phenomenon,draw,right,wrong,model\na,0,x y,y x,0.5\na,1,b,c,-2\nb,0,b,c,0.0\n"
    ),
}


def test_minimal_pairs_are_right_wrong_or_equal(revision):
    run = read_run(revision(**PAIRS))
    assert run.pairs.tolist() == [1.0, 0.0, 0.5]
    assert run.pairs.index[0] == ("a", "0", "x y", "y x")


@pytest.mark.parametrize("name", ["stories", "samples", "pairs"])
def test_a_table_without_its_columns_is_noted_and_left_out(revision, name):
    path = f"data/evaluate/{name}.csv"
    run = read_run(revision(**(PAIRS | {path: "text_id\na\n"})))
    assert run.notes[0].startswith(path)
    assert (run.stories is None) == (name == "stories")
    assert len(run.samples) == (name == "pairs")
    assert len(run.pairs) == (0 if name == "pairs" else 3)
