"""A finished run: its parameters, and what each stage left behind. Every file is optional."""

import dataclasses
import json
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from tinylm.base import paths
from tinylm.base.config import PARAMS_FILE, InputError
from tinylm.run.benches import (
    Accumulated,
    AccumulationTimes,
    Beams,
    BeamTimes,
    Cache,
    CacheTimes,
    Recomputed,
    RecomputeTimes,
)
from tinylm.run.downloaded import Downloaded
from tinylm.run.evaluated import Evaluated, Loss, LossWithInterval
from tinylm.run.lock import is_seed_of_run, outdated, read_lock
from tinylm.run.result_files import StageTimes, read_result
from tinylm.run.seeds import Seeds
from tinylm.run.trained import Trained, TrainTimes
from tinylm.run.vocabulary import Vocabulary

# Columns of texts, which may be empty or look like numbers.
_TEXTS = ("prompt", "reference", "continuation", "text", "word", "kind", "series")
_HEAD = ["layer", "head"]
_ROLE = [*_HEAD, "role", "score", "baseline", "claimed"]
_ABLATION = [*_HEAD, "loss_increase", "low", "high"]


@dataclasses.dataclass(frozen=True)
class Sentence:
    """Attention over a sentence, and the most likely next token.

    words (T,); maps (layers, heads, T, T). left_out: how many tokens follow them.
    """

    words: list[str]
    maps: np.ndarray
    next: str
    probability: float
    left_out: int = 0


@dataclasses.dataclass(frozen=True)
class OwnText:
    """How the model continues a prompt of section report.

    unknown: words of the prompt that the model does not know. perplexity: of the continuation.
    finished: whether it ended by itself. how: the decoding settings, in words.
    """

    prompt: str
    unknown: list[str]
    continuation: str
    perplexity: float
    finished: bool
    how: str


@dataclasses.dataclass(frozen=True, kw_only=True)
class Times:
    """The times of each stage."""

    download: StageTimes | None = None
    vocab: StageTimes | None = None
    train: TrainTimes | None = None
    evaluate: StageTimes | None = None
    beam_bench: BeamTimes | None = None
    kv_bench: CacheTimes | None = None
    accum_sweep: AccumulationTimes | None = None
    ckpt_bench: RecomputeTimes | None = None
    seeds: StageTimes | None = None


@dataclasses.dataclass(frozen=True, kw_only=True)
class Tables:
    """The tables of a run, and attention over its first evaluation stories."""

    loss: pd.DataFrame | None = None
    perplexity: pd.DataFrame | None = None
    accum_updates: pd.DataFrame | None = None
    accum_tokens: pd.DataFrame | None = None
    samples: pd.DataFrame | None = None
    roles: pd.DataFrame | None = None
    ablation: pd.DataFrame | None = None
    truth_story: pd.DataFrame | None = None
    truth_training: pd.DataFrame | None = None
    beams: pd.DataFrame | None = None
    attention: list[Sentence] | None = None

    def frame(self, name: str) -> pd.DataFrame:
        """A copy of a table; empty if it is missing."""
        table = getattr(self, name)
        return pd.DataFrame() if table is None else table.copy()

    def rows(self, name: str) -> list[dict[str, Any]]:
        """The rows of a table; empty if it is missing."""
        return records(self.frame(name))


@dataclasses.dataclass(frozen=True, kw_only=True)
class FinishedRun:
    """The parameters of a run, and its results by stage; None for what is missing.

    params: params.yaml as parsed. folder: where it is; its paths are relative to it.
    own_texts, own_sentences: of section report, from the model itself.
    """

    params: dict[str, Any]
    download: Downloaded | None = None
    vocab: Vocabulary | None = None
    train: Trained | None = None
    evaluate: Evaluated | None = None
    beam_bench: Beams | None = None
    kv_bench: Cache | None = None
    accum_sweep: Accumulated | None = None
    ckpt_bench: Recomputed | None = None
    seeds: Seeds | None = None
    times: Times = Times()
    tables: Tables = Tables()
    own_texts: tuple[OwnText, ...] = ()
    own_sentences: tuple[Sentence, ...] = ()
    folder: str = dataclasses.field(default=".", compare=False)

    def param(self, section: str, key: str) -> Any:
        """A parameter, None if it is missing."""
        return (self.params.get(section) or {}).get(key)

    def has(self, name: str) -> bool:
        """Whether the run has what a file of FILES holds."""
        part: Any = self
        for field in name.split("."):
            part = getattr(part, field)
        return part is not None

    @property
    def sentences(self) -> list[Sentence]:
        """Attention over the first evaluation stories."""
        return self.tables.attention or []

    def token(self) -> str:
        """What one token of this run is called: word, or token where some tokens are marks or pieces."""
        has_marks = self.param("vocab", "punctuation") == "keep"
        return "word" if self.has_words and not has_marks else "token"

    @property
    def has_words(self) -> bool:
        """Whether tokens are words, with punctuation marks if they are kept, and not pieces of words."""
        return self.param("vocab", "tokenizer") in (None, "words")

    def refuse_mixed(self, stages: Sequence[str] = (), sections: Collection[str] = ()) -> None:
        """Raise InputError if a stage or seed ran with settings other than `params`, or is older than its inputs.

        stages, sections: those that are compared; without any, all.
        """
        repair = f"run dvc repro {stages[-1]}" if stages else "run dvc repro"
        for stage in stages or RESULTS:
            times: StageTimes | None = getattr(self.times, stage)
            ran_with = times.sections if times else None
            for section, settings in (ran_with or {}).items():
                for key, value in settings.items():
                    here = self.param(section, key)
                    if here != value and (not sections or section in sections):
                        raise InputError(
                            f"{PARAMS_FILE}: {section}.{key} is {json.dumps(here)}, but stage {stage} ran with "
                            f"{json.dumps(value)}; {repair}, or dvc repro --force {stage} if that finds no change"
                        )
        lock = read_lock(self.folder)
        if older := outdated(lock, stages or RESULTS):
            raise InputError(f"stage {older[0]} is older than what it read; {repair}")
        if "seeds" in lock and "seeds" in (stages or RESULTS):
            for seed in self.param("seeds", "more") or ():
                if not is_seed_of_run(lock, seed):
                    raise InputError(
                        f"seed {seed} ran with other settings, code or data; run dvc repro seeds"
                    )

    def scored_once(self) -> Loss | LossWithInterval | Evaluated | None:
        """The model's loss with each target scored once, as the baselines are scored."""
        if self.evaluate is None:
            return None
        return self.evaluate.scored_once or self.evaluate

    def roles(self) -> pd.DataFrame:
        """How well each head fits each role, best fit first.

        baseline: what position alone would score, or uniform attention for roles that are a
        position. claimed: the score is clearly above it.
        """
        fits = self.tables.frame("roles").reindex(columns=_ROLE)
        fits["gain"] = fits["score"] - fits["baseline"]
        return fits.sort_values(["claimed", "gain"], ascending=False)

    def heads(self) -> list[dict[str, Any]]:
        """Each head with its best role, and the loss (nats per token) that ablating it adds."""
        best = self.roles().drop_duplicates(_HEAD).astype({"layer": int, "head": int})
        ablation = self.tables.frame("ablation").reindex(columns=_ABLATION)
        ablation = ablation.astype({"layer": int, "head": int})
        return records(best.merge(ablation, "outer", _HEAD).sort_values(_HEAD))


class ResultFile(NamedTuple):
    """A file of a run: the stage that writes it, and what it holds."""

    path: str
    stage: str
    kind: Any


RESULTS: dict[str, Any] = {
    "download": Downloaded,
    "vocab": Vocabulary,
    "train": Trained,
    "evaluate": Evaluated,
    "beam_bench": Beams,
    "kv_bench": Cache,
    "accum_sweep": Accumulated,
    "ckpt_bench": Recomputed,
    "seeds": Seeds,
}
_TIMES = {
    "train": TrainTimes,
    "beam_bench": BeamTimes,
    "kv_bench": CacheTimes,
    "accum_sweep": AccumulationTimes,
    "ckpt_bench": RecomputeTimes,
}
_PLOTS = {
    "loss": "train",
    "perplexity": "train",
    "accum_updates": "accum_sweep",
    "accum_tokens": "accum_sweep",
}
_EVALUATED = ("samples", "roles", "ablation", "truth_story", "truth_training")


def _files() -> dict[str, ResultFile]:
    files = {}
    for stage, kind in RESULTS.items():
        files[stage] = ResultFile(paths.results(stage), stage, kind)
    for stage in RESULTS:
        kind = _TIMES.get(stage, StageTimes)
        files[f"times.{stage}"] = ResultFile(paths.times(stage), stage, kind)
    for name, stage in _PLOTS.items():
        files[f"tables.{name}"] = ResultFile(paths.plot(name), stage, pd.DataFrame)
    for name in _EVALUATED:
        path = paths.evaluated(f"{name}.csv")
        files[f"tables.{name}"] = ResultFile(path, "evaluate", pd.DataFrame)
    attention = paths.evaluated("attention.npz")
    files["tables.attention"] = ResultFile(attention, "evaluate", Sentence)
    files["tables.beams"] = ResultFile(paths.BEAM_TEXTS, "beam_bench", pd.DataFrame)
    return files


FILES = _files()  # by the name of its field: evaluate, times.evaluate, tables.samples


def read_run(
    folder: str | Path,
    params: dict[str, Any],
    stages: Collection[str] = tuple(RESULTS),
    whole: bool = False,
) -> FinishedRun:
    """Read those FILES that exist in `folder`.

    stages: whose files are read; others may be from other code. whole: whether all these stages
    must have run. Raises InputError for a damaged file, and if `whole` also for missing results of
    a stage.
    """
    groups: dict[str, dict[str, Any]] = {"": {}, "times": {}, "tables": {}}
    for name, file in FILES.items():
        path = Path(folder) / file.path
        is_expected = path.exists() or (whole and path.suffix == ".json")
        if file.stage in stages and is_expected:
            group, _, field = name.rpartition(".")
            groups[group][field] = _read(path, file)
    times = Times(**groups["times"])
    tables = Tables(**groups["tables"])
    return FinishedRun(params=params, times=times, tables=tables, folder=str(folder), **groups[""])


def _read(path: Path, file: ResultFile) -> Any:
    """The content of a file. Raises InputError if it is damaged."""
    if path.suffix == ".json":
        return read_result(file.kind, path, file.stage)
    try:
        if file.kind is Sentence:
            with np.load(path, allow_pickle=False) as arrays:
                return _read_sentences(arrays)
        return _read_table(path)
    except Exception:
        raise InputError(f"{path} is damaged; rm {path} and run dvc repro {file.stage}") from None


def _read_table(path: Path) -> pd.DataFrame:
    if path.read_bytes() == b"\n":  # a table of no rows has no columns either
        return pd.DataFrame()
    as_text = dict.fromkeys(_TEXTS, str)
    table = pd.read_csv(path, keep_default_na=False, na_values=[""], converters=as_text)
    if path.parent.name == paths.PLOTS:
        _refuse_text(table)
    return table.fillna(dict.fromkeys(_TEXTS, ""))


def _refuse_text(curves: pd.DataFrame) -> None:
    """Raise ValueError if a column other than `series` has anything but numbers."""
    curves.drop(columns="series").astype(float)


def _read_sentences(arrays: Any) -> list[Sentence]:
    """The sentences of attention.npz."""
    sentences = []
    for number in range(1, len(arrays) // 4 + 1):
        words = arrays[f"words_{number}"].tolist()
        maps = arrays[f"maps_{number}"]
        next_token = str(arrays[f"next_{number}"])
        probability = float(arrays[f"next_prob_{number}"])
        sentences.append(Sentence(words, maps, next_token, probability))
    return sentences


def records(frame: pd.DataFrame) -> list[dict[str, Any]]:
    """The rows of a table, with None for empty cells."""
    rows: Any = frame.astype(object).where(frame.notna(), None).to_dict("records")
    return rows
