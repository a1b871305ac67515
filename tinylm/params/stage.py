"""Shared by all stage scripts: the settings, the device, and how results are written.

def main() -> None:
    stage = Stage("kv_bench")
    device = stage.begin(seed=1)
    settings = stage.params.kv_bench
    ...
    stage.write(Cache(...), {"kv/on": {"speedup": 5.2}}, CacheTimes(...))

if __name__ == "__main__":
    sys.exit(run_command(main))
"""

import dataclasses
import math
import time
from collections.abc import Mapping
from typing import Any

from tinylm.base import paths
from tinylm.base.code import code_sha256, stage_entry
from tinylm.base.command import CommandFailed, Parser
from tinylm.base.config import PARAMS_FILE, load_params
from tinylm.base.files import stamps, write_json
from tinylm.base.machine import pick_device
from tinylm.base.processes import own_peak_mib
from tinylm.base.runtime import conditions
from tinylm.base.seeding import seed_everything
from tinylm.params.estimate import announce
from tinylm.params.fitting import check_tokens
from tinylm.params.params import params_from
from tinylm.run.result_files import StageTimes, write_result


def seed_argument(stage: str) -> int:
    """Parse the seed of a stage that dvc.yaml runs once per seed. Raises InputError without one."""
    parser = Parser(prog=f"stages.{stage}")
    parser.add_argument("seed", type=int)
    seed: int = parser.parse_args().seed
    if seed < 0:
        parser.error(f"argument seed: expected a whole number >= 0, got {seed}")
    return seed


class Stage:
    """One run of a stage. Raises InputError with one line for each error in params.yaml.

    A stage that reads the vocabulary checks the rules of `tinylm.params.fitting`, too.

    name: as in dvc.yaml; result files are named after it.
    values: params.yaml as parsed, before validation.
    params: the settings of all sections.
    conditions: the hardware and software versions that the stage's timings depend on.
    snapshots: the folder of an unfinished training; "" in other stages.
    """

    snapshots = ""

    def __init__(self, name: str) -> None:
        self.name = name
        self.start = time.perf_counter()
        self.values = load_params()
        announce(name, self.values)
        self.params = params_from(self.values)
        if paths.VOCAB in stage_entry(name)["deps"]:
            check_tokens(self.params)
        self.conditions = conditions(None, self.params.runtime.threads)
        self._inputs_at_start = self._inputs(self.values)

    def _inputs(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """What the stage depends on: sections of params.yaml, your own files, the hash of its code."""
        sections = self._sections(values).items()
        inputs = {f"{PARAMS_FILE}: {name}": section for name, section in sections}
        for dependency in stage_entry(self.name)["deps"]:
            if dependency.startswith("${"):  # the key of a path, as in ${data.path}
                section, _, key = dependency[2:-1].partition(".")
                path = self.values[section][key]
                inputs[path] = stamps(path)
        return inputs | {"the code": code_sha256(self.name)}

    def _sections(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """The sections of params.yaml that the stage depends on."""
        return {name: values.get(name) for name in stage_entry(self.name).get("params", [])}

    def begin(self, seed: int) -> Any:
        """Seed all generators, set torch's thread count, print the conditions; return the device.

        Only stages that use torch call this. Raises InputError if the device is not available.
        """
        runtime = self.params.runtime
        device = pick_device(runtime.device)
        seed_everything(seed, runtime.threads)
        self.conditions = conditions(device, runtime.threads)
        shown = ", ".join(f"{name} {value}" for name, value in self.conditions.items())
        print(f"conditions: {shown}", flush=True)
        return device

    def write(
        self,
        results: Any,
        metrics: Mapping[str, Mapping[str, float | None]] | None = None,
        times: StageTimes | None = None,
    ) -> None:
        """Write the results, metrics and times of the stage, then call `refuse_edits`.

        results: a class of `tinylm.run`, written to data/figures/NAME.json. They are identical in
            every run under the same conditions.
        metrics: {row: {metric: value}}; each row goes to metrics/ROW.json for `dvc metrics show`.
            None (not measured) and values that are not finite (the model diverged) are left out.
        times: written to data/times/NAME.json with the seconds, the peak memory of this process and
            the conditions. They vary from run to run, so only stage report depends on that file.
        """
        write_result(paths.results(self.name), results)
        for row, values in (metrics or {}).items():
            available = {}
            for name, value in values.items():
                if value is not None and math.isfinite(value):
                    available[name] = value
            write_json(paths.metrics(row), available)
        measured = dataclasses.replace(
            times or StageTimes(),
            seconds=round(time.perf_counter() - self.start, 3),
            peak_mib=round(own_peak_mib(), 1),
            conditions=self.conditions,
            sections=self._sections(self.values),
        )
        write_result(paths.times(self.name), measured)
        self.refuse_edits()

    def refuse_edits(self) -> None:
        """Raise CommandFailed if what `_inputs` lists was edited while the stage ran.

        DVC hashes the inputs when the stage ends, so it would attribute the result to the edited
        ones. A stage without `write` calls this last; a training stage, before it removes
        `snapshots`, from which the edited run cannot continue.
        """
        remove = f"rm -r {self.snapshots} and " if self.snapshots else ""
        now = self._inputs(load_params())
        for name, before in self._inputs_at_start.items():
            if now[name] != before:
                raise CommandFailed(
                    f"{name} changed while stage {self.name} ran, so its result is not recorded; "
                    f"undo the edit, or {remove}run dvc repro again with the new value"
                )
