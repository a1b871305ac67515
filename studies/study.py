"""Answer a question by training one preset with several settings and seeds.

studies.yaml has the questions. Each setting with each seed is a run of a sweep on the vocabulary and tokens in this
folder. The sweep ends with stage train. The same command continues a study that was interrupted. The result is written to
studies/results/NAME.csv.
"""

import dataclasses
import hashlib
import json
import math
import sys
import time
from pathlib import Path
from typing import Any

import pandas as pd

from studies.published import result_table
from studies.records import FOLDER, RESULTS, Record, read_result
from studies.scaling import generator_loss
from tinylm.base.command import CommandFailed, Parser, run_command
from tinylm.base.config import InputError, load_params, read_yaml
from tinylm.base.files import require, write_bytes
from tinylm.experiments import launch, new_sweep, sweeps
from tinylm.experiments.git import git
from tinylm.params.presets.write import Values, flatten, preset_values

FILE = FOLDER / "studies.yaml"
SECTIONS = ("model", "train", "embedding")  # whose values a setting may change
# Keys of section data that may differ from the preset: they say which stories, not how they become tokens.
FREE = ("source", "path", "hub", "column", "seed", "train_stories", "evaluation_stories")
NOT_FINITE = "not finite"  # in the reason of a training that diverged, which is a result too
CODE = ("tinylm", "stages", "params.yaml", "dvc.yaml")

Metrics = dict[str, Any]
Planned = dict[tuple[str, int], Values]  # (setting, seed) -> values that differ from params.yaml


@dataclasses.dataclass(frozen=True)
class Study:
    """A question, and its settings by name with the values in which each differs from the preset."""

    name: str
    preset: str
    question: str
    seeds: list[int]
    settings: dict[str, Values]
    set: Values = dataclasses.field(default_factory=dict)  # laid over the preset in every setting
    system: str = ""  # the published system that asked or answered it
    answer: str = ""
    law: bool = False  # a scaling law is fitted to its runs, which are on stories of the storybook

    def values(self, setting: str) -> Values:
        """Every value of the preset as this setting has it."""
        return preset_values(self.preset) | self.set | self.settings[setting]


def read_studies() -> dict[str, Study]:
    """All studies by name."""
    return {name: Study(name, **row) for name, row in read_yaml(FILE).items()}


def refuse_other_tokens(study: Study, params: Record) -> None:
    """Raise InputError if params.yaml asks for other tokens than the preset, except for another number of stories."""
    values = flatten(params)
    for key, wanted in preset_values(study.preset).items():
        section, _, name = key.partition(".")
        decides_tokens = section == "vocab" or (section == "data" and name not in FREE)
        if decides_tokens and values[key] != wanted:
            how = f"type tinylm preset {study.preset}, then dvc repro vocab"
            raise InputError(f"params.yaml: {key}: expected {wanted}, got {values[key]}; {how}")


def planned(study: Study, params: Record) -> Planned:
    """{(setting, seed): values in which the run differs from params.yaml}; all settings with one seed first."""
    here = flatten(params)
    runs = {}
    for seed in study.seeds:
        for setting in study.settings:
            values = study.values(setting) | {"train.seed": seed}
            runs[setting, seed] = {
                key: value
                for key, value in values.items()
                if key.partition(".")[0] in SECTIONS and value != here[key]
            }
    return runs


def sweep_name(study: Study, runs: Planned) -> str:
    """A name that is the same as long as the runs and the code that they execute are the same."""
    commit = git("rev-parse", "HEAD")
    changes = git("diff", "HEAD", "--", *CODE)
    text = json.dumps([list(runs.values()), commit, changes], default=str)
    return f"study-{study.name}-{hashlib.sha256(text.encode()).hexdigest()[:8]}"


def carry_out(study: Study, runs: Planned, workers: int) -> sweeps.Sweep:
    """Begin the sweep of these runs, or continue it, and wait for its end."""
    name = sweep_name(study, runs)
    if (Path(sweeps.FOLDER) / name / "sweep.json").exists():
        sweep = sweeps.open_sweep(name)
        sweep.retry_failed()
    else:
        sweep = new_sweep.begin(list(runs.values()), "train", name)
    launch.run_local(sweep, workers)
    return sweep


def outcome(sweep: sweeps.Sweep, number: int) -> Metrics:
    """Metrics of a run; losses in nats per token. Raises CommandFailed if it failed and did not just diverge."""
    state = sweep.state(number)
    if state["state"] != sweeps.DONE:
        if NOT_FINITE in state["why"]:
            return {"diverged": 1}
        raise CommandFailed(f"run {number}: {state['why']}; the same command tries it again")
    train = sweep.metrics(number)
    first_epoch = (train.get("by_epoch") or [{}])[0]
    return {
        "held_out_loss": math.log(train["held_out_perplexity"]),
        "held_out_perplexity": train["held_out_perplexity"],
        "train_loss": train["train_loss"],
        "epoch_train_loss": first_epoch.get("train_loss"),
        "updates": train["updates"],
        "tokens": train["tokens"],
        "block_parameters": train["parameters_by_part"]["blocks"],
        "diverged": 0,
    }


def run_study(study: Study, workers: int) -> Path:
    """Carry out a study and write its result. Raises InputError or CommandFailed."""
    params = load_params()
    refuse_other_tokens(study, params)
    runs = planned(study, params)
    same: dict[str, Any] = {"generator_loss": generator_loss()} if study.law else {}
    sweep = carry_out(study, runs, workers)
    rows = []
    for number, (setting, seed) in enumerate(runs, start=1):
        rows.append({"setting": setting, "seed": seed} | outcome(sweep, number))
    same["date"] = time.strftime("%Y-%m-%d")
    same["revision"] = git("rev-parse", "--short=12", "HEAD")
    result = pd.DataFrame(rows).assign(**same)
    path = Path(RESULTS) / f"{study.name}.csv"
    write_bytes(path, result.to_csv(index=False).encode())
    return path


def main() -> None:
    parser = Parser(prog="python -m studies.study", description=__doc__)
    parser.add_argument(
        "name", nargs="?", metavar="NAME", help="without it, the studies are listed"
    )
    parser.add_argument("--workers", type=int, default=1, metavar="N", help="runs at once")
    parser.add_argument("--table", action="store_true", help="print the recorded result")
    arguments = parser.parse_args()
    studies = read_studies()
    if arguments.name is None:
        for name, study in studies.items():
            print(f"{name}: {study.question} ({study.preset}, {len(study.settings)} settings)")
        return
    if arguments.name not in studies:
        raise InputError(f"NAME: expected one of {', '.join(studies)}, got {arguments.name!r}")
    if arguments.workers < 1:
        raise InputError(f"--workers: expected 1 or more, got {arguments.workers}")
    path = Path(RESULTS) / f"{arguments.name}.csv"
    if not arguments.table:
        path = run_study(studies[arguments.name], arguments.workers)
    require(path, f"python -m studies.study {arguments.name}")
    print(result_table(read_result(path), studies[arguments.name].law).strip())


if __name__ == "__main__":
    sys.exit(run_command(main))
