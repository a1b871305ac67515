"""What all stage scripts share: reading settings and writing results.

A stage script reads its settings, calls the package that does the work, and writes the results:

    def main() -> None:
        stage = Stage("kv_bench", stage_params())
        settings = stage.settings("kv_bench", KvBenchSettings)
        device = stage.begin(seed=1)
        ...
        stage.write(results, {"same": True})

    if __name__ == "__main__":
        sys.exit(guard(main))
"""

import sys
import time
from collections.abc import Collection
from typing import Any, TypeVar

from tinylm.base import paths
from tinylm.base.config import InputError, read_section
from tinylm.base.files import write_json
from tinylm.base.machine import pick_device
from tinylm.base.seeding import seed_everything
from tinylm.host.memory import own_peak_mib
from tinylm.host.runtime import RuntimeSettings, conditions, in_words
from tinylm.host.times import Tables, write_times

S = TypeVar("S")
# Those of the conditions that can change the last bits of a result.
ENVIRONMENT = (
    "device", "threads", "processes", "precision", "kernels", "step", "torch", "torch_level",
)  # fmt: skip


def number_argument(stage: str, allowed: str, numbers: Collection[int] | None = None) -> int:
    """The command-line argument of a stage that dvc.yaml runs once per number.

    numbers: the allowed ones, None for any. allowed: their description in the error message.
    Raises InputError for any other argument.
    """
    arguments = sys.argv[1:]
    if len(arguments) == 1 and arguments[0].isdecimal():
        number = int(arguments[0])
        if numbers is None or number in numbers:
            return number
    given = " ".join(arguments) or "nothing"
    raise InputError(f"stages.{stage}: argument {given}; allowed: {allowed}")


class Stage:
    """One run of a stage.

    name: as in dvc.yaml; result files are named after it.
    params: all sections of params.yaml.
    runtime: section `runtime`.
    conditions: the hardware and versions that its times depend on.
    """

    def __init__(self, name: str, params: dict[str, Any]) -> None:
        self.name = name
        self.params = params
        self.start = time.perf_counter()
        self.runtime = self.settings("runtime", RuntimeSettings)
        self.conditions = conditions(None, self.runtime.threads)

    def settings(self, section: str, settings_class: type[S]) -> S:
        """A section of params.yaml. Raises InputError if a value is not allowed."""
        return read_section(self.params, section, settings_class)

    def begin(self, seed: int) -> Any:
        """Seed all random generators, set torch's threads, print the conditions; return the device.

        Only stages that compute with torch call it. Raises InputError for a missing device.
        """
        device = pick_device(self.runtime.device)
        seed_everything(seed, self.runtime.threads)
        self.conditions = conditions(device, self.runtime.threads)
        print(f"conditions: {in_words(self.conditions)}", flush=True)
        return device

    def write(
        self,
        results: dict[str, Any],
        metrics: dict[str, Any],
        times: dict[str, Any] | None = None,
        tables: Tables | None = None,
    ) -> None:
        """Write the results, metrics and times of the stage.

        results: to data/figures/NAME.json; equal in every run in the same environment, which is
            added if the stage computed with torch.
        metrics: to metrics/NAME.json, for `dvc metrics show`.
        times: to metrics/NAME_time.json, with seconds, peak memory of this process, and conditions.
        tables: the timed plots, {file: header and rows}.
        """
        path = paths.results(self.name)
        if "torch_level" in self.conditions:
            environment = {
                key: self.conditions[key] for key in ENVIRONMENT if key in self.conditions
            }
            results = {**results, "environment": environment}
        write_json(path, results, sealed=True)
        write_json(paths.metrics(self.name), metrics)
        seconds = round(time.perf_counter() - self.start, 3)
        measured = {"seconds": seconds, "peak_mib": round(own_peak_mib(), 1), **(times or {})}
        measured["conditions"] = self.conditions
        write_times(self.name, self.name, path, measured, tables)

    def write_times_of(self, name: str, path: str, times: dict[str, Any]) -> None:
        """Write metrics/NAME_time.json: time and memory of the result in the file `path`.

        Stages that dvc.yaml runs once per number call this for each run.
        """
        write_times(name, self.name, path, {**times, "conditions": self.conditions})
