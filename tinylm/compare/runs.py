"""A run as a comparison sees it: parameters, figures, the loss of each story, each sample. Read from a revision."""

import csv
import hashlib
import io
import json
import math
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from tinylm.base import paths
from tinylm.base.config import PARAMS_FILE, InputError, parse_yaml
from tinylm.base.files import SEAL
from tinylm.bench.seeds import FIGURES
from tinylm.compare.provenance import stale_stages
from tinylm.compare.revisions import Absent, Revision
from tinylm.presets.write import Values, flatten
from tinylm.report.sources import as_number

METRICS = ("train", "evaluate", "seeds")
ABSENT = "(none)"  # a parameter that a run does not have
_DECIDING = (
    "data",
    "vocab",
    "embedding",
    "model",
    "train",
    "decode",
    "evaluate",
)  # sections; the others change no figure
LONGEST_FIELD = 1 << 27  # characters of a text in a table
_STAGES = ("download", "vocab", "train", "evaluate")  # where a run's figures come from


@dataclass(frozen=True)
class Stories:
    """For each evaluation story: the ids of its text and of its tokens; nats, tokens, bits and bytes (S,), of the
    raw text too (NaN where an older run has none)."""

    text_ids: list[str]
    tokens_ids: list[str]
    nats: np.ndarray
    tokens: np.ndarray
    bits: np.ndarray
    n_bytes: np.ndarray
    raw_bits: np.ndarray
    raw_bytes: np.ndarray

    def __len__(self) -> int:
        return len(self.text_ids)

    def same_rows(self, other: "Stories") -> bool:
        """Whether row i of both is the same text in the same tokens, for every i."""
        return (self.text_ids, self.tokens_ids) == (other.text_ids, other.tokens_ids)


@dataclass(frozen=True)
class Run:
    """What one revision holds; `inputs` has the MD5 of each file of code and data that its stages read, `notes` a line
    for each thing that it lacks, or that was not made with its parameters and is left out, `pairs` for each minimal
    pair (phenomenon, right text, wrong text) whether the right text is likelier: 1, 0, or 0.5 if both are the same,
    `more_stories` the stories under each further seed that stage seed_score scored."""

    name: str
    commit: str | None
    params: Values
    metrics: dict[str, dict[str, Any]]
    stories: Stories | None
    samples: list[dict[str, str]]
    inputs: dict[str, str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    pairs: dict[tuple[str, str, str], float] = field(default_factory=dict)
    more_stories: dict[int, Stories] = field(default_factory=dict)

    @property
    def deciding(self) -> Values:
        """The parameters that decide the figures compared."""
        return {
            key: value for key, value in self.params.items() if key.partition(".")[0] in _DECIDING
        }

    def value(self, stage: str, *keys: str) -> Any:
        """One figure of a stage, None if it is missing."""
        found: Any = self.metrics.get(stage)
        for key in keys:
            found = found.get(key) if isinstance(found, dict) else None
        return found


def read_run(revision: Revision) -> Run:
    """Everything of a revision that is compared. Raises InputError if it has no parameters."""
    notes: list[str] = []

    def text(path: str) -> str | None:
        try:
            return revision.read(path).decode("utf-8", "replace")
        except Absent as absent:
            notes.append(str(absent))
            return None

    found = text(PARAMS_FILE)
    if found is None:
        raise InputError(f"revision {revision.name!r}: {notes[0]}")
    params = parse_yaml(found, f"{PARAMS_FILE} of {revision.name}")
    stages = parse_yaml(text("dvc.lock") or "stages: {}", f"dvc.lock of {revision.name}").get(
        "stages"
    )
    lock = (
        {name: stage for name, stage in stages.items() if isinstance(stage, dict)}
        if isinstance(stages, dict)
        else {}
    )
    wanted = (params.get("seeds") or {}).get("more")
    metrics, written = {}, {}
    for name in METRICS:
        before = len(notes)
        # the few in git stand in for figures that DVC's cache has lost; before 0.3 they were all there is
        places = [path for path in (paths.figures(name),) if path in _entries(lock, name, "outs")]
        for path in [*places, paths.metrics(name)]:
            if (found := text(path)) is not None:
                metrics[name], written[path] = (
                    _mapping(found),
                    hashlib.md5(found.encode()).hexdigest(),
                )
                break
        if name == "seeds" and not (
            wanted and name in metrics
        ):  # seeds are run only if somebody wants them
            del notes[before:]
    stale = stale_stages(lock, params, list(metrics))
    for name in stale:  # figures of other parameters, which would be taken for this run's
        del metrics[name]
    if not wanted:
        stale.pop("seeds", None)
    evaluated = metrics.get("evaluate", {})
    strange = [
        key
        for key in FIGURES
        if evaluated.get(key) is not None and as_number(evaluated[key]) is None
    ]
    notes += [f"{paths.metrics('evaluate')}: {key} is no number" for key in strange]
    stories = (
        _stories(text(paths.evaluated("stories.csv")), notes) if "evaluate" in metrics else None
    )
    samples = _samples(text(paths.evaluated("samples.csv")), stories, notes) if stories else []
    pairs = _pairs(text(paths.evaluated("pairs.csv")), notes) if evaluated.get("pairs") else {}
    more = {}
    for seed in _further_seeds(metrics.get("seeds", {})) if stories else []:
        scored = _mapping(text(paths.seed_score(seed)) or "")
        if (found_stories := _under_seed(scored.get("stories"), stories)) is not None:
            more[seed] = found_stories
    notes += stale.values()
    notes += _edited(lock, written)
    known = metrics, stories, samples, _inputs(lock), notes, pairs, more
    return Run(revision.name, revision.commit, flatten(params), *known)


def _further_seeds(summary: dict[str, Any]) -> list[int]:
    """The seeds of stage seeds but the first, which is stage train's."""
    seeds = summary.get("seeds")
    return [seed for seed in seeds[1:] if isinstance(seed, int)] if isinstance(seeds, list) else []


def _under_seed(columns: Any, stories: Stories | None) -> Stories | None:
    """The run's stories with the losses of another seed; None for scores of before they were written."""
    if stories is None or not isinstance(columns, dict):
        return None
    try:
        under = {
            key: np.array([math.nan if cell is None else float(cell) for cell in columns[key]])
            for key in ("nats", "bits", "raw_bits")
        }
    except (KeyError, TypeError, ValueError):
        return None
    nats, bits, raw_bits = under.values()
    same = {len(column) for column in under.values()} == {len(stories)}
    return replace(stories, nats=nats, bits=bits, raw_bits=raw_bits) if same else None


def _mapping(text: str) -> dict[str, Any]:
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    return (
        {key: value for key, value in found.items() if key != SEAL}
        if isinstance(found, dict)
        else {}
    )


def _rows(text: str | None) -> list[dict[str, str]]:
    """The rows of a table; [] if there is none."""
    csv.field_size_limit(LONGEST_FIELD)
    try:
        return list(csv.DictReader(io.StringIO(text, newline=""))) if text else []
    except csv.Error:
        return []


def _stories(text: str | None, notes: list[str]) -> Stories | None:
    if text is None:
        return None
    rows = _rows(text)
    try:
        numbers = {
            key: np.array([float(row[key] or "nan") for row in rows])
            for key in ("nats", "tokens", "bits")
        }
        n_bytes = np.array([float(row["bytes"]) for row in rows])
        raw = {
            key: np.array([float(row.get(key) or "nan") for row in rows])
            for key in ("raw_bits", "raw_bytes")
        }
        text_ids, tokens_ids = ([row[key] for row in rows] for key in ("text_id", "tokens_id"))
    except (KeyError, TypeError, ValueError):
        notes.append(f"{paths.evaluated('stories.csv')}: no table of stories")
        return None
    return Stories(text_ids, tokens_ids, **numbers, n_bytes=n_bytes, **raw)


def _samples(text: str | None, stories: Stories, notes: list[str]) -> list[dict[str, str]]:
    rows = _rows(text)
    if all(_is_sample(row, len(stories)) for row in rows):
        return rows
    notes.append(
        f"{paths.evaluated('samples.csv')}: does not say of which stories; check the revision out and run dvc repro"
    )
    return []


def _is_sample(row: dict[str, str], stories: int) -> bool:
    texts = (row.get(key) for key in ("story", "prompt", "reference", "continuation"))
    return (
        all(isinstance(text, str) for text in texts)
        and row["story"].isdecimal()
        and int(row["story"]) < stories
    )


def _pairs(text: str | None, notes: list[str]) -> dict[tuple[str, str, str], float]:
    found = {}
    for row in _rows(text):
        margin = as_number(row.get("model"))
        if margin is None:
            notes.append(f"{paths.evaluated('pairs.csv')}: no table of minimal pairs")
            return {}
        key = (str(row.get("phenomenon")), str(row.get("right")), str(row.get("wrong")))
        found[key] = 0.5 if margin == 0 else float(margin > 0)
    return found


def _entries(lock: dict[str, Any], stage: str, key: str) -> dict[str, str]:
    rows = lock.get(stage, {}).get(key)
    rows = rows if isinstance(rows, list) else []
    return {
        str(row["path"]): str(row.get("md5", ""))
        for row in rows
        if isinstance(row, dict) and "path" in row
    }


def _inputs(lock: dict[str, Any]) -> dict[str, str]:
    """{path: MD5} of what the stages read and no stage wrote: code and data."""
    made = {path for stage in lock for path in _entries(lock, stage, "outs")}
    read = {path: md5 for stage in _STAGES for path, md5 in _entries(lock, stage, "deps").items()}
    return {path: md5 for path, md5 in read.items() if path not in made}


def _edited(lock: dict[str, Any], written: dict[str, str]) -> list[str]:
    noted = {path: md5 for stage in lock for path, md5 in _entries(lock, stage, "outs").items()}
    return [
        f"{path} is not the file that its stage wrote"
        for path in written
        if noted.get(path, written[path]) != written[path]
    ]
