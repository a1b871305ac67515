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
    "download", "vocab", "train", "evaluate", "beam_bench", "kv_bench", "accum_sweep", "ckpt_bench", "seeds",
)  # fmt: skip
_PLOTS = ("loss", "perplexity", "learning_rate", "grad_norm")
_ACCUM_PLOTS = ("accum_micro_steps", "accum_updates", "accum_tokens")
_EVALUATED = (
    "samples", "heads", "roles", "ablation", "greedy", "memorised", "sense", "pairs", "heads_training"
)  # fmt: skip
FILES = {  # name: (path, the stage that writes it)
    **{stage: (paths.results(stage), stage) for stage in STAGES},
    **{f"{stage}_time": (paths.times(stage), stage) for stage in STAGES},
    **{name: (paths.plot(name), "train") for name in _PLOTS},
    **{name: (paths.plot(name), "accum_sweep") for name in _ACCUM_PLOTS},
    **{name: (paths.evaluated(f"{name}.csv"), "evaluate") for name in _EVALUATED},
    "stories": (paths.evaluated("training_samples.csv"), "evaluate"),
    "attention": (paths.evaluated("attention.npz"), "evaluate"),
    "attention_training": (paths.evaluated("attention_training.npz"), "evaluate"),
    "beams": (paths.BEAM_TEXTS, "beam_bench"),
    "seed_curves": (paths.plot("seeds"), "seeds"),
}
_MADE_IF = {  # the parameter that has a file made
    "attention_training": ("train", "keep_epochs"),
    "greedy": ("evaluate", "greedy"),
}
SAME_AS_HELD_OUT = "evaluation is the held-out tokens"  # a note from stage vocab


class Tree(dict[str, Any]):
    """A JSON object for templates and rules: `tree.a.b` is the value, an empty Tree if it is missing."""

    def __getattr__(self, key: str) -> Any:
        if key.startswith("_"):
            raise AttributeError(key)
        return self[key]

    def __missing__(self, key: str) -> "Tree":
        return Tree()


def as_tree(value: Any) -> Any:
    """JSON types with a Tree for each object."""
    if isinstance(value, dict):
        return Tree({key: as_tree(inner) for key, inner in value.items()})
    return [as_tree(inner) for inner in value] if isinstance(value, list) else value


@dataclasses.dataclass(frozen=True)
class Sentence:
    """Attention over a sentence: words (T,), maps (layers, heads, T, T); the likeliest next token if known."""

    words: list[str]
    maps: np.ndarray
    next: str | None = None
    probability: float | None = None


@dataclasses.dataclass(frozen=True)
class Checkpoint(Sentence):
    """The same sentence after a number of epochs of training."""

    epochs: float = 0.0


@dataclasses.dataclass(frozen=True)
class Run:
    """Parameters and every file of FILES that could be read; `problems` has one line for each that could not."""

    params: dict[str, Any]
    files: dict[str, Any]
    problems: dict[str, str]

    def tree(self, name: str) -> Tree:
        """A JSON file; empty if it is missing."""
        value = self.files.get(name)
        return as_tree(value) if isinstance(value, dict) else Tree()

    def get(self, name: str, *keys: str) -> Any:
        """A value inside a JSON file, None if file or key is missing."""
        value = self.files.get(name)
        for key in keys:
            value = value.get(key) if isinstance(value, dict) else None
        return value

    def mapping(self, name: str, *keys: str) -> Tree:
        """An object inside a JSON file; empty if it is missing or something else is there."""
        value = self.get(name, *keys)
        return as_tree(value) if isinstance(value, dict) else Tree()

    def param(self, section: str, key: str) -> Any:
        """A parameter, None if it is missing."""
        values = self.params.get(section)
        return values.get(key) if isinstance(values, dict) else None

    def rows(self, name: str) -> list[dict[str, Any]]:
        """The rows of a CSV file, or of a list of objects in a JSON file; empty if it is missing."""
        value = self.files.get(name)
        return [row for row in value if isinstance(row, dict)] if isinstance(value, list) else []

    def records(self, name: str, key: str) -> list[Tree]:
        """The list of objects under `key` of a JSON file; empty if it is missing."""
        value = self.get(name, key)
        if not isinstance(value, list):
            return []
        return [as_tree(row) for row in value if isinstance(row, dict)]

    def table(self, name: str, key: str) -> dict[str, Tree]:
        """The objects by name under `key` of a JSON file; empty if it is missing."""
        rows = self.mapping(name, key).items()
        return {name: row for name, row in rows if isinstance(row, Tree)}

    def sentences(self) -> list[Sentence]:
        """Attention over each drawn sentence."""
        return self.files.get("attention", [])

    def checkpoints(self) -> list[Checkpoint]:
        """Attention over one sentence at several epochs."""
        return self.files.get("attention_training", [])

    def own_sentences(self) -> list[tuple[Sentence, list[Checkpoint]]]:
        """For each sentence of section `report` its attention now, and after each kept epoch."""
        return self.files.get("own_sentences", [])

    def token(self) -> str:
        """What one token of this run is called: word or token."""
        return "word" if self.param("vocab", "tokenizer") in (None, "words") else "token"

    def scored_once(self) -> Tree:
        """The model's metrics on the baselines' targets, each once: those of evaluate except in layout windows."""
        return self.mapping("evaluate", "once") or self.mapping("evaluate")

    def evaluates_held_out(self) -> bool:
        """Whether evaluation is the held-out end of the train stream instead of separate text."""
        notes = self.get("vocab", "split", "notes")
        return isinstance(notes, list) and SAME_AS_HELD_OUT in notes

    def epochs_of(self, cell: Any) -> float | None:
        """Epochs of a row of a table over training; None or nothing stands for the end of the run."""
        return as_number(self.get("train", "epochs") if cell in (None, "") else cell)

    def is_expected(self, name: str) -> bool:
        """Whether the parameters have this file made; most files are always made."""
        if name == "sense":  # which needs the storybook's generator
            from_storybook = self.param("data", "source") == "storybook"
            return from_storybook and self.param("evaluate", "prompts") == "starts"
        return name not in _MADE_IF or self.param(*_MADE_IF[name]) not in (0, [])


def as_number(value: Any) -> float | None:
    """A finite float, None for everything else (a CSV cell is text, a JSON value may be null)."""
    if isinstance(value, bool):
        return None
    try:
        number = float(value)
    except (TypeError, ValueError):
        return None
    return number if np.isfinite(number) else None


def _checked(words: np.ndarray, maps: np.ndarray) -> tuple[list[str], np.ndarray]:
    if maps.ndim != 4 or maps.shape[2:] != (len(words), len(words)):
        raise ValueError(f"maps of shape {maps.shape} for {len(words)} words")
    return [str(word) for word in words], maps


def _prediction(next_token: Any, probability: Any) -> tuple[str | None, float | None]:
    number = as_number(probability)
    return (None, None) if number is None else (str(next_token), number)


def _read_sentences(arrays: Mapping[str, np.ndarray]) -> list[Sentence]:
    sentences = []
    for number in sorted(int(name[6:]) for name in arrays if name.startswith("words_")):
        words, maps = _checked(arrays[f"words_{number}"], arrays[f"maps_{number}"])
        predicted = _prediction(arrays.get(f"next_{number}"), arrays.get(f"next_prob_{number}"))
        sentences.append(Sentence(words, maps, *predicted))
    return sentences


def _read_checkpoints(arrays: Mapping[str, np.ndarray]) -> list[Checkpoint]:
    checkpoints = []
    for number, epochs in enumerate(arrays["epochs"]):
        words, maps = _checked(arrays["words"], arrays["maps"][number])
        predicted = _prediction(arrays["next"][number], arrays["next_prob"][number])
        checkpoints.append(Checkpoint(words, maps, *predicted, epochs=float(epochs)))
    return checkpoints


def _read_times(folder: str | Path, path: str, stage: str) -> dict[str, Any]:
    times = read_times(stage, stage, paths.results(stage), folder)
    if times is None:
        raise InputError(
            f"{path}: this result was not measured in this folder; dvc repro -f -s {stage} measures it"
        )
    return times


def _read(path: Path) -> Any:
    if path.suffix == ".json":
        value = read_json(path)
        if not isinstance(value, dict):
            raise ValueError(f"holds {type(value).__name__}; allowed: an object")
        return value
    if path.suffix == ".npz":
        with np.load(path, allow_pickle=False) as arrays:
            if path.stem == "attention_training":
                return _read_checkpoints(arrays)
            return _read_sentences(arrays)
    import pandas as pd  # slow, and few who import this module read a table

    if path.read_bytes() == b"\n":  # a table of no rows has no columns either
        return []
    return pd.read_csv(path, dtype=str, keep_default_na=False).to_dict("records")


def read_run(folder: str | Path, params: dict[str, Any]) -> Run:
    """Read every file of FILES below `folder`; a missing or damaged one is named in `problems`, never raised."""
    run = Run(params, {}, {})
    damaged = OSError, ValueError, LookupError, EOFError, RecursionError, zipfile.BadZipFile
    for name, (path, stage) in FILES.items():
        try:
            if name.endswith("_time"):
                run.files[name] = _read_times(folder, path, stage)
            elif (Path(folder) / path).exists():
                content = _read(Path(folder) / path)
                check_sums(Path(folder) / path, stage)
                run.files[name] = content
            elif run.is_expected(name):
                run.problems[name] = f"{path} is missing; dvc repro {stage} makes it"
        except InputError as error:
            run.problems[name] = str(error)
        except damaged as error:
            line = (str(error).splitlines() or [type(error).__name__])[0]
            repair = f"rm {path} and run dvc repro {stage}"
            run.problems[name] = f"{path} cannot be read ({line}); {repair}"
    return run
