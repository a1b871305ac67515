"""What a run left behind, read once: metrics, plots, tables and arrays, each file optional."""

import dataclasses
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from tinylm.base import paths
from tinylm.base.config import InputError
from tinylm.base.files import check_sums, read_json
from tinylm.host.times import read_times

STAGES = (
    "download",
    "vocab",
    "train",
    "evaluate",
    "beam_bench",
    "kv_bench",
    "accum_sweep",
    "ckpt_bench",
    "seeds",
)

FILES = {  # name: (path, the stage that writes it)
    **{stage: (paths.figures(stage), stage) for stage in STAGES},
    **{f"{stage}_time": (paths.times(stage), stage) for stage in STAGES},
    "loss": (paths.plot("loss"), "train"),
    "perplexity": (paths.plot("perplexity"), "train"),
    "learning_rate": (paths.plot("learning_rate"), "train"),
    "grad_norm": (paths.plot("grad_norm"), "train"),
    "stories": (paths.evaluated("training_samples.csv"), "evaluate"),
    "samples": (paths.evaluated("samples.csv"), "evaluate"),
    "heads": (paths.evaluated("heads.csv"), "evaluate"),
    "roles": (paths.evaluated("roles.csv"), "evaluate"),
    "ablation": (paths.evaluated("ablation.csv"), "evaluate"),
    "greedy": (paths.evaluated("greedy.csv"), "evaluate"),
    "memorised": (paths.evaluated("memorised.csv"), "evaluate"),
    "sense": (paths.evaluated("sense.csv"), "evaluate"),
    "pairs": (paths.evaluated("pairs.csv"), "evaluate"),
    "heads_training": (paths.evaluated("heads_training.csv"), "evaluate"),
    "attention": (paths.evaluated("attention.npz"), "evaluate"),
    "moments": (paths.evaluated("moments.npz"), "evaluate"),
    "beams": (paths.BEAM_TEXTS, "beam_bench"),
    "accum_micro_steps": (paths.plot("accum_micro_steps"), "accum_sweep"),
    "accum_updates": (paths.plot("accum_updates"), "accum_sweep"),
    "accum_tokens": (paths.plot("accum_tokens"), "accum_sweep"),
    "seed_curves": (paths.plot("seeds"), "seeds"),
}

Rows = list[dict[str, str]]
SAME_AS_HELD_OUT = "evaluation is the held-out tokens"  # a note from stage vocab
_ASKED = {
    "moments": ("train", "keep_epochs"),
    "greedy": ("evaluate", "greedy"),
}  # made if this parameter asks for it


@dataclasses.dataclass(frozen=True)
class Sentence:
    """Attention over a sentence: words (T,), maps (layers, heads, T, T); the likeliest next token if known."""

    words: list[str]
    maps: np.ndarray
    next: str | None = None
    probability: float | None = None


@dataclasses.dataclass(frozen=True)
class Moment(Sentence):
    """The same sentence after a number of epochs of training."""

    epochs: float = 0.0


@dataclasses.dataclass(frozen=True)
class Run:
    """Parameters and every file of FILES that could be read; `problems` has one line for each that could not."""

    params: dict[str, Any]
    found: dict[str, Any]
    problems: dict[str, str]

    def get(self, name: str, *keys: str) -> Any:
        """A value inside a JSON file, None if file or key is missing."""
        value = self.found.get(name)
        for key in keys:
            value = value.get(key) if isinstance(value, dict) else None
        return value

    def mapping(self, name: str, *keys: str) -> dict[str, Any]:
        """An object inside a JSON file; empty if it is missing or something else is there."""
        value = self.get(name, *keys)
        return value if isinstance(value, dict) else {}

    def param(self, section: str, key: str) -> Any:
        """A parameter, None if it is missing."""
        values = self.params.get(section)
        return values.get(key) if isinstance(values, dict) else None

    def rows(self, name: str) -> list[dict[str, Any]]:
        """The rows of a CSV file, or of a list of objects in a JSON file; empty if it is missing."""
        value = self.found.get(name)
        return [row for row in value if isinstance(row, dict)] if isinstance(value, list) else []

    def records(self, name: str, key: str) -> list[dict[str, Any]]:
        """The list of objects under `key` of a JSON file; empty if it is missing."""
        value = self.get(name, key)
        return [row for row in value if isinstance(row, dict)] if isinstance(value, list) else []

    def table(self, name: str, key: str) -> dict[str, dict[str, Any]]:
        """The objects by name under `key` of a JSON file; empty if it is missing."""
        return {name: row for name, row in self.mapping(name, key).items() if isinstance(row, dict)}

    def sentences(self) -> list[Sentence]:
        """Attention over each drawn sentence."""
        return self.found.get("attention", [])

    def moments(self) -> list[Moment]:
        """Attention over one sentence at several epoch checkpoints."""
        return self.found.get("moments", [])

    def own_sentences(self) -> list[tuple[Sentence, list[Moment]]]:
        """For each sentence of section `report` its attention now, and after each kept epoch."""
        return self.found.get("own_sentences", [])

    def token(self) -> str:
        """What one token of this run is called: word or token."""
        return "word" if self.param("vocab", "tokenizer") in (None, "words") else "token"

    def scored_once(self) -> dict[str, Any]:
        """The model's figures on the baselines' targets, each once: those of evaluate except in layout windows."""
        return self.mapping("evaluate", "once") or self.mapping("evaluate")

    def evaluates_held_out(self) -> bool:
        """Whether evaluation is the held-out end of the train stream instead of separate text."""
        notes = self.get("vocab", "split", "notes")
        return isinstance(notes, list) and SAME_AS_HELD_OUT in notes

    def epochs_of(self, moment: Any) -> float | None:
        """Epochs of a moment of training; None or nothing stands for the end of the run."""
        return as_number(self.get("train", "epochs") if moment in (None, "") else moment)

    def asks_for(self, name: str) -> bool:
        """Whether the parameters ask for this file; most files are always made."""
        if name == "sense":  # which the storybook's generator alone can tell
            return (
                self.param("data", "source") == "storybook"
                and self.param("evaluate", "prompts") == "starts"
            )
        return name not in _ASKED or self.param(*_ASKED[name]) not in (0, [])


def as_number(value: Any) -> float | None:
    """A finite float, None for everything else (a CSV cell is text, a JSON figure may be null)."""
    if isinstance(value, bool):
        return None
    try:
        number = float(value)
    except (TypeError, ValueError):
        return None
    return number if np.isfinite(number) else None


def long_series(rows: Rows, x: str) -> dict[str, tuple[list[float], list[float]]]:
    """Curves of a long CSV by the column `series`: {series: (x values, y values)}; cells without a number left out."""
    curves: dict[str, tuple[list[float], list[float]]] = {}
    for row in rows:
        place, value = as_number(row.get(x)), as_number(row.get("value"))
        if place is not None and value is not None:
            xs, ys = curves.setdefault(row.get("series", ""), ([], []))
            xs.append(place)
            ys.append(value)
    return curves


def _checked(words: np.ndarray, maps: np.ndarray, what: str) -> tuple[list[str], np.ndarray]:
    if maps.ndim != 4 or maps.shape[2:] != (len(words), len(words)):
        raise ValueError(f"{what} has shape {maps.shape} for {len(words)} words")
    return [str(word) for word in words], maps


def _prediction(next_token: Any, probability: Any) -> tuple[str | None, float | None]:
    number = as_number(probability)
    return (None, None) if number is None else (str(next_token), number)


def _read_sentences(arrays: Mapping[str, np.ndarray]) -> list[Sentence]:
    sentences = []
    for number in sorted(int(name[6:]) for name in arrays if name.startswith("words_")):
        words, maps = _checked(
            arrays[f"words_{number}"], arrays[f"maps_{number}"], f"maps_{number}"
        )
        known = arrays.get(f"next_{number}"), arrays.get(f"next_prob_{number}")
        sentences.append(Sentence(words, maps, *_prediction(*known)))
    return sentences


def _read_moments(arrays: Mapping[str, np.ndarray]) -> list[Moment]:
    moments, all_maps = [], arrays["maps"]  # (M, layers, heads, T, T)
    for number, epochs in enumerate(arrays["epochs"]):
        words, maps = _checked(arrays["words"], all_maps[number], "maps")
        known = _prediction(arrays["next"][number], arrays["next_prob"][number])
        moments.append(Moment(words, maps, *known, epochs=float(epochs)))
    return moments


def _read_times(folder: str | Path, path: str, stage: str) -> dict[str, Any]:
    found = read_times(stage, stage, paths.figures(stage), folder)
    if found is None:
        raise InputError(
            f"{path}: this result was not measured in this folder; dvc repro -f -s {stage} measures it"
        )
    return found


def _read(path: Path) -> Any:
    if path.suffix == ".json":
        value = read_json(path)
        expected = list if path.name == "samples.json" else dict
        if not isinstance(value, expected):
            raise ValueError(f"holds {type(value).__name__}; allowed: {expected.__name__}")
        return value
    if path.suffix == ".npz":
        with np.load(path, allow_pickle=False) as arrays:
            return (_read_moments if path.stem == "moments" else _read_sentences)(arrays)
    import pandas as pd  # slow, and few who ask for the names of files need it

    if path.read_bytes() == b"\n":  # a table of no rows has no columns either
        return []
    return pd.read_csv(path, dtype=str, keep_default_na=False).to_dict("records")


def read_run(folder: str | Path, params: dict[str, Any]) -> Run:
    """Read every file of FILES below `folder`; a missing or damaged one is named in `problems`, never raised."""
    run = Run(params, {}, {})
    for name, (path, stage) in FILES.items():
        try:
            if name.endswith("_time"):
                run.found[name] = _read_times(folder, path, stage)
            elif (Path(folder) / path).exists():
                found = _read(Path(folder) / path)
                check_sums(Path(folder) / path, stage)
                run.found[name] = found
            elif run.asks_for(name):
                run.problems[name] = f"{path} is missing; dvc repro {stage} makes it"
        except InputError as error:
            run.problems[name] = str(error)
        except (
            OSError,
            ValueError,
            LookupError,
            EOFError,
            RecursionError,
            zipfile.BadZipFile,
        ) as error:
            line = (str(error).splitlines() or [type(error).__name__])[0]
            run.problems[name] = (
                f"{path} cannot be read ({line}); rm {path} and run dvc repro {stage}"
            )
    return run
