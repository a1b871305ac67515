"""What a revision holds for a comparison: parameters, perplexity, and the losses of single texts."""

import hashlib
import io
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pandas as pd

from tinylm.base import paths
from tinylm.base.config import PARAMS_FILE, InputError, parse_yaml
from tinylm.evaluate.settings import TABLE_DECIMALS
from tinylm.experiments.provenance import read_status
from tinylm.experiments.revisions import Revision
from tinylm.params.presets.write import Values, flatten
from tinylm.run.lock import LOCK, is_seed_of_run, md5s, outdated, params_of

METRICS = paths.metrics("evaluate")
SEED_KEY = "train.seed"
TEXT_IDS = ["text_id", "tokens_id"]
LOSSES = ["nats", "raw_bits"]
NUMBERS = ["nats", "tokens", "raw_bits", "raw_bytes"]
SCORING_STAGES = ("download", "vocab", "train", "evaluate")  # on which the losses depend


def plain_value(value: Any) -> Any:
    """A value of params.yaml, equal for all ways to write it: 1 for 1.0, true for "true"."""
    if isinstance(value, list):
        return [plain_value(item) for item in value]
    if value in ("true", "false"):  # choices that YAML reads as booleans without quotes
        return value == "true"
    if isinstance(value, float) and value.is_integer():
        return int(value)
    return value


@dataclass(frozen=True)
class RevisionResult:
    """The results of one revision.

    params: the parameters that its stages ran with, from dvc.lock. inputs: the MD5 of each file of
    code and data that they read. perplexity: None if the metrics are of another run. stories: for
    each seed a table with a row for each different text of the evaluation split, TEXT_IDS and
    NUMBERS. notes: a line for each thing that is missing, or does not belong to the run.
    """

    name: str
    params: Values
    inputs: dict[str, str] = field(default_factory=dict)
    perplexity: float | None = None
    stories: dict[int, pd.DataFrame] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    @property
    def setting(self) -> str:
        """A key that is equal for runs that differ in train.seed alone."""
        decisive = {
            name: plain_value(value) for name, value in self.params.items() if name != SEED_KEY
        }
        return json.dumps([decisive, self.inputs], sort_keys=True, default=str)


def by_setting(results: Sequence[RevisionResult]) -> list[list[RevisionResult]]:
    """The results that differ in train.seed alone together, in the order of their first ones."""
    groups: dict[str, list[RevisionResult]] = {}
    for result in results:
        groups.setdefault(result.setting, []).append(result)
    return list(groups.values())


def stories_of(setting: Sequence[RevisionResult]) -> dict[int, pd.DataFrame]:
    """The stories of a setting by seed, of the seeds that scored the first run's texts.

    A seed counts once: the first run's table is taken.
    """
    tables: dict[int, pd.DataFrame] = {}
    for result in setting:
        for seed, table in result.stories.items():
            tables.setdefault(seed, table)
    ids = [table[TEXT_IDS] for table in tables.values()]
    return {seed: table for seed, table in tables.items() if table[TEXT_IDS].equals(ids[0])}


def read_result(revision: Revision) -> RevisionResult:
    """Everything of a revision that is compared. Raises InputError without params.yaml."""
    name = revision.name
    text = revision.text(PARAMS_FILE)
    if text is None:
        raise InputError(f"revision {name!r}: {revision.notes[0]}")
    current = flatten(parse_yaml(text, f"{PARAMS_FILE} of {name}"))
    lock = parse_yaml(revision.text(LOCK) or "stages: {}", f"{LOCK} of {name}")
    stages = lock.get("stages") or {}
    params = _params(stages)
    changed = [
        key
        for key, value in params.items()
        if plain_value(current.get(key, value)) != plain_value(value)
    ]
    if changed:
        keys = ", ".join(changed)
        revision.notes.append(f"{PARAMS_FILE} changed since the last run ({keys}); run dvc repro")
    if revision.commit is None and stages:
        revision.notes.extend(_edited_files())
    result = RevisionResult(name, params, _inputs(stages), notes=revision.notes)
    if older := outdated(stages, SCORING_STAGES):
        revision.notes.append(
            f"stage {older[0]} is older than what it read; run dvc repro {older[0]}"
        )
        return result
    metrics = revision.text(METRICS)
    if "evaluate" in stages:  # a run that diverged has losses, though no perplexity
        summarised = flatten(params_of(stages, "seeds")).get("seeds.more") or []
        # Since a run of fewer seeds may end before stage seeds, dvc.lock may have that of an earlier run.
        wanted = current.get("seeds.more", summarised) or []
        further = [seed for seed in summarised if seed in wanted]
        result.stories.update(_stories(revision, stages, params.get(SEED_KEY), further))
    if metrics is not None:
        of_run = md5s(stages, "evaluate", "outs").get(METRICS)
        if of_run in (None, hashlib.md5(metrics.encode()).hexdigest()):
            return replace(result, perplexity=_perplexity(revision))
        revision.notes.append(f"{METRICS} is of another run than {LOCK}; commit both")
    return result


def _edited_files() -> list[str]:
    """A line for each scoring stage of the workspace that read a file of code or data which has changed since."""
    stale, code = read_status()
    changed = {stage: f"{path} has changed since its last run" for stage, path in code.items()}
    for stage, reason in stale.items():
        if PARAMS_FILE not in reason:
            changed[stage] = reason
    found = [stage for stage in SCORING_STAGES if stage in changed]
    return [f"stage {stage}: {changed[stage]}; run dvc repro" for stage in found]


def _params(stages: Mapping[str, Any]) -> Values:
    """The parameters that the stages ran with."""
    params: Values = {}
    for name in SCORING_STAGES:
        params |= flatten(params_of(stages, name))
    return params


def _inputs(stages: Mapping[str, Any]) -> dict[str, str]:
    """{path: MD5} of what the stages read and no stage wrote: code and data."""
    inputs: dict[str, str] = {}
    for name in SCORING_STAGES:
        inputs |= md5s(stages, name, "deps")
    for name in stages:
        for path in md5s(stages, name, "outs"):
            inputs.pop(path, None)
    return inputs


def _perplexity(revision: Revision) -> float | None:
    """From the few metrics that are in git."""
    value = _json(revision, METRICS).get("perplexity")
    return value if isinstance(value, float) else None


def _json(revision: Revision, path: str) -> dict[str, Any]:
    """A JSON file of a revision; empty if it is missing. Raises InputError if it is damaged."""
    try:
        content: dict[str, Any] = json.loads(revision.text(path) or "{}")
    except ValueError as error:
        raise InputError(
            f"{revision.name}: {path}: not JSON ({error}); restore it with git or dvc checkout"
        ) from None
    return content


def _stories(
    revision: Revision, stages: Mapping[str, Any], seed: Any, further: Sequence[Any]
) -> dict[int, pd.DataFrame]:
    """The stories by seed: of the run, and of each further seed."""
    path = paths.evaluated("stories.csv")
    text = revision.text(path)
    if text is None:
        return {}
    table = pd.read_csv(io.StringIO(text))
    missing = [column for column in TEXT_IDS + NUMBERS if column not in table]
    if missing:
        revision.notes.append(f"{path} lacks the columns {', '.join(missing)}")
        return {}
    if revision.has_changed("evaluate", path):
        return {}
    tables = {seed: table}
    for more in further:
        if not is_seed_of_run(stages, more):
            revision.notes.append(
                f"seed {more} was run with different settings, code or data and is left out; "
                "reproduce stage seeds"
            )
            continue
        score_file = paths.seed_score(more)
        score = _json(revision, score_file)
        losses = pd.DataFrame(score.get("stories", {}))
        if len(losses) == len(table) and not revision.has_changed(f"seed_score@{more}", score_file):
            rounded = losses[LOSSES].astype(float).round(TABLE_DECIMALS)  # as in stories.csv
            tables[more] = table.assign(**rounded)
    return {seed: _by_text(table) for seed, table in tables.items()}


def _by_text(table: pd.DataFrame) -> pd.DataFrame:
    """A row for each different text: a story that occurs twice is one sample, not two."""
    numbers = table[NUMBERS].astype(float)
    sums = numbers.groupby([table[column] for column in TEXT_IDS], sort=False).sum(min_count=1)
    return sums.reset_index()
