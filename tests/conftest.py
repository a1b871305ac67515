"""One thread and known seeds for every test, and the tests that `make test` leaves to `make test-all`."""

import random
from pathlib import Path

import numpy as np
import pytest
import torch

HERE = Path(__file__).parent
# Folders and files of tests that take long and that few changes break: marked `full`, run by `make test-all` alone.
FULL = (
    "distributed",
    "faults/test_kills.py",
    "faults/test_ranks.py",
    "faults/test_train_stage.py",
    "faults/test_writers.py",
    "fuzz",
    "pipeline/test_compare.py",
    "pipeline/test_experiments.py",
    "pipeline/test_interrupted.py",
    "pipeline/test_plots.py",
    "pipeline/test_readme.py",
    "pipeline/test_remote.py",
    "pipeline/test_repro.py",
    "pipeline/test_torture.py",
    "presets/test_preset_stages.py",
)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        place = item.path.relative_to(HERE).as_posix()
        if any(f"{place}/".startswith(f"{name}/") for name in FULL):
            item.add_marker("full")


@pytest.fixture(autouse=True)
def reproducible():
    torch.set_num_threads(1)
    random.seed(0)
    np.random.seed(0)  # noqa: NPY002 (libraries below us draw from the global state)
    torch.manual_seed(0)
    yield
    torch.set_deterministic_debug_mode("default")
