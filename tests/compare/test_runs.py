import copy
import json
import math

import numpy as np
import pytest

from tinylm.base.config import InputError
from tinylm.compare.comparison import compare
from tinylm.compare.runs import read_run
from tinylm.compare.sections import sections
from tinylm.compare.terminal import to_text


@pytest.fixture
def lock(revision):
    """A copy of the lock that the revision has, to be changed."""
    return copy.deepcopy(json.loads(revision().read("dvc.lock")))


def test_a_whole_revision_is_read(revision):
    run = read_run(revision())
    assert (run.name, run.commit) == ("main", "c" * 40)
    assert run.params == {"train.lr": 0.003, "train.seed": 1}
    assert run.value("evaluate", "perplexity") == 2.5
    assert run.value("evaluate", "samples", "bleu4") is None
    assert run.value("seeds", "n") is None
    assert run.stories.text_ids == ["t1", "t2", "t3"]
    assert run.stories.nats.tolist() == [2.5, 5.0, 7.5]
    assert np.isnan(run.stories.bits).all()
    assert run.samples == [
        {"story": "1", "prompt": "a", "reference": "b", "continuation": "c, d\ne"}
    ]
    assert run.notes == []


def test_inputs_are_the_code_and_data_that_no_stage_wrote(revision, lock):
    lock["stages"]["vocab"] = {"outs": [{"path": "data/tokens", "md5": "t1.dir"}]}
    run = read_run(revision(**{"dvc.lock": lock}))
    assert run.inputs == {"tinylm/model": "m1.dir", "../stories.jsonl": "s1"}


@pytest.mark.parametrize(
    ("path", "told"),
    [
        ("metrics/evaluate.json", "metrics/evaluate.json: not here"),
        ("metrics/train.json", "metrics/train.json: not here"),
        ("data/evaluate/stories.csv", "data/evaluate/stories.csv: not here"),
    ],
)
def test_what_is_missing_is_told_and_the_rest_read(revision, path, told):
    run = read_run(revision(**{path: None}))
    assert run.notes == [told]
    assert run.params["train.lr"] == 0.003


@pytest.mark.parametrize("value", [[1, 2], "much", {"a": 1}, True])
def test_a_perplexity_that_is_no_number_is_told_and_compared_with_nothing(revision, value):
    strange = read_run(
        revision("old", **{"metrics/evaluate.json": {"perplexity": value, "bits_per_byte": 1.5}})
    )
    assert strange.notes == ["metrics/evaluate.json: perplexity is no number"]
    found = to_text(sections(compare([strange, read_run(revision("new"))])))
    assert "old: metrics/evaluate.json: perplexity is no number." in found


def test_no_parameters_are_no_run(revision):
    with pytest.raises(InputError, match=r"revision 'old': params\.yaml: not here"):
        read_run(revision("old", **{"params.yaml": None}))


def test_seeds_need_not_be_there(revision):
    assert read_run(revision()).notes == []
    for more, told in (
        ([2, 3], ["stage seeds is not of these parameters: dvc.lock does not have it"]),
        ([], []),
    ):
        params = f"train:\n  lr: 3e-3\n  seed: 1\nseeds:\n  more: {more}\n"
        run = read_run(revision(**{"metrics/seeds.json": {"n": 3}, "params.yaml": params}))
        assert run.notes == told  # nobody misses what nobody asked for
        assert "seeds" not in run.metrics


def test_a_stage_of_other_parameters_is_told(revision):
    run = read_run(revision(**{"params.yaml": "train:\n  lr: 1e-2\n  seed: 1\n"}))
    assert run.notes == [
        "stage train is not of these parameters: section train of params.yaml was another",
        "stage evaluate is not of these parameters: what it read of stage train is not of these parameters",
    ]


def test_an_evaluation_of_another_model_is_told(revision, lock):
    lock["stages"]["evaluate"]["deps"][0]["md5"] = "w0.dir"
    run = read_run(revision(**{"dvc.lock": lock}))
    assert run.notes == ["stage evaluate is not of these parameters: models was another"]


def test_an_evaluation_of_another_model_is_compared_with_nothing(revision, lock):
    """As after `dvc repro train`: the figures that lie there are those of the model before."""
    lock["stages"]["evaluate"]["deps"][0]["md5"] = "w0.dir"
    pairs = {
        "metrics/evaluate.json": PAIRS,
        "data/evaluate/pairs.csv": "phenomenon,right,wrong,model\nx,a,b,1\n",
    }
    assert read_run(revision("old", **pairs)).pairs
    run = read_run(revision("new", **pairs, **{"dvc.lock": lock}))
    assert list(run.metrics) == ["train"]
    assert (run.stories, run.samples, run.pairs) == (None, [], {})
    found = compare([read_run(revision("old", **pairs)), run])
    assert found.against[0].findings == []
    assert "new: stage evaluate is not of these parameters: models was another." in to_text(
        sections(found)
    )


def test_metrics_that_no_stage_wrote_are_told(revision, lock):
    lock["stages"]["evaluate"]["outs"].append({"path": "metrics/evaluate.json", "md5": "0" * 32})
    run = read_run(revision(**{"dvc.lock": lock}))
    assert run.notes == ["metrics/evaluate.json is not the file that its stage wrote"]


@pytest.mark.parametrize(
    "text", ["", "story,nats\n1,2\n", "text_id,tokens_id,nats,tokens,bits,bytes\na,b,many,1,1,1\n"]
)
def test_a_damaged_table_of_stories_is_told(revision, text):
    run = read_run(revision(**{"data/evaluate/stories.csv": text}))
    if text:
        assert run.stories is None
        assert run.notes == ["data/evaluate/stories.csv: no table of stories"]
    else:
        assert len(run.stories) == 0


@pytest.mark.parametrize(
    "text",
    [
        "prompt,reference,continuation\na,b,c\n",
        "story,prompt,continuation\n1,a,b\n",
        "story,prompt,reference,continuation\n1,a\n",
        "story,prompt,reference,continuation\n²,a,b,c\n",
        "story,prompt,reference,continuation\n3,a,b,c\n",
    ],
)
def test_samples_that_do_not_name_their_story_and_texts_are_told(revision, text):
    run = read_run(revision(**{"data/evaluate/samples.csv": text}))
    assert run.samples == []
    assert "does not say of which stories" in run.notes[0]
    assert not math.isnan(run.stories.nats.sum())


def test_a_text_as_long_as_a_book_is_read(revision):
    row = f"1,a,{'b' * 200_000},c"
    run = read_run(
        revision(**{"data/evaluate/samples.csv": f"story,prompt,reference,continuation\n{row}\n"})
    )
    assert len(run.samples[0]["reference"]) == 200_000


@pytest.mark.parametrize("stage", [3, None, {"deps": 3}, {"deps": [3, {"path": ["a"]}]}])
def test_a_lock_of_another_schema_names_no_inputs(revision, lock, stage):
    lock["stages"]["vocab"] = stage
    assert read_run(revision(**{"dvc.lock": lock})).inputs["tinylm/model"] == "m1.dir"


def test_all_figures_are_preferred_to_the_few_in_git(revision, lock):
    lock["stages"]["evaluate"]["outs"].append({"path": "data/figures/evaluate.json"})
    whole = {"perplexity": 2.5, "samples": {"bleu4": 0.1}, "sha256_of_the_rest": "x"}
    run = read_run(revision(**{"dvc.lock": lock, "data/figures/evaluate.json": whole}))
    assert run.metrics["evaluate"] == {"perplexity": 2.5, "samples": {"bleu4": 0.1}}
    lost = read_run(revision(**{"dvc.lock": lock}))
    assert lost.value("evaluate", "perplexity") == 2.5
    assert lost.notes == ["data/figures/evaluate.json: not here"]


PAIRS = {"pairs": {"all": {"model": 0.5}}, "perplexity": 2.5}


@pytest.mark.parametrize(
    ("text", "expected", "notes"),
    [
        ("phenomenon,right,wrong,model\na,x y,y x,0.5\na,b,c,-2\nb,b,c,0.0\n", [1.0, 0.0, 0.5], []),
        (
            "phenomenon,right,wrong\na,x y,y x\n",
            [],
            ["data/evaluate/pairs.csv: no table of minimal pairs"],
        ),
        (None, [], ["data/evaluate/pairs.csv: not here"]),
    ],
)
def test_minimal_pairs_are_right_wrong_or_even(revision, text, expected, notes):
    run = read_run(revision(**{"data/evaluate/pairs.csv": text, "metrics/evaluate.json": PAIRS}))
    assert list(run.pairs.values()) == expected
    assert [note for note in run.notes if "pairs" in note] == notes
    assert not expected or next(iter(run.pairs)) == ("a", "x y", "y x")


def test_a_run_from_before_minimal_pairs_lacks_nothing(revision):
    assert read_run(revision()).pairs == {}
