"""The kind of arithmetic of a run: what decides the last bits of its numbers besides settings, data and code.

Two runs have equal bytes if both are equal in all of it. A snapshot carries it, so that no run goes on in another kind.
"""

import hashlib
import importlib.metadata
import os
import subprocess
from collections.abc import Mapping
from typing import Any

import torch
from torch.nn import functional

from tinylm.kernels.train.ops import kernels_sha256, why_not_native
from tinylm.train.precision import resolved
from tinylm.train.settings import TrainSettings

PREFIX = "arithmetic."  # of its keys among the parts of a fingerprint
_CONDITIONS = ("cpu", "instructions", "torch_level", "onednn_level", "device", "threads", "torch")


def arithmetic(
    conditions: Mapping[str, Any], train: TrainSettings, device: torch.device
) -> dict[str, Any]:
    """Names and values. conditions: `host.runtime.conditions`; train: as it was set, `auto` included."""
    chosen = resolved(train, device)
    found = {name: conditions[name] for name in _CONDITIONS if name in conditions}
    found["numpy"] = importlib.metadata.version("numpy")  # draws the order of the stories
    found |= {"precision": chosen.precision, "compile": chosen.compile}
    if chosen.compile == "true":
        found["compiler"] = _compiler()
    native = not why_not_native(chosen.precision, device)
    found["kernels"] = f"native {kernels_sha256()}" if native else "torch"
    found["trial_calculation"] = trial_sha256(device)
    return {PREFIX + name: value for name, value in found.items()}


def _compiler() -> str:
    """The first line of what torch.compile's C++ compiler says of its version."""
    said = subprocess.run(
        [os.environ.get("CXX") or "g++", "--version"], capture_output=True, text=True
    )
    return said.stdout.partition("\n")[0]


@torch.no_grad()
def trial_sha256(device: torch.device) -> str:
    """Part of the SHA-256 of what this machine makes of fixed numbers.

    It also differs where libraries calculate otherwise for a reason that no name above tells: MKL_CBWR, for instance.
    """
    x, y = (
        torch.arange(size, dtype=torch.float32, device=device).sin()
        for size in (3 * 64 * 96, 3 * 96 * 160)
    )
    left, right = x.view(3, 64, 96), y.view(3, 96, 160)
    low = left.bfloat16(), right.bfloat16()
    results = [
        *(left @ right, left[0] @ right[0], functional.linear(left, right[0].T, right[0, 0])),
        *(low[0] @ low[1], functional.linear(low[0], low[1][0].T, low[1][0, 0])),
        *(functional.gelu(x), left.softmax(-1), left.std(-1), x.exp().log1p(), x.sum(), y.norm()),
    ]
    digest = hashlib.sha256()
    for result in results:
        digest.update(result.float().cpu().contiguous().numpy().tobytes())
    return digest.hexdigest()[:12]
