"""Studies: one question each, answered by training with several settings and seeds; their definitions and results.

docs/studies/NAME.json has every figure of every run.
"""

import dataclasses
import statistics
import time
from pathlib import Path
from typing import Any

from tinylm.base.config import InputError, load_params
from tinylm.base.files import write_json
from tinylm.compare.provenance import revision
from tinylm.compare.statistics import NO_CLAIM, claimed, seed_error, shared_seeds
from tinylm.evaluate.statistics import holm
from tinylm.host.runtime import conditions
from tinylm.presets.write import flatten, names, preset_values
from tinylm.report.figures import Figures
from tinylm.report.library import STUDIES, published, recorded_studies

FILE = Path(__file__).with_name("studies.yaml")
NEEDED = ("preset", "question", "seeds")
ALLOWED = (*NEEDED, "system", "answer", "set", "vary", "settings")
SECTIONS = ("model", "train", "embedding")  # whose values a setting may change
FIGURES = (
    "held_out_loss",
    "held_out_perplexity",
    "train_loss",
    "epoch_train_loss",
    "updates",
    "tokens",
    "diverged",
)

Values = dict[str, Any]  # "section.key" -> value
Runs = dict[str, dict[str, dict[str, Any]]]  # setting -> seed -> figures of the run


@dataclasses.dataclass(frozen=True)
class Study:
    """Settings by name, each with the values that differ from the preset with `common` applied to it."""

    name: str
    preset: str
    question: str
    seeds: tuple[int, ...]
    common: Values
    settings: dict[str, Values]
    system: str = ""  # the published system that asked or answered it
    answer: str = ""  # what the system found

    def values(self, setting: str) -> Values:
        """Every value of the preset as this setting has it."""
        return preset_values(self.preset) | self.common | self.settings[setting]


def label(value: Any) -> str:
    """A setting's name from its value: 1e-5, 0.003, 64, none."""
    return f"{value:g}".replace("e-0", "e-") if isinstance(value, float) else str(value)


def _settings(row: dict[str, Any]) -> dict[str, Values]:
    if "settings" in row:
        return {str(name): dict(values or {}) for name, values in row["settings"].items()}
    ((key, values),) = row["vary"].items()
    return {label(value): {key: value} for value in values}


def _study(name: str, row: Any, source: str) -> Study:
    def problem(text: str) -> InputError:
        return InputError(f"{source}: {name}: {text}")

    if not isinstance(row, dict):
        raise problem(f"{row!r}; allowed: a mapping")
    for key in (*NEEDED, *row):
        if key not in row or key not in ALLOWED:
            raise problem(
                f"{key} is {'missing' if key not in row else 'unknown'}; allowed: {', '.join(ALLOWED)}"
            )
    if ("vary" in row) == ("settings" in row) or len(row.get("vary", [0])) != 1:
        raise problem(
            "allowed: either vary, one key with its values, or settings, a mapping of names to values"
        )
    if row["preset"] not in names():
        raise problem(f"preset {row['preset']!r}; allowed: {' | '.join(names())}")
    study = Study(
        name,
        row["preset"],
        row["question"],
        tuple(row["seeds"]),
        dict(row.get("set") or {}),
        _settings(row),
        row.get("system", ""),
        row.get("answer", "").format(published=Figures(published())),
    )
    known = preset_values(study.preset)
    for key in {**study.common, **{key: 0 for values in study.settings.values() for key in values}}:
        if key not in known or key.partition(".")[0] not in SECTIONS:
            raise problem(f"{key}; allowed: a key of section {', '.join(SECTIONS)}")
    return study


def read_studies(path: str | Path = FILE) -> dict[str, Study]:
    """All studies of a file by name. Raises InputError for one that cannot be run."""
    return {name: _study(name, row, Path(path).name) for name, row in load_params(path).items()}


def find_study(name: str, path: str | Path = FILE) -> Study:
    """One study. Raises InputError for an unknown name."""
    known = load_params(path)
    if name not in known:
        raise InputError(f"study {name!r} is unknown; allowed: {' | '.join(known)}")
    return _study(name, known[name], Path(path).name)


def workspace_problems(study: Study, params: dict[str, Any]) -> list[str]:
    """Where params.yaml asks for other tokens than the study's preset; the number of stories may differ."""
    free = {f"data.{key}" for key in ("source", "path", "hub_id", "hub_revision", "column", "seed")}
    free |= {"data.train_stories", "data.evaluation_stories", "data.repair_quotes"}
    mine, wanted = flatten(params), preset_values(study.preset)
    keys = [key for key in wanted if key.startswith(("data.", "vocab.")) and key not in free]
    return [
        f"{key} = {mine.get(key)}, wanted {wanted[key]}"
        for key in keys
        if mine.get(key) != wanted[key]
    ]


def listed() -> str:
    """A line for each study: its name, its question and its cost."""
    studies = read_studies()
    width = max(map(len, studies))
    return "\n".join(
        f"{name:{width}}  {study.question} ({study.preset}, {len(study.settings) * len(study.seeds)} runs)"
        for name, study in studies.items()
    )


def summed_up(study: Study, runs: Runs) -> dict[str, dict[str, Any]]:
    """For each setting: its values, mean and standard deviation over seeds of every figure, and the runs' figures;
    `beside_first` for those after the first (`beside_the_first`)."""
    rows: dict[str, dict[str, Any]] = {}
    for setting, by_seed in runs.items():
        columns = {
            name: [run[name] for run in by_seed.values() if isinstance(run.get(name), int | float)]
            for name in FIGURES
        }
        rows[setting] = {
            "values": study.settings[setting],
            "mean": {name: statistics.fmean(column) for name, column in columns.items() if column},
            "spread": {
                name: statistics.stdev(column)
                for name, column in columns.items()
                if len(column) > 1
            },
            "runs": by_seed,
        }
    for setting, found in beside_the_first(rows).items():
        rows[setting]["beside_first"] = dataclasses.asdict(found)
    return rows


def write_record(study: Study, data: dict[str, Any], runs: Runs) -> tuple[Path, dict[str, Any]]:
    """Write docs/studies/NAME.json; returns the file and its content."""
    seeds = sorted({seed for by_seed in runs.values() for seed in by_seed}, key=int)
    measured = [
        run["conditions"]
        for by_seed in runs.values()
        for run in by_seed.values()
        if "conditions" in run
    ]
    before, threads = (
        recorded_studies().get(study.name, {}),
        load_params()["runtime"]["threads"],
    )  # if DVC had them all
    record = {
        "name": study.name,
        "question": study.question,
        "system": study.system,
        "answer": study.answer,
        "preset": study.preset,
        "set": study.common,
        "seeds": [int(seed) for seed in seeds],
        "commands": [
            f"tinylm preset {study.preset}",
            "dvc repro vocab",
            f"tinylm study {study.name} --seeds {','.join(seeds)}",
        ],
        "date": time.strftime("%Y-%m-%d"),
        "revision": revision(),
        "conditions": measured[0]
        if measured
        else before.get("conditions") or conditions(None, threads),
        "data": data,
        "settings": summed_up(study, runs),
    }
    path = Path(STUDIES) / f"{study.name}.json"
    write_json(path, record)
    return path, record


def recorded(study: Study) -> dict[str, Any]:
    """What docs/studies has on a study. Raises InputError if it was not run."""
    known = recorded_studies()
    if study.name not in known:
        raise InputError(
            f"study {study.name} is not in {STUDIES}; allowed: {' | '.join(known) or 'none yet'}"
        )
    return known[study.name]


def _cell(row: dict[str, Any], name: str, form: str) -> str:
    if name not in row["mean"]:
        return "-"
    spread = f" ± {row['spread'][name]:{form}}" if name in row["spread"] else ""
    return f"{row['mean'][name]:{form}}{spread}"


def _losses(row: dict[str, Any]) -> dict[int, float]:
    """Held-out loss by seed, of the runs that have one."""
    return {
        int(seed): run["held_out_loss"]
        for seed, run in row["runs"].items()
        if "held_out_loss" in run
    }


@dataclasses.dataclass(frozen=True)
class Beside:
    """A setting's held-out loss minus that of the first, its standard error over `seeds` seeds, p corrected for the
    number of settings, and what may be said; error and p are None without two seeds."""

    difference: float
    error: float | None
    seeds: int
    paired: bool
    p: float | None
    says: str


def beside_the_first(settings: dict[str, dict[str, Any]]) -> dict[str, Beside]:
    """The settings after the first by name.

    Student's t over seeds, seed by seed where both have the same ones (`statistics.seed_error`), corrected by Holm's
    method. All runs are scored on the same batches: whether other stories would agree is not asked.
    """
    first, *others = settings
    one, apart, known = _losses(settings[first]), {}, {}
    for name in others:
        if one and (other := _losses(settings[name])):
            shared = shared_seeds(one, other)
            means = [
                statistics.fmean(side[seed] for seed in shared or side) for side in (one, other)
            ]
            apart[name] = means[1] - means[0], len(shared or other), bool(shared)
            if (by_seeds := seed_error(one, other)) is not None:
                known[name] = by_seeds
    corrected = dict(
        zip(known, holm([by.p(apart[name][0]) for name, by in known.items()]), strict=True)
    )
    return {
        name: Beside(
            difference,
            known[name].error if name in known else None,
            seeds,
            paired,
            corrected.get(name),
            claimed(difference < 0, corrected[name]) if name in known else f"{NO_CLAIM}: one seed",
        )
        for name, (difference, seeds, paired) in apart.items()
    }


def table(settings: dict[str, dict[str, Any]]) -> str:
    """The result in aligned columns: losses in nats per token with their standard deviation over seeds, differences
    from the first setting with their standard error."""
    beside = beside_the_first(settings)
    tested = sum(found.p is not None for found in beside.values())
    losses = ["held-out loss", "beside the first", "perplexity", "train loss"]
    said = f"what may be said ({tested} comparisons)" if tested > 1 else "what may be said"
    heads = ["setting", "seeds", *losses, "updates", "tokens", said]

    def apart(name: str) -> str:
        if name not in beside:
            return ""
        error = "" if beside[name].error is None else f" ± {beside[name].error:.4f}"
        return f"{beside[name].difference:+.4f}{error}"

    rows = [
        [
            name,
            str(len(row["runs"])),
            _cell(row, "held_out_loss", ".4f"),
            apart(name),
            _cell(row, "held_out_perplexity", ".2f"),
            _cell(row, "train_loss", ".4f"),
            f"{row['mean'].get('updates', 0):,.0f}",
            f"{row['mean'].get('tokens', 0):,.0f}",
            "diverged"
            if row["mean"].get("diverged")
            else beside[name].says
            if name in beside
            else "",
        ]
        for name, row in settings.items()
    ]
    widths = [max(len(row[i]) for row in [heads, *rows]) for i in range(len(heads))]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip()
        for row in [heads, *rows]
    )
