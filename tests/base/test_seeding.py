import random

import numpy as np
import torch

from tinylm.base.seeding import derive_seed, seed_everything


def draws() -> list[float]:
    return [random.random(), np.random.rand(), torch.rand(1).item()]  # noqa: NPY002


def test_seeding_fixes_the_streams_of_python_numpy_and_torch():
    seed_everything(3, threads=1)
    first = draws()
    seed_everything(3, threads=1)
    assert draws() == first
    seed_everything(4, threads=1)
    assert all(one != other for one, other in zip(draws(), first, strict=True))


def test_a_derived_seed_is_the_same_on_every_machine():
    assert derive_seed(1, "batches", 0) == 8374723137405355890
    assert 0 <= derive_seed(10**30, "x") < 2**63
