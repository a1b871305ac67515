"""Result files: any result is read back as it was written, and an error is one line."""

import dataclasses
import functools
import json
import math
import operator
import re
import tempfile
from pathlib import Path

import hypothesis.strategies as st
import pydantic
import pytest
from hypothesis import HealthCheck, given, settings

from tests.support.runs import part
from tinylm.base.config import InputError
from tinylm.base.files import write_json
from tinylm.run.evaluated import Loss
from tinylm.run.finished_run import FILES, read_run
from tinylm.run.result_files import StageTimes, read_result, to_mapping, write_result

KINDS = [file.kind for file in FILES.values() if file.path.endswith(".json")]
st.register_type_strategy(float, st.floats(allow_nan=False, allow_infinity=False))
# conditions are names and numbers
st.register_type_strategy(StageTimes, st.builds(StageTimes, conditions=st.none()))


def results(kind):
    if issubclass(kind, StageTimes):
        return st.builds(kind, conditions=st.just({"cpu": "a", "threads": 2}))
    return st.from_type(kind)


@pytest.fixture(autouse=True, scope="module")
def validators():
    """One for each kind; to make one takes longer than to use it."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("pydantic.TypeAdapter", functools.cache(pydantic.TypeAdapter))
        yield


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=4, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_any_result_is_read_as_it_was_written(kind, data):
    result = data.draw(results(kind))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "result.json"
        write_result(path, result)
        assert read_result(kind, path, "train") == result
        written = json.loads(path.read_text())
    for field in dataclasses.fields(result):
        if getattr(result, field.name) is None:  # left out only if that is the default
            assert (field.name in written) == (field.default is dataclasses.MISSING), field.name


@given(perplexity=st.floats(), nats=st.floats())
def test_a_number_that_is_not_finite_is_none_when_read(perplexity, nats):
    finite = [value if math.isfinite(value) else None for value in (perplexity, nats)]
    with tempfile.TemporaryDirectory() as folder:
        write_result(Path(folder) / "a.json", Loss(perplexity, nats, 3))
        assert read_result(Loss, Path(folder) / "a.json", "evaluate") == Loss(*finite, 3)


WITH_FIELDS = [
    file for file in FILES.values() if file.kind in KINDS and to_mapping(part(file.kind))
]
WRONG = st.sampled_from([[[]], [{"a": "b\nc\x1b"}], "a\n\u2028b", 10 * ["many"]])


@settings(max_examples=60)
@given(file=st.sampled_from(WITH_FIELDS), wrong=st.none() | WRONG, data=st.data())
def test_the_field_that_is_missing_or_wrong_is_named_in_one_line(file, wrong, data):
    """A field that this code does not know is ignored."""
    content = to_mapping(part(file.kind))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / file.path
        write_json(path, content | {"of_later_code": 1})
        assert part_of(read_run(folder, {}), file) == part(file.kind)
        name = data.draw(st.sampled_from(sorted(content)))
        problem = f"expected {name}, got results without it"
        if wrong is None:
            del content[name]
        else:
            problem = rf"{name}[.\w]*: expected .*, got .+"
            content[name] = [[wrong]]  # lists of lists are in no result
        write_json(path, content)
        with pytest.raises(InputError) as error:
            read_run(folder, {})
    line = rf"{re.escape(str(path))}: {problem}; run dvc repro {file.stage}"
    assert re.fullmatch(line, str(error.value))
    assert str(error.value).isprintable()


def part_of(run, file):
    (name,) = (name for name, each in FILES.items() if each == file)
    return operator.attrgetter(name)(run)
