"""What all stage scripts share: reading settings and writing results.

A stage script reads its settings, calls the package that does the work, and writes the results:

    def main() -> None:
        stage = Stage("kv_bench")
        settings = stage.settings("kv_bench", KvBenchSettings)
        device = stage.begin(seed=1)
        ...
        stage.write(results, {"kv/on": {"speedup": 5.2}}, {"settings": rows})

    if __name__ == "__main__":
        sys.exit(guard(main))
"""

import os
import time
from collections.abc import Mapping
from typing import Any, TypeVar

from tinylm.base import paths
from tinylm.base.code import code_sha256, stage_entry
from tinylm.base.config import PARAMS_FILE, load_params, parameter, read_section
from tinylm.base.files import write_json
from tinylm.base.machine import pick_device
from tinylm.base.seeding import seed_everything
from tinylm.host.command import CommandFailed, Parser, check_at_end
from tinylm.host.memory import own_peak_mib
from tinylm.host.params import stage_params
from tinylm.host.runtime import RuntimeSettings, conditions, in_words

S = TypeVar("S")
# Those of the conditions that can change the last bits of a result.
ENVIRONMENT = (
    "device", "threads", "processes", "precision", "kernels", "step", "torch", "torch_level",
)  # fmt: skip


def seed_argument(stage: str) -> int:
    """The argument of a stage that dvc.yaml runs once per seed. Raises InputError without one."""
    parser = Parser(prog=f"stages.{stage}")
    parser.add_argument("seed", type=int)
    seed: int = parser.parse_args().seed
    if seed < 0:
        parser.error(f"argument seed = {seed}; allowed: a whole number >= 0")
    return seed


class Stage:
    """One run of a stage. Raises InputError with a line for each error in params.yaml.

    name: as in dvc.yaml; result files are named after it.
    params: all sections of params.yaml.
    runtime: section `runtime`.
    conditions: the hardware and versions that its times depend on.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.start = time.perf_counter()
        self.params = stage_params()
        self.runtime = self.settings("runtime", RuntimeSettings)
        self.conditions = conditions(None, self.runtime.threads)
        before = self._inputs(self.params)
        if os.environ.get("RANK", "0") == "0":  # of several processes, one prints the error
            check_at_end(lambda: self._refuse_edits(before))

    def _inputs(self, params: dict[str, Any]) -> dict[str, Any]:
        """The parameters that dvc.yaml lists for the stage, and the hash of its code."""
        names = stage_entry(self.name)["params"]
        inputs = {f"{PARAMS_FILE}: {name}": parameter(params, name) for name in names}
        return inputs | {"the code": code_sha256(self.name)}

    def _refuse_edits(self, before: dict[str, Any]) -> None:
        """CommandFailed if an input was edited while the stage ran.

        DVC records the inputs as they are at the end, so it would assign the result to those.
        """
        after = self._inputs(load_params())
        edited = [name for name in before if after[name] != before[name]]
        if edited:
            raise CommandFailed(
                f"{edited[0]} changed while stage {self.name} ran: its result is not recorded; "
                "run dvc repro again"
            )

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
        results: Mapping[str, Any],
        metrics: Mapping[str, Mapping[str, float | None]] | None = None,
        times: Mapping[str, Any] | None = None,
    ) -> None:
        """Write the results, metrics and times of the stage.

        results: to data/figures/NAME.json; equal in every run in the same environment, which is
            added if the stage computed with torch.
        metrics: {row: {metric: value}}, each row to metrics/ROW.json for `dvc metrics show`. What
            could not be measured (None) is left out.
        times: to data/times/NAME.json, with seconds, peak memory of this process, and conditions.
            They differ between equal runs, so only stage report depends on that file.
        """
        if "torch_level" in self.conditions:
            environment = {
                key: self.conditions[key] for key in ENVIRONMENT if key in self.conditions
            }
            results = {**results, "environment": environment}
        write_json(paths.results(self.name), results)
        for row, values in (metrics or {}).items():
            available = {name: value for name, value in values.items() if value is not None}
            write_json(paths.metrics(row), available)
        seconds = round(time.perf_counter() - self.start, 3)
        measured = {"seconds": seconds, "peak_mib": round(own_peak_mib(), 1), **(times or {})}
        write_json(paths.times(self.name), {**measured, "conditions": self.conditions})
