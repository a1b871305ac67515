"""A few hundred cases of the fuzzer, and again whatever it has ever found (corpus/TARGET-NAME/...)."""

import random
from pathlib import Path

import pytest

from tests.fuzz import cases, mutate, run
from tests.fuzz.seeds import make_seeds
from tests.fuzz.targets import TARGETS

CORPUS = Path(__file__).with_name("corpus")
FOUND_ONCE = sorted(path for path in CORPUS.iterdir() if path.is_dir())


@pytest.fixture(scope="module")
def seeds(tmp_path_factory):
    return make_seeds(tmp_path_factory.mktemp("seeds"))


@pytest.mark.parametrize("target", TARGETS)
def test_every_valid_input_is_read(seeds, target):
    for files in seeds[target]:
        assert cases.read(target, files) == (cases.READ, "")


def test_a_few_hundred_damaged_inputs_are_refused_or_read(seeds):
    planned = run.plan(300, 0, None)
    results = run.run(planned, seeds, 1)
    assert results.keys() == set(planned)
    assert {case: said for case, (kind, said) in results.items() if kind == cases.FOUND} == {}
    assert {kind for kind, _ in results.values()} == {cases.REFUSED, cases.READ}


@pytest.mark.parametrize("place", FOUND_ONCE, ids=lambda place: place.name)
def test_what_was_found_once_is_refused_or_read(place):
    files = {
        str(path.relative_to(place)): path.read_bytes()
        for path in place.rglob("*")
        if path.is_file()
    }
    for mended in (None, random.Random(3)):
        kind, said = cases.read(place.name.partition("-")[0], files, mended)
        assert kind in (cases.REFUSED, cases.READ), said


def test_a_case_follows_from_its_number(seeds):
    for target in TARGETS:
        assert cases.damaged(seeds, target, 7)[0] == cases.damaged(seeds, target, 7)[0]
    damaged = {mutate.mutate(b"0123456789", random.Random(seed)) for seed in range(100)}
    assert len(damaged) > 50


@pytest.mark.parametrize(
    ("reader", "said"),
    [
        (lambda _: 1 / 0, "ZeroDivisionError: division by zero"),
        (lambda _: bytearray(1 << 31), "more memory than a case may take"),
        (lambda _: __import__("os")._exit(3), "the process died (3)"),
        (lambda _: exec("while True: pass"), "more than 1 s"),
        (lambda _: exec("raise SystemExit"), "the process died (0)"),
    ],
)
def test_faults_of_a_reader_are_seen(seeds, monkeypatch, reader, said):
    """The fuzzer itself: a reader that fails, takes memory, dies or hangs is found, and the next case is read."""
    monkeypatch.setattr(run, "SECONDS", 1.0)
    calls = {"n": 0}

    def sometimes(folder):
        calls["n"] += 1
        if calls["n"] > len(seeds["gpt2"]) and (folder / "a.tiktoken").exists():
            reader(folder)

    monkeypatch.setitem(TARGETS, "gpt2", (sometimes, 1))
    only = {"gpt2": [seeds["gpt2"][1]]}
    calls["n"] = 1
    results = run.run([("gpt2", 0), ("gpt2", 1)], only, 1)
    assert list(results.values()) == [(cases.FOUND, said)] * 2
