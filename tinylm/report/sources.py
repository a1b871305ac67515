"""What a run left behind, read once: metrics, tables and attention maps, each file optional."""

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from tinylm.base import paths
from tinylm.base.config import InputError
from tinylm.base.files import read_json

STAGES = (
    "download", "vocab", "train", "evaluate",
    "beam_bench", "kv_bench", "accum_sweep", "ckpt_bench", "seeds",
)  # fmt: skip
_CURVES = ("loss", "perplexity")
_ACCUM_CURVES = ("accum_updates", "accum_tokens")
_TABLES = ("samples", "roles", "ablation", "truth_story", "truth_training")
FILES = {  # name: (path, the stage that writes it)
    **{stage: (paths.results(stage), stage) for stage in STAGES},
    **{f"{stage}_time": (paths.times(stage), stage) for stage in STAGES},
    **{name: (paths.plot(name), "train") for name in _CURVES},
    **{name: (paths.plot(name), "accum_sweep") for name in _ACCUM_CURVES},
    **{name: (paths.evaluated(f"{name}.csv"), "evaluate") for name in _TABLES},
    "attention": (paths.evaluated("attention.npz"), "evaluate"),
    "beams": (paths.BEAM_TEXTS, "beam_bench"),
}
_TEXTS = ("prompt", "continuation", "text")  # columns that may be empty, or digits
_HEAD = ["layer", "head"]
_ROLE = [*_HEAD, "role", "score", "baseline", "claimed"]
_ABLATION = [*_HEAD, "loss_increase", "low", "high"]


@dataclasses.dataclass(frozen=True)
class Sentence:
    """Attention over a sentence, and the most likely next token.

    words (T,); maps (layers, heads, T, T).
    """

    words: list[str]
    maps: np.ndarray
    next: str
    probability: float


@dataclasses.dataclass(frozen=True)
class ReportData:
    """The parameters of a run, and the files of FILES that exist.

    files: a dict for JSON, a DataFrame for CSV, a list of Sentence for attention.
    """

    params: dict[str, Any]
    files: dict[str, Any]

    def value(self, path: str) -> Any:
        """A value by its place, such as "evaluate.samples.bleu4"; None if it is missing."""
        name, *keys = path.split(".")
        value = self.files.get(name)
        for key in keys:
            value = value.get(key) if isinstance(value, dict) else None
        return value

    def frame(self, name: str) -> pd.DataFrame:
        """A table; empty if it is missing."""
        return pd.DataFrame(self.files.get(name, []))

    def rows(self, name: str) -> list[dict[str, Any]]:
        """The rows of a table; empty if it is missing."""
        return records(self.frame(name))

    def sentences(self, name: str = "attention") -> list[Sentence]:
        """Attention over each sentence."""
        return self.files.get(name, [])

    def param(self, section: str, key: str) -> Any:
        """A parameter, None if it is missing."""
        return (self.params.get(section) or {}).get(key)

    def token(self) -> str:
        """What one token of this run is called: word or token."""
        return "word" if self.param("vocab", "tokenizer") in (None, "words") else "token"

    def scored_once(self) -> dict[str, Any]:
        """The model's metrics with each target scored once, as the baselines are scored."""
        return self.value("evaluate.once") or self.value("evaluate") or {}

    def roles(self) -> pd.DataFrame:
        """How well each head fits each role, best fit first.

        baseline: what position alone would score, or uniform attention for roles that are a
        position. claimed: the score is clearly above it.
        """
        fits = self.frame("roles").reindex(columns=_ROLE)
        fits["gain"] = fits["score"] - fits["baseline"]
        return fits.sort_values(["claimed", "gain"], ascending=False)

    def heads(self) -> list[dict[str, Any]]:
        """Each head with its best role, and the loss (nats per token) that ablating it adds."""
        best = self.roles().drop_duplicates(_HEAD).astype({"layer": int, "head": int})
        ablation = self.frame("ablation").reindex(columns=_ABLATION)
        ablation = ablation.astype({"layer": int, "head": int})
        return records(best.merge(ablation, "outer", _HEAD).sort_values(_HEAD))


def records(frame: pd.DataFrame) -> list[dict[str, Any]]:
    """The rows of a table, with None for empty cells."""
    rows: Any = frame.astype(object).where(frame.notna(), None).to_dict("records")
    return rows


def as_number(value: Any) -> float | None:
    """A finite number as a float, None for everything else."""
    if isinstance(value, bool) or not isinstance(value, (int, float, np.number)):
        return None
    return float(value) if np.isfinite(value) else None


def read_run(folder: str | Path, params: dict[str, Any], whole: bool = False) -> ReportData:
    """Read those files of FILES that are below `folder`.

    whole: whether all stages must have run. Raises InputError for a damaged file, and then also for
    missing results of a stage.
    """
    files = {}
    for name, (path, stage) in FILES.items():
        file = Path(folder) / path
        if file.exists() or (whole and file.suffix == ".json"):
            files[name] = _read(file, stage)
    return ReportData(params, files)


def _read(path: Path, stage: str) -> Any:
    """The content of a file. Raises InputError if it is damaged."""
    if path.suffix == ".json":
        return dict(read_json(path, stage))
    try:
        if path.suffix == ".npz":
            with np.load(path, allow_pickle=False) as arrays:
                return _read_sentences(arrays)
        return _read_table(path)
    except Exception:
        raise InputError(f"{path} is damaged; rm {path} and run dvc repro {stage}") from None


def _read_table(path: Path) -> pd.DataFrame:
    if path.read_bytes() == b"\n":  # a table of no rows has no columns either
        return pd.DataFrame()
    as_text = dict.fromkeys(_TEXTS, str)
    table = pd.read_csv(path, keep_default_na=False, na_values=[""], converters=as_text)
    if path.parent.name == paths.PLOTS:
        table.drop(columns="series").astype(float)
    return table.fillna(dict.fromkeys(_TEXTS, ""))


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
