"""Section `runtime` of params.yaml, and the conditions that a time was measured under."""

import dataclasses
import importlib.metadata
import platform
import time
from typing import Any

from tinylm.base.config import setting
from tinylm.base.processes import cores, useful_cores


@dataclasses.dataclass(frozen=True, kw_only=True)
class RuntimeSettings:
    """Section `runtime`. No stage lists it; only the thread count can change a result."""

    threads: int = setting(low=1, high=1024, auto=useful_cores())
    device: str = setting(choices=("auto", "cpu", "cuda"))
    snapshot_every_s: float = setting(above=0.0)
    sample_every: int = setting(low=1)
    sample_prompt: str = setting()


def _cpu_name() -> str:
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as handle:
            for line in handle:
                if line.startswith("model name"):
                    return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()


def conditions(device: Any, threads: int, processes: int = 1) -> dict[str, Any]:
    """What a timing was measured on: processor, cores, threads, device, versions and day.

    device: a torch.device, or None for a stage that computes without torch.
    processes: how many shared the work, each with this many threads; listed if there are several.
    """
    name = "cpu"
    if device is not None and device.type == "cuda":
        import torch

        name = torch.cuda.get_device_name(device)
    values: dict[str, Any] = {"cpu": _cpu_name(), "cores": cores(), "threads": threads}
    if processes > 1:
        values["processes"] = processes
    values["device"] = name
    values["torch"] = importlib.metadata.version("torch")
    values["python"] = platform.python_version()
    values["date"] = time.strftime("%Y-%m-%d")
    return values
