"""One thread and known seeds for every test, and the tests that `make test` leaves to `make test-all`."""

import os
import random
import signal

# The tests already use every core, so numpy's own threads would only slow them down. numpy reads this when it is imported.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import hypothesis
import numpy as np
import pytest
import torch

from tests.support.folders import made_once
from tests.support.stages import finish

# A shell ignores Ctrl-C in what it runs in the background, and all that the tests start would inherit that.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# No test fails because the machine is busy.
hypothesis.settings.register_profile("tinylm", deadline=None)
hypothesis.settings.load_profile("tinylm")

# The runs that are resumed only there; `make test` has the one with dropout and the best weights so far.
RESUMED = ("adamw", "muon", "weights")
# Folders, files and functions that take long and that few changes break: marked `full`, run by `make test-all` alone.
# The longest come first, so that no process waits for one at the end.
FULL = (
    "pipeline/test_dvc.py::test_from_nothing",  # makes the folder of all tests of the pipeline
    "pipeline/test_own_data.py",
    "experiments/test_running_sweep.py",
    "pipeline/test_hand_in_elsewhere.py",
    "pipeline/test_dvc.py",
    "drawn/test_drawn.py::test_whole_runs[0]",
    "benchmarks/test_race.py::test_an_entry_is_trained_judged_and_kept",
    "benchmarks/test_lines.py",
    "storybook/test_truth.py::test_drawn_words_cannot_be_told_from_the_true_distribution[5000]",
    "studies/test_study.py::test_a_study_runs_and_its_result_is_written",
    "params/test_preset_stages.py",
    "drawn/test_drawn.py::test_whole_runs[1]",
    "drawn/test_drawn.py::test_whole_runs[3]",
    "drawn/test_drawn.py::test_a_property_alone[an_edit_reruns",
    "storybook/test_world.py::test_drawn_words_cannot_be_told_from_the_true_distribution[5000",
    "storybook/test_corpus.py",
    "decoding/test_step.py::test_compiled_logits_equal_plain_ones_past_the_context[one-",
    "exchange/publishing/test_hand_in.py::test_weights_lab",
    "exchange/publishing/test_hand_in.py::test_what_is_missing",
    "exchange/test_presets.py",
    "kernels/test_native.py::test_the_kernels_are_the_same_when_they_are_compiled_for_avx2",
    "lab/test_browser.py::test_step_6_the_time_without_a_cache_grows_with_the_text",
    "lab/test_engine.py::test_greedy_text_far_past_the_context",
    "lab/test_engine.py::test_logits_and_attention_of_every_architecture",
    "test_stages.py::test_a_full_disk",
    "vocab/test_longest_match.py::test_the_published_counts_of_tiny_shakespeare",
    "learn/test_exercises.py::test_use_tells_right_parts_from_a_wrong_one",
    "learn/test_grading.py::test_what_goes_wrong_in_a_function_names_its_line",
    "text/test_cleaning.py::test_the_short_way_of_cleaning_is_the_rule",
    *(f"train/test_resume.py::test_a_resumed_run_is_bit_identical[{name}" for name in RESUMED),
    "train/test_stage.py",
    "learn/test_nuisances.py",
    "train/test_distributed.py::test_two",
)


def place_in_full(item: pytest.Item) -> int:
    """The place of a test in FULL; behind all of them if it is not there."""
    name = item.nodeid.removeprefix("tests/")
    places = (place for place, start in enumerate(FULL) if name.startswith(start))
    return next(places, len(FULL))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if place_in_full(item) < len(FULL):
            item.add_marker("full")
    items.sort(key=place_in_full)


@pytest.fixture(scope="session")
def finished_run(tmp_path_factory):
    """A folder in which every stage ran once, in order; a test that changes it copies it first."""
    return made_once(tmp_path_factory, "finished_run", finish)


@pytest.fixture(autouse=True)
def reproducible():
    torch.set_num_threads(1)
    random.seed(0)
    np.random.seed(0)  # noqa: NPY002 (libraries below us draw from the global state)
    torch.manual_seed(0)
    yield
    torch.set_deterministic_debug_mode("default")
