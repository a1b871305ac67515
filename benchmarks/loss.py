"""Wall time, from launch, to the validation loss that a tuned nanoGPT reaches at each horizon: the line `loss`.

1. nanoGPT: everything in GRID at each horizon, with the first seed; the best on validation is chosen.
2. Race: tinylm trains on ascending shares of the horizon until the first seed's validation loss is not above
   nanoGPT's. Then both run with all seeds, in turn. If our mean loss is above nanoGPT's, the next share follows. Only
   these times count.

Nothing is chosen by the evaluation split: the losses there are reported for both. The whole plan takes hours. Each
finished run is kept in a JSON file of the commit, so a repeated command runs only what is missing. The data are those
of the preset if they are there, else the storybook: all words are ids, lower-case, without punctuation. 2 % of the
train stories are for validation.
"""

import dataclasses
import itertools
import json
import subprocess
import tempfile
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

from benchmarks.contenders import loss as contenders
from benchmarks.contenders.loss import PRESET
from benchmarks.contenders.nanogpt import modes
from benchmarks.frame import ROOT, Contender, Entry, Options, Row, Spread, spread
from benchmarks.shape import Shape, of_size, section
from tinylm.base.files import read_json, write_json
from tinylm.download.settings import DataSettings
from tinylm.download.splits import write_stories
from tinylm.text.stories import SPLITS, read_stories
from tinylm.vocab.settings import VocabSettings
from tinylm.vocab.token_store import write_store
from tinylm.vocab.words import build_tokenizer, count_words

OURS = "tinylm"
PEER = "nanoGPT"
GRID = {"lr": (1e-3, 2e-3, 4e-3), "dropout": (0.0, 0.1), "batch": (8, 16, 32)}
SEEDS = (1, 2, 3)
SHARES = (0.1, 0.12, 0.15, 0.175, 0.2, 0.225, 0.25, 0.3, 0.35, 0.4, 0.5, 0.6, 0.8, 1.0, 1.2)
SHORT_HORIZON = 500_000  # tokens
RunSettings = dict[str, Any]
# Learning rates for some hundred updates, and for more. Both were chosen on validation.
RECIPES: tuple[RunSettings, ...] = (
    {"batch": 16, "train": {"muon_lr": 0.08, "lr": 2e-3, "beta1": 0.7}},
    {"batch": 32, "train": {"muon_lr": 0.04, "beta1": 0.8}},
)
STORIES = 12_000  # of the storybook, where there is no TinyStories


@dataclasses.dataclass(frozen=True)
class Plan:
    """What is tried: nanoGPT's grid and mode; our recipes and their shares of the horizon; the seeds of the race."""

    grid: dict[str, tuple[float, ...]]
    mode: str
    recipes: Sequence[RunSettings]  # up to SHORT_HORIZON, and above
    shares: Sequence[float]
    seeds: Sequence[int]


FULL = Plan(GRID, modes()[-1], RECIPES, SHARES, SEEDS)
TINY_GRID = {"lr": (1e-3, 2e-3), "dropout": (0.1,), "batch": (2,)}
TINY = Plan(TINY_GRID, modes(tiny=True)[-1], [{"batch": 2, "train": {}}] * 2, (1.0, 2.0, 8.0), (1,))


def _data_settings(tiny: bool) -> DataSettings:
    changes: dict[str, Any] = {"held_out_share": 0.02, "evaluation_stories": 500}
    settings = section("data", DataSettings, changes, PRESET)
    if Path(settings.path).exists() and not tiny:
        return settings
    changes["train_stories"] = STORIES
    if tiny:
        changes = {"train_stories": 60, "evaluation_stories": 5, "held_out_share": 0.2}
    return section("data", DataSettings, changes | {"source": "storybook"}, PRESET)


def _write(folder: Path, tiny: bool) -> int:
    """Token stores and vocabulary; returns the number of ids."""
    words = section("vocab", VocabSettings, {}, PRESET)
    with tempfile.TemporaryDirectory() as stories:
        write_stories(_data_settings(tiny), Path(stories))

        def texts(*splits: str) -> Iterable[str]:
            for split in splits:
                for row in read_stories(stories, split):
                    yield row["text"]

        tokenizer = build_tokenizer(count_words(texts("train", "held_out"), words), words)
        tokenizer.save(folder / "tokenizer.json")
        for split in SPLITS:
            ids = map(tokenizer.encode_story, texts(split))
            write_store(folder / "tokens", split, ids, len(tokenizer))
    return len(tokenizer)


def prepare(options: Options) -> tuple[Path, Shape]:
    """(the folder of the data, written if it is not there yet; word-50k's shape with their vocabulary)."""
    folder = (options.work / f"loss-{'tiny' if options.tiny else 'full'}").absolute()
    ready = folder / "ready.json"
    if not ready.exists():
        write_json(ready, {"vocab": _write(folder, options.tiny)})
    return folder, dataclasses.replace(of_size(options.tiny), vocab=read_json(ready)["vocab"])


class Runs:
    """All finished runs of this commit, in a JSON file; `run` returns a result from there or makes it."""

    def __init__(self, options: Options) -> None:
        self.options = options
        self.folder, self.shape = prepare(options)
        commit = subprocess.check_output(["git", "rev-parse", "HEAD"], cwd=ROOT, text=True)
        self.path = self.folder / f"runs-{commit.strip()}.json"
        self.results: dict[str, dict[str, float]] = {}
        if self.path.exists():
            self.results = read_json(self.path)

    def run(self, task: RunSettings) -> dict[str, float]:
        """{seconds from the start of the process to the end of training, held_out, evaluation}"""
        key = json.dumps(task, sort_keys=True)
        if key not in self.results:
            self.results[key] = self._measured(task)
            write_json(self.path, self.results)
            print(f"{key}: {self.results[key]}", flush=True)
        return self.results[key]

    def _measured(self, task: RunSettings) -> dict[str, float]:
        shape = vars(self.shape) | {"dropout": task["dropout"], "batch": task["batch"]}
        setup = task | {
            "folder": str(self.folder),
            "shape": shape,
            "clone": str(self.options.nanogpt),
            "threads": self.options.threads,
        }
        is_ours = task["side"] == OURS
        entry = Entry(contenders.ours if is_ours else contenders.nanogpt, setup)
        start = time.perf_counter()
        with Contender(task["side"], entry) as trained:
            seconds = round(time.perf_counter() - start, 2)
            return {"seconds": seconds} | trained.measure()

    def mean(self, name: str, tasks: Iterable[RunSettings]) -> float:
        """The mean of one of the results of `run` over tasks."""
        return fmean(self.run(task)[name] for task in tasks)

    def seconds(self, tasks: Iterable[RunSettings]) -> Spread:
        return spread(self.run(task)["seconds"] for task in tasks)


def tune(runs: Runs, plan: Plan, horizon: int) -> RunSettings:
    """nanoGPT's task with what is best on validation for the first seed."""
    fixed = {"side": PEER, "tokens": horizon, "seed": plan.seeds[0], "mode": plan.mode}
    tasks = []
    for values in itertools.product(*plan.grid.values()):
        tasks.append(fixed | dict(zip(plan.grid, values, strict=True)))
    return min(tasks, key=lambda task: runs.run(task)["held_out"])


def race(runs: Runs, plan: Plan, horizon: int, peer: RunSettings) -> list[list[RunSettings]] | None:
    """[our tasks over the seeds, nanoGPT's], run in turn, with the first share that reaches its validation loss.

    None if no share does.
    """
    theirs = [peer | {"seed": seed, "race": True} for seed in plan.seeds]
    recipe = plan.recipes[horizon > SHORT_HORIZON]
    for share in plan.shares:
        tokens = round(share * horizon)
        ours = {"side": OURS, "tokens": tokens, "dropout": 0.0, "race": True, **recipe}
        mine = [ours | {"seed": seed} for seed in plan.seeds]
        if runs.mean("held_out", mine[:1]) > runs.mean("held_out", theirs[:1]):
            continue
        for pair in zip(mine, theirs, strict=True):
            for task in pair:
                runs.run(task)
        if runs.mean("held_out", mine) <= runs.mean("held_out", theirs):
            return [mine, theirs]
    return None


def _row(runs: Runs, plan: Plan, horizon: int) -> Row:
    peer = tune(runs, plan, horizon)
    raced = race(runs, plan, horizon, peer)
    chosen = ", ".join(f"{name} {peer[name]:g}" for name in plan.grid)
    what = f"time to nanoGPT's validation loss after {horizon / 1e6:g} M tokens ({chosen})"
    name = f"{PEER} {plan.mode}"
    if raced is None:
        return Row(what, "s", None, runs.seconds([peer]), name)
    mine, theirs = raced
    ours, peers = (runs.mean("evaluation", tasks) for tasks in raced)
    note = f"evaluation loss {ours:.3f}, nanoGPT {peers:.3f}; {len(mine)} seeds"
    return Row(what, "s", runs.seconds(mine), runs.seconds(theirs), name, note)


def loss(options: Options) -> list[Row]:
    """One row for each horizon; none without --nanogpt."""
    if options.nanogpt is None:
        print("--nanogpt is not given: the time to its loss was not measured", flush=True)
        return []
    runs = Runs(options)
    if options.tiny:
        return [_row(runs, TINY, 96)]
    return [_row(runs, FULL, horizon) for horizon in options.horizons]
