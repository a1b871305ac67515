"""What decides the last bits of a run's numbers besides settings, data and code.

Two runs have equal bytes if all of it is equal. A snapshot carries it, so that no run continues in
another environment.
"""

import importlib.metadata
from collections.abc import Mapping
from typing import Any

import torch

from tinylm.train.acceleration import kernels_version
from tinylm.train.precision import resolved
from tinylm.train.settings import TrainSettings

_CONDITIONS = ("cpu", "instructions", "torch_level", "onednn_level", "device", "threads", "torch")


def numeric_environment(
    conditions: Mapping[str, Any], train: TrainSettings, device: torch.device
) -> dict[str, Any]:
    """Names and values.

    conditions: of `tinylm.host.runtime.conditions`. train: the settings with `auto` included.
    """
    chosen = resolved(train, device)
    environment = {name: conditions[name] for name in _CONDITIONS if name in conditions}
    environment["numpy"] = importlib.metadata.version("numpy")  # draws the order of the stories
    environment["precision"] = chosen.precision
    environment["compile"] = chosen.compile
    environment["kernels"] = kernels_version(chosen.precision, device)
    return environment
