"""Wall time, from launch, to the evaluation loss that a tuned peer (nanoGPT, nanochat) reaches at each horizon.

1. The peer: at each horizon everything in its grid, with the first seed; the best on held-out.
2. tinylm: each recipe with shares of the horizon, ascending, until the first seed's evaluation loss is not above the
   peer's; the fastest of these.
3. Race: both again with all seeds, in turn; the peer in each of its modes. Our mean loss must not be above the peer's,
   or else ours run again with the next share. These times count.

Every run is kept in a JSON when it ends; called again, only what is missing runs. The whole plan takes hours.

The data are tokens of ../shared/tinystories as both contenders read them, or of the storybook: all words of train are
ids, lower-case, without punctuation, quotes as published; <sos> and <eos> are in the stream and are scored. Two per
cent of the train stories are held out for choosing; nothing trains on them.
"""

import dataclasses
import itertools
import json
import math
import statistics
import sys
import tempfile
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks import record
from benchmarks.checkpoint import WORDS
from benchmarks.interleaved import ROOT, spread
from benchmarks.lines import run_line
from benchmarks.options import Entry, Options, above_zero, add_options, count, options_of
from benchmarks.record import Row, against
from benchmarks.shape import Shape, of_size, section
from tinylm.base.config import InputError, parse_yaml
from tinylm.base.files import atomic_write, read_json, write_json
from tinylm.download.splits import DataSettings, write_stories
from tinylm.download.stories import SPLITS, read_stories
from tinylm.embedding.settings import EmbeddingSettings
from tinylm.host.command import Parser, guard
from tinylm.model.settings import ModelSettings
from tinylm.presets.write import FOLDER
from tinylm.train.settings import TrainSettings
from tinylm.vocab.token_store import write_store
from tinylm.vocab.words import WordTokenizer, build_tokenizer, count_words

OURS, TUNED_IN = "tinylm", "bf16+compile"
MODES = (TUNED_IN, "bf16", "fp32")
SECTIONS = {"train": TrainSettings, "model": ModelSettings, "embedding": EmbeddingSettings}
RECIPE = "tinystories-2m"  # chosen on held-out alone
# What is tuned of each peer: nanochat's rates and decay are shares of what its own rules give for this size and batch,
# which is in rows.
GRIDS: dict[str, dict[str, tuple[float, ...]]] = {
    "nanoGPT": {"lr": (1e-3, 2e-3, 4e-3), "dropout": (0.0, 0.1), "batch": (8, 16, 32)},
    "nanochat": {"lr": (2.0, 4.0, 8.0), "decay": (0.5, 1.0), "batch": (16, 32)},
}
GOALS = {
    "nanoGPT": (0.2, 0.12),
    "nanochat": (0.5, 1 / 3),
}  # must, stretch: our time as a share of the peer's
# Chosen on held-out: the first from some twenty, in runs of 0.1 M tokens, the second from a dozen, in runs of 0.8 M.
SHORT = {"muon_lr": 0.08, "muon_beta": 0.8, "lr": 2e-3, "beta1": 0.7, "batch_size": 16}
LONGER = {"muon_lr": 0.04, "muon_beta": 0.9, "beta1": 0.8, "batch_size": 32}
_OF_THE_SIZE = (
    "layout", "tokens", "validate_every", "sample_every", "layers", "heads", "feed_forward", "context", "width",
)  # fmt: skip
SHARES = (
    0.06, 0.07, 0.08, 0.09, 0.1, 0.12, 0.15, 0.175, 0.2, 0.225, 0.25, 0.275, 0.3, 0.35, 0.4, 0.5, 0.6, 0.8, 1.0, 1.2,
)  # fmt: skip
SHARED = Path("../shared/tinystories")
STORIES = {"full": 12_000, "tiny": 60}  # of the storybook, if there is no ../shared
CORPORA = ("tinystories", "storybook")
Task = dict[str, Any]


def recipes_of(preset: str) -> tuple[dict[str, Any], ...]:
    """What a preset says about how to train, in sections train, model and embedding; size and budget left out.

    Two recipes: at rates for some hundred updates, and for more. Ours are tuned to the horizon as nanoGPT's is.
    """
    params = parse_yaml((FOLDER / f"{preset}.yaml").read_text(encoding="utf-8"), preset)
    changes = {
        part: {key: value for key, value in params[part].items() if key not in _OF_THE_SIZE}
        for part in SECTIONS
    }
    return tuple(changes | {"train": changes["train"] | rates} for rates in (SHORT, LONGER))


@dataclasses.dataclass(frozen=True, kw_only=True)
class Plan:
    """horizons: tokens; grid: {setting: values} tried for the peer; modes: its in the race, tuned in the first;
    recipes: our changes of the complete preset's sections train, model, embedding, each tried."""

    peer: str = "nanoGPT"

    horizons: tuple[int, ...] = (500_000, 1_000_000, 2_000_000, 4_000_000)
    grid: Mapping[str, tuple[float, ...]] = dataclasses.field(
        default_factory=dict
    )  # {}: that of GRIDS
    seeds: tuple[int, ...] = (1, 2, 3)
    shares: tuple[float, ...] = SHARES
    modes: tuple[str, ...] = (TUNED_IN, "bf16")
    recipes: tuple[dict[str, Any], ...] = dataclasses.field(
        default_factory=lambda: recipes_of(RECIPE)
    )

    def tried(self) -> Mapping[str, tuple[float, ...]]:
        """The grid."""
        return self.grid or GRIDS[self.peer]


TINY = Plan(
    horizons=(96,), grid={"lr": (1e-3, 2e-3), "dropout": (0.1,)}, seeds=(1,), shares=(1.0,), modes=("bf16",),
    recipes=({"embedding": {"source": "random"}},),
)  # fmt: skip


def default_corpus() -> str:
    """tinystories if ../shared is available."""
    return "tinystories" if (ROOT / SHARED).exists() else "storybook"


def _settings(corpus: str, size: str) -> DataSettings:
    own: dict[str, Any] = {
        "held_out_share": 0.02,
        "repair_quotes": False,
        "evaluation_stories": 500,
    }
    if corpus == "tinystories":
        own |= {"source": "local", "path": str((ROOT / SHARED).resolve()), "train_stories": None}
    else:
        own |= {"train_stories": STORIES[size]}
    if size == "tiny":
        own |= {"train_stories": STORIES["tiny"], "evaluation_stories": 5}
    return section("data", DataSettings, own)


def _write(folder: Path, corpus: str, size: str) -> int:
    """Token stores, vocabulary and the train split's words as plain text; how many ids there are."""
    with tempfile.TemporaryDirectory() as stories:
        write_stories(_settings(corpus, size), Path(stories))

        def texts(*splits: str) -> Iterable[str]:
            return (row["text"] for split in splits for row in read_stories(stories, split))

        words: WordTokenizer = build_tokenizer(
            count_words(texts("train", "held_out"), WORDS), WORDS
        )
        words.save(folder / "tokenizer.json")
        for split in SPLITS:
            write_store(folder / "tokens", split, map(words.encode_story, texts(split)), len(words))
        with atomic_write(folder / "train.txt") as handle:
            handle.writelines(text.replace("\n", " ") + "\n" for text in texts("train"))
    return len(words)


def prepare(options: Options, corpus: str) -> tuple[Path, Shape]:
    """(the data's folder, made if it is not there yet; word-50k's shape with its vocabulary)."""
    folder = (options.work / f"loss-{corpus}-{options.size}").absolute()
    ready = folder / "ready.json"
    if not ready.exists():
        write_json(ready, {"vocab": _write(folder, corpus, options.size)})
    return folder, dataclasses.replace(of_size(options.size), vocab=read_json(ready)["vocab"])


class Runs:
    """All runs so far, in a file; `do` runs what is not there yet."""

    def __init__(self, path: Path, options: Options, folder: Path, shape: Shape) -> None:
        self.path, self.options, self.folder, self.shape = path, options, folder, shape
        self.results: dict[str, dict[str, Any]] = record.load(path)

    def do(self, task: Task) -> dict[str, Any]:
        """The result of a task, from the file if it is there."""
        name = json.dumps(task, sort_keys=True)
        if name not in self.results:
            answer = self.run(name, task)
            self.results[name] = answer | {"load": record.load_average(), "at": record.stamp()}
            write_json(self.path, self.results)
            print(
                f"{name}: {answer['seconds']:.1f} s, evaluation {answer['evaluation']:.4f}",
                flush=True,
            )
        return self.results[name]

    def run(self, name: str, task: Task) -> dict[str, Any]:
        """{seconds from the start of its own process to the end of training, held_out, evaluation}"""
        shape = vars(self.shape) | {key: task[key] for key in ("dropout", "batch") if key in task}
        setup = task | {"folder": str(self.folder), "shape": shape}
        target = "loss:ours"
        if task["side"] != OURS:
            peer = task["side"].lower()
            setup, target = setup | {"clone": str(getattr(self.options, peer))}, f"loss:{peer}"
        start = time.perf_counter()
        with self.options.contender(f"loss: {name}", Entry(target, setup)) as trained:
            seconds = round(time.perf_counter() - start, 2)
            return {"seconds": seconds} | trained.measure()

    def seconds(self, tasks: Sequence[Task]) -> dict[str, float]:
        return spread(self.do(task)["seconds"] for task in tasks)

    def mean(self, tasks: Iterable[Task], figure: str) -> float:
        return statistics.fmean(self.do(task)[figure] for task in tasks)


def tune(runs: Runs, plan: Plan, horizon: int) -> Task:
    """The peer's task with what is best on held-out for the first seed."""
    fixed = {"side": plan.peer, "tokens": horizon, "seed": plan.seeds[0], "mode": plan.modes[0]}
    grid = plan.tried()
    tasks: list[Task] = [
        fixed | dict(zip(grid, values)) for values in itertools.product(*grid.values())
    ]
    return min(tasks, key=lambda task: runs.do(task)["held_out"])


def fastest(runs: Runs, plan: Plan, horizon: int, target: float) -> Task | None:
    """Our task that reaches the target in the least time with the first seed; None if no share of a recipe does."""
    reached: list[Task] = []
    for recipe in plan.recipes:
        tasks = [_ours(recipe, share, horizon, plan.seeds[0]) for share in plan.shares]
        reached += itertools.islice(
            (task for task in tasks if runs.do(task)["evaluation"] <= target), 1
        )
    return min(reached, key=lambda task: runs.do(task)["seconds"], default=None)


def _ours(recipe: dict[str, Any], share: float, horizon: int, seed: int) -> Task:
    return {"side": OURS, "tokens": round(share * horizon), "seed": seed, **recipe}


def race(
    runs: Runs, plan: Plan, peer: Task, ours: Task, horizon: int
) -> tuple[list[Task], dict[str, list[Task]]] | None:
    """(our tasks over the seeds, the peer's by mode), run in turn, with the first share whose mean loss is not above.

    None if no share has one.
    """
    theirs = {
        mode: [peer | {"mode": mode, "seed": seed, "race": True} for seed in plan.seeds]
        for mode in plan.modes
    }
    more = [tokens for share in plan.shares if (tokens := round(share * horizon)) >= ours["tokens"]]
    for tokens in more:
        mine: list[Task] = [
            ours | {"tokens": tokens, "seed": seed, "race": True} for seed in plan.seeds
        ]
        for task in itertools.chain.from_iterable(zip(mine, *theirs.values())):
            runs.do(task)
        if runs.mean(mine, "evaluation") <= runs.mean(theirs[plan.modes[0]], "evaluation"):
            return mine, theirs
    return None


def _row(runs: Runs, plan: Plan, horizon: int) -> Row:
    peer = tune(runs, plan, horizon)
    first = runs.do(peer)["evaluation"]
    ours = fastest(runs, plan, horizon, first)
    raced = race(runs, plan, peer, ours, horizon) if ours else None
    loss = runs.mean(raced[1][plan.modes[0]], "evaluation") if raced else first
    chosen = ", ".join(f"{name} {peer[name]:g}" for name in plan.tried())
    what = f"wall time to {plan.peer}'s evaluation loss after {horizon / 1e6:g} M tokens, {loss:.3f} ({chosen})"
    must, stretch = GOALS[plan.peer]
    goal: dict[str, Any] = {
        "must": must,
        "stretch": stretch,
        "higher": False,
        "part": float(horizon),
    }
    if raced is None:
        return Row(what, "s", None, runs.seconds([peer]), plan.peer, note="not reached", **goal)
    mine, theirs = raced
    mode = min(theirs, key=lambda mode: runs.seconds(theirs[mode])["median"])
    vectors = mine[0].get("embedding", {}).get("source", "trained")
    tokens = f"{mine[0]['tokens'] / 1e6:.3g} M, vectors {vectors}"
    note = f"ours {runs.mean(mine, 'evaluation'):.3f} after {tokens}; seeds: {len(mine)}"
    sides = runs.seconds(mine), runs.seconds(theirs[mode]), f"{plan.peer} {mode}"
    return against(what, "s", *sides, note=note, **goal)


def measure(options: Options, corpus: str, plan: Plan) -> list[Row]:
    """One row per horizon."""
    if getattr(options, plan.peer.lower()) is None:
        wanted = f"a clone of github.com/karpathy/{plan.peer}"
        raise InputError(f"loss: {plan.peer.upper()} is not set; allowed: {wanted}")
    folder, shape = prepare(options, corpus)
    suffix = "-tiny" if options.tiny else ""
    runs = Runs(
        options.results.with_name(f"benchmarks-loss-{corpus}{suffix}.json"), options, folder, shape
    )
    return [_row(runs, plan, horizon) for horizon in plan.horizons]


def _line(options: Options, plan: Plan) -> list[Row]:
    if getattr(options, plan.peer.lower()) is None:
        print(f"{plan.peer.upper()} is not set: wall time to its loss was not measured", flush=True)
        return []
    return measure(options, "storybook" if options.tiny else default_corpus(), plan)


def loss(options: Options) -> list[Row]:
    """Wall time to nanoGPT's loss, with this file's default plan; empty without NANOGPT."""
    return _line(options, TINY if options.tiny else Plan())


def loss_nanochat(options: Options) -> list[Row]:
    """Wall time to nanochat's loss; empty without NANOCHAT."""
    tiny = dataclasses.replace(TINY, peer="nanochat", grid={"lr": (1.0,), "decay": (1.0,)})
    return _line(
        options, tiny if options.tiny else Plan(peer="nanochat", horizons=(2_000_000, 4_000_000))
    )


def grid_of(peer: str, words: Sequence[str]) -> dict[str, tuple[float, ...]]:
    """What `--grid lr=1e-3,2e-3 dropout=0 batch=16` says; {} for none. Raises InputError."""
    try:
        parted = [word.partition("=") for word in words]
        found = {
            key: tuple(map(int if key == "batch" else float, values.split(",")))
            for key, _, values in parted
        }
    except ValueError:
        found = {"": ()}
    inside = all(0 <= value < math.inf for values in found.values() for value in values)
    whole = found.keys() == GRIDS[peer].keys() and len(words) == len(found)
    above = whole and min(*found["lr"], *found["batch"]) > 0
    if words and not (above and inside and max(found.get("dropout", (0,))) < 1):
        wanted = " ".join(f"{key}=N,N" for key in GRIDS[peer])
        limits = "lr above 0, dropout below 1, batch a whole number from 1"
        raise InputError(f"--grid {' '.join(words)}; allowed for {peer}: {wanted}, {limits}")
    return found


def _recipe(path: Path) -> dict[str, Any]:
    """Changes of sections from a JSON file. Raises InputError."""
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise InputError(f"--recipe {path}: {error}; allowed: a JSON file") from None
    if not isinstance(found, dict) or not all(
        key in SECTIONS and isinstance(part, dict) for key, part in found.items()
    ):
        raise InputError(
            f"--recipe {path}; allowed: an object of {', '.join(SECTIONS)}, each an object of settings"
        )
    for name, part in found.items():
        try:
            section(name, SECTIONS[name], part)
        except InputError as error:
            said = str(error).splitlines()[0].partition(": ")[2]  # without the preset's name
            raise InputError(f"--recipe {path}: {said}") from None
    return found


def main() -> None:
    parser = Parser(prog="python -m benchmarks.loss", description=__doc__)
    add_options(parser)
    plan = Plan()
    parser.add_argument(
        "--corpus", choices=CORPORA, default=default_corpus(), help="default %(default)s"
    )
    parser.add_argument("--horizons", nargs="+", type=count, default=plan.horizons, help="tokens")
    parser.add_argument("--peer", choices=GRIDS, default=plan.peer, help="default %(default)s")
    parser.add_argument(
        "--grid",
        nargs="+",
        default=[],
        metavar="KEY=V,V",
        help="of the peer, such as lr=2e-3 dropout=0 batch=8,16",
    )
    parser.add_argument("--seeds", nargs="+", type=int, default=plan.seeds)
    parser.add_argument(
        "--shares",
        nargs="+",
        type=above_zero,
        default=plan.shares,
        help="of the horizon, for tinylm",
    )
    parser.add_argument("--modes", nargs="+", choices=MODES, default=plan.modes, help="of the peer")
    changes = "JSON: changes of tinylm's sections train, model and embedding, each tried"
    parser.add_argument("--recipe", type=Path, nargs="+", help=changes)
    given = parser.parse_args()
    recipes = tuple(map(_recipe, given.recipe or ())) or plan.recipes
    if (
        min(given.seeds) < 0
        or max(given.seeds) >= 1 << 63
        or len(set(given.seeds)) < len(given.seeds)
    ):
        raise InputError(
            f"--seeds {' '.join(map(str, given.seeds))}; allowed: different whole numbers from 0 to 2^63-1"
        )
    tried = {name: tuple(getattr(given, name)) for name in ("seeds", "shares", "modes")}
    grid = grid_of(given.peer, given.grid)
    chosen = Plan(
        peer=given.peer, grid=grid, horizons=tuple(given.horizons), recipes=recipes, **tried
    )
    run_line(
        "loss" if given.peer == "nanoGPT" else f"loss_{given.peer}",
        options_of(given),
        lambda options: measure(options, given.corpus, chosen),
    )


if __name__ == "__main__":
    sys.exit(guard(main))
