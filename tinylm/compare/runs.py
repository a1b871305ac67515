"""Runs and settings for a comparison: parameters, metrics, losses of stories, and samples."""

import functools
import io
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

import pandas as pd

from tinylm.base import paths
from tinylm.base.config import PARAMS_FILE, InputError, parse_yaml
from tinylm.compare.provenance import stage_paths, stale_stages
from tinylm.compare.revisions import Revision
from tinylm.presets.write import Values, flatten

T = TypeVar("T")
SEED_KEY = "train.seed"
ABSENT = "(none)"  # a parameter that a run does not have
STORY_IDS = ["text_id", "tokens_id"]
STORY_NUMBERS = ["nats", "tokens", "bits", "bytes", "raw_bits", "raw_bytes"]
PROMPT_COLUMNS = ["story", "prompt", "reference"]
SAMPLE_COLUMNS = [*PROMPT_COLUMNS, "continuation"]
PAIR_COLUMNS = ["phenomenon", "draw", "right", "wrong"]
# sections of params.yaml; the others change no result that is compared
RESULT_SECTIONS = ("data", "vocab", "embedding", "model", "train", "decode", "evaluate")
_STAGES = ("download", "vocab", "train", "evaluate")  # where a run's metrics come from


@dataclass(frozen=True)
class RevisionResult:
    """The contents of one revision.

    stories: a row for each evaluation story, STORY_IDS and STORY_NUMBERS. samples: SAMPLE_COLUMNS.
    pairs: 1 (the right text is likelier), 0 or 0.5 (equal) by PAIR_COLUMNS. inputs: the MD5 of each
    file of code and data that its stages read. notes: a line for each thing that it lacks, or that
    was made with other parameters and is left out. more_stories: the stories under each further
    seed that stage seed_score scored.
    """

    name: str
    commit: str | None
    params: Values
    metrics: dict[str, dict[str, Any]]
    inputs: dict[str, str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    stories: pd.DataFrame | None = None
    samples: pd.DataFrame = field(default_factory=lambda: pd.DataFrame(columns=SAMPLE_COLUMNS))
    pairs: pd.Series = field(default_factory=lambda: pd.Series(dtype=float))
    more_stories: dict[int, pd.DataFrame] = field(default_factory=dict)

    @property
    def result_params(self) -> Values:
        """The parameters that decide the metrics compared."""
        return {
            key: value
            for key, value in self.params.items()
            if key.partition(".")[0] in RESULT_SECTIONS
        }

    @property
    def seed(self) -> int:
        """train.seed; 0 if the run has none."""
        seed = self.params.get(SEED_KEY)
        return seed if isinstance(seed, int) else 0

    def value(self, stage: str, *keys: str) -> Any:
        """One metric of a stage, None if it is missing."""
        value: Any = self.metrics.get(stage)
        for key in keys:
            value = value.get(key) if isinstance(value, dict) else None
        return value


@dataclass(frozen=True)
class Setting:
    """Runs that differ in train.seed alone; each seed counts once. The first run gives its name."""

    runs: list[RevisionResult]

    @property
    def first(self) -> RevisionResult:
        """The run that represents the setting."""
        return self.runs[0]

    @property
    def name(self) -> str:
        """The name of the first run."""
        return self.first.name

    def _by_seed(self, part: Callable[[RevisionResult], T | None]) -> dict[int, T]:
        values: dict[int, T] = {}
        for run in self.runs:
            value = part(run)
            if value is not None:
                values.setdefault(run.seed, value)
        return values

    @functools.cached_property
    def stories(self) -> dict[int, pd.DataFrame]:
        """Losses of single stories by seed, of those seeds that scored the first run's texts."""
        if self.first.stories is None:
            return {}
        tables: dict[int, pd.DataFrame] = {}
        for run in self.runs:
            tables |= run.more_stories
        tables |= self._by_seed(lambda run: run.stories)
        ids = self.first.stories[STORY_IDS]
        return _with_equal(tables, ids)

    @property
    def samples(self) -> dict[int, pd.DataFrame]:
        """Samples by seed, of those seeds that continue the first run's prompts."""
        tables = self._by_seed(lambda run: run.samples if len(run.samples) else None)
        return _with_equal(tables, self.first.samples[PROMPT_COLUMNS])

    @property
    def pairs(self) -> dict[int, pd.Series]:
        """Answers to minimal pairs by seed."""
        return self._by_seed(lambda run: run.pairs if len(run.pairs) else None)


def _with_equal(
    tables: Mapping[int, pd.DataFrame], columns: pd.DataFrame
) -> dict[int, pd.DataFrame]:
    """The tables that have these columns with equal values."""
    equal = {}
    for seed, table in tables.items():
        if table[columns.columns].equals(columns):
            equal[seed] = table
    return equal


def settings_of(runs: Sequence[RevisionResult]) -> list[Setting]:
    """The runs by setting, in the order of their first runs."""
    groups: dict[Any, list[RevisionResult]] = {}
    for run in runs:
        values = {key: value for key, value in run.result_params.items() if key != SEED_KEY}
        key = repr(sorted(values.items())) + repr(sorted(run.inputs.items()))
        if not isinstance(run.params.get(SEED_KEY), int):
            key += run.name  # without a seed it is a setting of its own
        groups.setdefault(key, []).append(run)
    return [Setting(group) for group in groups.values()]


def read_run(revision: Revision) -> RevisionResult:
    """Everything of a revision that is compared. Raises InputError if it has no parameters."""
    name = revision.name
    text = revision.text(PARAMS_FILE)
    if text is None:
        raise InputError(f"revision {name!r}: {revision.notes[0]}")
    params = parse_yaml(text, f"{PARAMS_FILE} of {name}")
    lock = parse_yaml(revision.text("dvc.lock") or "stages: {}", f"dvc.lock of {name}")
    stages = lock.get("stages") or {}
    metrics = _metrics(revision, params, stages)
    inputs = _inputs(stages)
    run = RevisionResult(name, revision.commit, flatten(params), metrics, inputs, revision.notes)
    if "evaluate" not in metrics:
        return run
    stories = _stories(revision)
    if stories is not None:
        more_stories = _more_stories(revision, metrics.get("seeds", {}), stories)
        samples = _samples(revision)
        run = replace(run, stories=stories, samples=samples, more_stories=more_stories)
    if metrics["evaluate"].get("pairs"):
        run = replace(run, pairs=_pairs(revision))
    return run


def _metrics(
    revision: Revision, params: dict[str, Any], stages: dict[str, Any]
) -> dict[str, dict[str, Any]]:
    """The metrics of each stage, without those of other parameters."""
    names = ["train", "evaluate"]
    if (params.get("seeds") or {}).get("more"):
        names.append("seeds")
    metrics = {name: _metrics_of(revision, name, stages) for name in names}
    stale = stale_stages(stages, params, names)
    for name, reason in stale.items():
        if metrics[name]:
            revision.notes.append(f"stage {name} is not of these parameters: {reason}")
    return {name: value for name, value in metrics.items() if value and name not in stale}


def _metrics_of(revision: Revision, stage: str, stages: dict[str, Any]) -> dict[str, Any]:
    """All metrics of a stage, or those few in git where DVC's cache has lost the others."""
    files = [paths.metrics(stage)]
    if paths.results(stage) in stage_paths(stages.get(stage, {}), "outs"):
        files.insert(0, paths.results(stage))
    for path in files:
        text = revision.text(path)
        if text is not None:
            metrics: dict[str, Any] = json.loads(text)
            return metrics
    return {}


def _table(revision: Revision, path: str, columns: list[str]) -> pd.DataFrame | None:
    """A table of texts; None, with a note, without the file or one of the columns."""
    text = revision.text(path)
    if text is None:
        return None
    table = pd.read_csv(io.StringIO(text), dtype=str, keep_default_na=False)
    if table.columns.intersection(columns).size < len(columns):
        revision.notes.append(f"{path}: lacks one of the columns {', '.join(columns)}")
        return None
    return table


def _stories(revision: Revision) -> pd.DataFrame | None:
    columns = [*STORY_IDS, "nats", "tokens", "bits", "bytes"]
    table = _table(revision, paths.evaluated("stories.csv"), columns)
    if table is None:
        return None
    table = table.reindex(columns=[*STORY_IDS, *STORY_NUMBERS])
    table[STORY_NUMBERS] = table[STORY_NUMBERS].apply(pd.to_numeric).astype(float)
    return table


def _more_stories(
    revision: Revision, summary: Mapping[str, Any], stories: pd.DataFrame
) -> dict[int, pd.DataFrame]:
    """The stories with the losses of each further seed that stage seeds names."""
    tables = {}
    for seed in (summary.get("seeds") or [])[1:]:
        text = revision.text(paths.seed_score(seed)) or "{}"
        losses = pd.DataFrame(json.loads(text).get("stories", {}))
        if len(losses) == len(stories):
            columns = ["nats", "bits", "raw_bits"]
            tables[seed] = stories.assign(**losses[columns].astype(float))
    return tables


def _samples(revision: Revision) -> pd.DataFrame:
    table = _table(revision, paths.evaluated("samples.csv"), SAMPLE_COLUMNS)
    if table is None:
        return pd.DataFrame(columns=SAMPLE_COLUMNS)
    return table.astype({"story": int})


def _pairs(revision: Revision) -> pd.Series:
    """1, 0 or 0.5 (equal to five decimals) for each minimal pair."""
    table = _table(revision, paths.evaluated("pairs.csv"), [*PAIR_COLUMNS, "model"])
    if table is None:
        return pd.Series(dtype=float)
    table = table.drop_duplicates(PAIR_COLUMNS)
    margins = table.set_index(PAIR_COLUMNS)["model"].astype(float)
    return margins.gt(0) + margins.eq(0) / 2


def _inputs(stages: dict[str, Any]) -> dict[str, str]:
    """{path: MD5} of what the stages read and no stage wrote: code and data."""
    outputs = {path for stage in stages.values() for path in stage_paths(stage, "outs")}
    inputs: dict[str, str] = {}
    for name in _STAGES:
        inputs |= stage_paths(stages.get(name, {}), "deps")
    return {path: md5 for path, md5 in inputs.items() if path not in outputs}
