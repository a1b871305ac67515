"""A CUDA card compared with the CPU. With TINYLM_TEST_DEVICE=cpu the tests only show that they run."""

import os

import pytest
import torch


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        item.add_marker("cuda")


@pytest.fixture
def device() -> torch.device:
    """The device that is compared with the CPU."""
    chosen = torch.device(os.environ.get("TINYLM_TEST_DEVICE", "cuda"))
    if chosen.type == "cuda" and not torch.cuda.is_available():
        pytest.skip("torch has no CUDA device")
    return chosen


@pytest.fixture(autouse=True)
def deterministic(device):
    """Deterministic kernels, as in every stage; float32 products are not rounded to tf32."""
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    torch.set_deterministic_debug_mode("error")
    torch.backends.cuda.matmul.allow_tf32 = False
