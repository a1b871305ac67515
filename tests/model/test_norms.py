"""Norms of numbers in any type."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tinylm.kernels.train.ops import ManualGradOps, NativeOps
from tinylm.model.norms import NORMS
from tinylm.model.ops import REFERENCE

LAST_PLACE = {torch.float16: 2.0**-10, torch.bfloat16: 2.0**-7}


@pytest.mark.parametrize(
    "ops", [REFERENCE, ManualGradOps(), NativeOps()], ids=lambda ops: type(ops).__name__
)
@pytest.mark.parametrize("kind", NORMS)
@given(
    dtype=st.sampled_from(list(LAST_PLACE)),
    exponent=st.integers(-10, 14),
    seed=st.integers(0, 100),
)
def test_in_two_bytes_a_norm_is_the_rounded_exact_one(ops, kind, dtype, exponent, seed):
    """In float16, squares of numbers above 256 are infinite."""
    x = torch.randn(3, 8, generator=torch.Generator().manual_seed(seed)) * 2.0**exponent
    x = x.clamp(-60_000, 60_000).to(dtype)
    gain, bias = torch.ones(8, dtype=dtype), torch.zeros(8, dtype=dtype)
    found = ops.norm(x, gain, bias if NORMS[kind].has_bias else None, 1e-5, kind)
    exact = NORMS[kind].formula(x.double(), 1e-5)
    torch.testing.assert_close(found.double(), exact, rtol=LAST_PLACE[dtype], atol=1e-6)
