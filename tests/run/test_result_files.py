"""Result files: any result is read back as it was written, and an error is one line."""

import dataclasses
import json
import tempfile
from pathlib import Path

import hypothesis.strategies as st
import pytest
from hypothesis import HealthCheck, given, settings

from tests.support.runs import part
from tinylm.base.config import InputError
from tinylm.run.evaluated import Evaluated, Loss
from tinylm.run.finished_run import FILES, FinishedRun, read_run
from tinylm.run.result_files import StageTimes, read_result, to_mapping, write_result
from tinylm.run.trained import Trained

KINDS = [file.kind for file in FILES.values() if file.path.endswith(".json")]
st.register_type_strategy(float, st.floats(allow_nan=False, allow_infinity=False))
# conditions are names and numbers
st.register_type_strategy(StageTimes, st.builds(StageTimes, conditions=st.none()))


def results(kind):
    if issubclass(kind, StageTimes):
        return st.builds(kind, conditions=st.just({"cpu": "a", "threads": 2}))
    return st.from_type(kind)


@settings(deadline=None, max_examples=150, suppress_health_check=list(HealthCheck))
@given(st.sampled_from(KINDS).flatmap(results))
def test_any_result_is_read_as_it_was_written(result):
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "result.json"
        write_result(path, result)
        assert read_result(type(result), path, "train") == result
        written = json.loads(path.read_text())
    for field in dataclasses.fields(result):
        if getattr(result, field.name) is None:  # left out only if that is the default
            assert (field.name in written) == (field.default is dataclasses.MISSING), field.name


def test_a_number_that_is_not_finite_is_none_when_read(tmp_path):
    write_result(tmp_path / "a.json", Loss(float("inf"), float("nan"), 3))
    assert read_result(Loss, tmp_path / "a.json", "evaluate") == Loss(None, None, 3)


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"updates": "many"}, "updates: expected a valid integer.*, got many"),
        ({"held_out_loss": [1]}, r"held_out_loss: expected a valid number, got \[1\]"),
        ({"tokens": None}, "tokens: expected a valid integer, got None"),
    ],
)
def test_what_is_wrong_in_a_result_is_one_line(tmp_path, changes, problem):
    path = tmp_path / "data/figures/train.json"
    path.parent.mkdir(parents=True)
    path.write_text(json.dumps(to_mapping(part(Trained)) | changes))
    with pytest.raises(InputError, match=rf"train\.json: {problem}; run dvc repro train") as error:
        read_run(tmp_path, {})
    assert "\n" not in str(error.value)


def test_a_missing_field_is_named_and_a_further_one_is_ignored(tmp_path):
    path = tmp_path / "data/figures/evaluate.json"
    path.parent.mkdir(parents=True)
    content = to_mapping(part(Evaluated))
    path.write_text(json.dumps(content | {"of_later_code": 1}))
    assert read_run(tmp_path, {}) == FinishedRun(params={}, evaluate=part(Evaluated))
    del content["protocol"]
    path.write_text(json.dumps(content))
    with pytest.raises(
        InputError, match="expected protocol, got results without it; run dvc repro evaluate"
    ):
        read_run(tmp_path, {})
