"""One thread and known seeds for every test, so that results do not depend on order or machine."""

import random

import numpy as np
import pytest
import torch


@pytest.fixture(autouse=True)
def reproducible():
    torch.set_num_threads(1)
    random.seed(0)
    np.random.seed(0)  # noqa: NPY002 (libraries below us draw from the global state)
    torch.manual_seed(0)
    yield
    torch.set_deterministic_debug_mode("default")
