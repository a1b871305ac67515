"""The stages on a few stories in a folder of their own, run in this process."""

import importlib
import json
import pickle
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.support.folders import write_stories
from tinylm.base.command import run_command
from tinylm.base.config import load_params
from tinylm.base.files import sha256
from tinylm.bench import trials

ROOT = Path(__file__).parents[2]
STORIES = [
    f"One day a {child} saw a {animal}. The {animal} was {mood}. They {deed} and the {animal} went home."
    for child in ("boy", "girl", "baby")
    for animal in ("dog", "cat", "bird", "fish", "frog")
    for mood in ("sad", "happy", "small")
    for deed in ("played", "sang")
]
SMALL = {
    "data": {"source": "local", "path": "stories.jsonl", "held_out_share": 0.1, "train_stories": None},
    "embedding": {"width": 8},
    "model": {"layers": 2, "heads": 2, "feed_forward": 16, "context": 32},
    "train": {"batch_size": 4, "tokens": 2800, "validate_every": 5, "precision": "fp32"},
    "evaluate": {"stories": 3, "new_tokens": 5},
    "beam_bench": {"widths": [1, 2], "prompts": 3, "new_tokens": 16},
    "kv_bench": {"batch": 2, "lengths": [4]},
    "accum_sweep": {"settings": [1, 2], "batch_size": 2, "stories": None, "tokens": 1200},
    "ckpt_bench": {"updates": 3, "batch_size": 2},
    "seeds": {"more": [2]},
    "runtime": {"sample_every": 10, "threads": 1, "device": "cpu", "snapshot_every_s": 0.001},
}  # fmt: skip
ORDER = [
    "download", "vocab", "train", "evaluate", "beam_bench", "kv_bench", "accum_sweep",
    "ckpt_bench", "seed_train 2", "seed_score 2", "seeds", "report"
]  # fmt: skip


def small_params() -> dict:
    params = load_params(ROOT / "tinylm/params/presets/storybook.yaml")
    for section, values in SMALL.items():
        assert set(values) <= set(params[section])
        params[section] |= values
    return params


def plant(folder: Path, params: dict, stories: list[str] = STORIES) -> None:
    """params.yaml, a corpus and, since train notes which code it ran, the code."""
    (folder / "params.yaml").write_text(yaml.safe_dump(params), encoding="utf-8")
    for name in ("stages", "tinylm", "dvc.yaml"):
        if not (folder / name).exists():
            (folder / name).symlink_to(ROOT / name)
    write_stories(folder / "stories.jsonl", stories)


def run(command: str) -> int:
    """`python -m stages.NAME ARGUMENTS` in this process and the current folder: its exit code."""
    name, *arguments = command.split()
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(ROOT))
        patch.setattr(sys, "argv", [name, *arguments])
        handler = signal.getsignal(signal.SIGTERM)
        try:
            return run_command(importlib.import_module(f"stages.{name}").main)
        finally:
            signal.signal(signal.SIGTERM, handler)


def measure_here(patch: pytest.MonkeyPatch) -> None:
    """Settings are measured in this process: faster, and what they are given is pickled all the same."""

    def call(function: Callable[[Any], Any], task: Any) -> Any:
        return function(pickle.loads(pickle.dumps(task)))

    def call_each(function: Callable[[Any], Any], tasks: Any, together: int) -> Iterator[Any]:
        return (call(function, task) for task in tasks)

    patch.setattr(trials, "in_own_process", call)
    patch.setattr(trials, "in_own_processes", call_each)


def finish(folder: Path) -> None:
    """Run every stage once, in order. Scripts call it below `if __name__ == "__main__"`: benches start processes.

    Each setting of a bench has one trial. beam_bench runs in this process: in its own process, each method would take
    three seconds to load what compiles its step. The other benches show that processes work.
    """
    params = small_params()
    params["runtime"]["snapshot_every_s"] = 0.2
    plant(folder, params)
    for command in ORDER:
        with pytest.MonkeyPatch.context() as patch:
            patch.chdir(folder)
            patch.setattr(trials, "TRIALS", 1)
            if command == "beam_bench":
                measure_here(patch)
            assert run(command) == 0, command


def before_training(folder: Path, snapshot_every_s: float, **train: object) -> None:
    """Make `folder`, in which download and vocab ran; `train`: settings of stage train that differ from SMALL."""
    folder.mkdir()
    params = small_params()
    params["train"] |= {"validate_every": 5, "patience": 50, **train}
    params["runtime"]["sample_every"] = 7
    params["model"]["dropout"] = 0.1
    params["runtime"]["snapshot_every_s"] = snapshot_every_s
    plant(folder, params)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        assert [run(stage) for stage in ("download", "vocab")] == [0, 0]


def read(path: Path) -> Any:
    return json.loads(path.read_text(encoding="utf-8"))


MEASURED_FOLDERS = (
    "data/times",
    "report",
    "plots/pictures",
    "metrics/beam",
    "metrics/kv",
    "metrics/accum",
    "metrics/ckpt",
)


def is_measured(name: str) -> bool:
    """Whether a file holds or draws times or memory, which differ between equal runs."""
    files = (
        "metrics/train.json",
        "plots/beam_bench.csv",
        "plots/kv_bench.csv",
        "plots/ckpt_bench.csv",
    )
    return name in files or any(name.startswith(f"{folder}/") for folder in MEASURED_FOLDERS)


def written(folder: Path) -> dict[str, str]:
    """SHA-256 of what a training left, without times and without the hidden files that DVC ignores."""
    sums = {}
    for name in ("models", "metrics", "plots"):
        for path in (folder / name).rglob("*"):
            file = path.relative_to(folder).as_posix()
            if path.is_file() and path.name[0] != "." and not is_measured(file):
                sums[file] = sha256(path)
    return sums
