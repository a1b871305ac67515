"""Wall time to the evaluation loss that a tuned nanoGPT has after some horizons, counted from the command on.

1. nanoGPT: at each horizon every learning rate and dropout once; the best by held-out, then with further seeds.
2. tinylm: shares of the horizon, ascending, until the mean evaluation loss over the seeds is not above nanoGPT's, with
   each recipe; of those the quickest.
3. Race: both chosen runs again, in turn, one pair a seed; nanoGPT in each of its modes. These times count.

Every run is kept in a JSON when it ends; called again, only what is missing runs. The full thing takes hours.
"""

import argparse
import dataclasses
import itertools
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tinylm.base.config import InputError, parse_yaml
from tinylm.benchmarks.interleaved import spread
from tinylm.benchmarks.loss_data import CORPORA, default_corpus, prepare
from tinylm.benchmarks.loss_runs import Runs, Task
from tinylm.benchmarks.options import Options, add_options, options_of, run_line
from tinylm.benchmarks.record import Row, against
from tinylm.host.command import guard
from tinylm.presets.write import FOLDER

NAME = "loss"
TUNED_IN = "bf16+compile"
RECIPE = "tinystories-2m"  # chosen on held-out alone
RANDOM_STD = 0.02  # of 0.02, 0.05 and 0.2 the best on held-out
# Both chosen on held-out: of a dozen in runs of 0.1 M tokens, of ten in runs of 0.8 M.
SHORT = {"muon_lr": 0.08, "muon_beta": 0.8, "beta1": 0.7}
LONGER = {"muon_lr": 0.04, "muon_beta": 0.9, "beta1": 0.8, "batch_size": 32}
_OF_THE_SIZE = (
    "layout",
    "tokens",
    "validate_every",
    "sample_every",
    "layers",
    "heads",
    "feed_forward",
    "context",
    "width",
)
SHARES = (0.1, 0.15, 0.2, 0.25, 0.3, 0.4, 0.5, 0.6, 0.8, 1.0, 1.2)


def recipes_of(preset: str) -> tuple[dict[str, Any], ...]:
    """A preset's recipe with its vectors trained first, with random ones, which cost no time and more tokens, and with
    these at the rates that suit some hundred updates, and some hundred more: ours are tuned to the horizon as nanoGPT's
    is."""
    trained = recipe_of(preset)
    random = trained | {"embedding": {"source": "random", "std": RANDOM_STD}}
    return trained, random, *(random | {"train": random["train"] | rates} for rates in (SHORT, LONGER))


def recipe_of(preset: str) -> dict[str, Any]:
    """What a preset says of how to train, in sections train, model and embedding; size and budget left out."""
    said = parse_yaml((FOLDER / f"{preset}.yaml").read_text(encoding="utf-8"), preset)
    return {
        section: {key: value for key, value in said[section].items() if key not in _OF_THE_SIZE}
        for section in ("train", "model", "embedding")
    }


@dataclasses.dataclass(frozen=True)
class Plan:
    """horizons: tokens; lrs, dropouts: tried for nanoGPT; modes: of nanoGPT in the race, tuned in the first of them;
    recipes: changes of the complete preset's sections train, model, embedding on our side, each tried."""

    horizons: tuple[int, ...] = (500_000, 1_000_000, 2_000_000, 4_000_000)
    lrs: tuple[float, ...] = (1e-3, 2e-3, 4e-3)
    dropouts: tuple[float, ...] = (0.0, 0.1)
    seeds: tuple[int, ...] = (1, 2, 3)
    shares: tuple[float, ...] = SHARES
    modes: tuple[str, ...] = (TUNED_IN, "bf16")
    recipes: tuple[dict[str, Any], ...] = dataclasses.field(default_factory=lambda: recipes_of(RECIPE))
    race: bool = True


TINY = Plan((96,), (1e-3, 2e-3), (0.1,), (1,), (1.0,), ("bf16",), ({"embedding": {"source": "random"}},))


def _peer(plan: Plan, horizon: int, lr: float, dropout: float, seed: int) -> Task:
    asked = {"side": "nanoGPT", "tokens": horizon, "lr": lr, "dropout": dropout, "seed": seed}
    return asked | {"mode": plan.modes[0]}


def tune(runs: Runs, plan: Plan, horizon: int) -> list[Task]:
    """nanoGPT's tasks over the seeds, at the learning rate and dropout whose first seed is best on held-out."""
    first = [_peer(plan, horizon, *pair, plan.seeds[0]) for pair in itertools.product(plan.lrs, plan.dropouts)]
    best = min(first, key=lambda task: runs.do(task)["held_out"])
    return [best | {"seed": seed} for seed in plan.seeds]


def search(runs: Runs, plan: Plan, horizon: int, target: float) -> list[Task] | None:
    """Our tasks over the seeds that reach the target in the least time; None where no recipe does."""
    found = [tasks for recipe in plan.recipes if (tasks := fewest(runs, plan, recipe, horizon, target))]
    return min(found, key=lambda tasks: runs.mean(tasks, "seconds"), default=None)


def fewest(runs: Runs, plan: Plan, recipe: dict[str, Any], horizon: int, target: float) -> list[Task] | None:
    """A recipe's tasks over the seeds with the fewest tokens that reach the target; None where no share does.

    A share whose first seed misses by far more than seeds differ is not tried with the others.
    """
    for share in plan.shares:
        tokens = round(share * horizon)
        tasks: list[Task] = [{"side": "tinylm", "tokens": tokens, "seed": seed, **recipe} for seed in plan.seeds]
        if runs.do(tasks[0])["evaluation"] <= target + 0.02 and runs.mean(tasks, "evaluation") <= target:
            return tasks
    return None


def race(runs: Runs, plan: Plan, theirs: list[Task], ours: list[Task]) -> tuple[dict[str, Any], dict[str, Any], str]:
    """(our times, the peer's in its fastest mode, that mode's name); without a race the times of the search."""
    if not plan.race:
        return spread(_seconds(runs, ours)), spread(_seconds(runs, theirs)), f"nanoGPT {plan.modes[0]}"
    times: dict[str, list[float]] = {}
    for mine, his in zip(ours, theirs, strict=True):
        for name, task in [("tinylm", mine), *((mode, his | {"mode": mode}) for mode in plan.modes)]:
            times.setdefault(name, []).append(runs.do(task | {"race": True})["seconds"])
    fastest = min(plan.modes, key=lambda mode: spread(times[mode])["median"])
    return spread(times["tinylm"]), spread(times[fastest]), f"nanoGPT {fastest}"


def _seconds(runs: Runs, tasks: Sequence[Task]) -> list[float]:
    return [runs.do(task)["seconds"] for task in tasks]


def _row(runs: Runs, plan: Plan, horizon: int) -> Row:
    theirs = tune(runs, plan, horizon)
    target = runs.mean(theirs, "evaluation")
    chosen = f"lr {theirs[0]['lr']:g}, dropout {theirs[0]['dropout']:g}"
    what = f"wall time to nanoGPT's evaluation loss after {horizon / 1e6:g} M tokens, {target:.3f} ({chosen})"
    goal: dict[str, Any] = {"must": 1 / 3, "stretch": 1 / 5, "higher": False, "part": float(horizon)}
    ours = search(runs, plan, horizon, target)
    if ours is None:
        return Row(what, "s", None, spread(_seconds(runs, theirs)), "nanoGPT", note="not reached", **goal)
    mine, peer, name = race(runs, plan, theirs, ours)
    vectors = ours[0].get("embedding", {}).get("source", "trained")
    tokens = f"{ours[0]['tokens'] / 1e6:.3g} M, vectors {vectors}"
    reached = f"ours {runs.mean(ours, 'evaluation'):.3f} after {tokens}; seeds: {len(ours)}"
    return against(what, "s", mine, peer, name, note=reached, **goal)


def measure(options: Options, corpus: str, plan: Plan) -> list[Row]:
    """One row a horizon."""
    if options.nanogpt is None:
        raise InputError("loss: NANOGPT is not set; allowed: a clone of github.com/karpathy/nanoGPT")
    folder, shape = prepare(options, corpus)
    suffix = "-tiny" if options.tiny else ""
    runs = Runs(options.results.with_name(f"benchmarks-loss-{corpus}{suffix}.json"), options, folder, shape)
    return [_row(runs, plan, horizon) for horizon in plan.horizons]


def run(options: Options) -> list[Row]:
    """Wall time to nanoGPT's loss, with the plan as it stands in this file; nothing without NANOGPT."""
    if options.nanogpt is None:
        print("NANOGPT is not set: wall time to its loss was not measured", flush=True)
        return []
    return measure(options, "storybook" if options.tiny else default_corpus(), TINY if options.tiny else Plan())


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tinylm.benchmarks.loss", description=__doc__)
    add_options(parser)
    plan = Plan()
    parser.add_argument("--corpus", choices=CORPORA, default=default_corpus(), help="default %(default)s")
    parser.add_argument("--horizons", nargs="+", type=float, default=plan.horizons, help="tokens")
    parser.add_argument("--lrs", nargs="+", type=float, default=plan.lrs)
    parser.add_argument("--dropouts", nargs="+", type=float, default=plan.dropouts)
    parser.add_argument("--seeds", nargs="+", type=int, default=plan.seeds)
    parser.add_argument("--shares", nargs="+", type=float, default=plan.shares, help="of the horizon, for our side")
    parser.add_argument("--modes", nargs="+", default=plan.modes, help="of nanoGPT: bf16+compile, bf16, fp32")
    parser.add_argument(
        "--recipe",
        type=Path,
        nargs="+",
        help="JSON: changes of sections train, model and embedding, our side, each tried",
    )
    parser.add_argument("--no-race", dest="race", action="store_false", help="no timed pairs: times of the search")
    given = parser.parse_args()
    recipes = tuple(json.loads(path.read_text(encoding="utf-8")) for path in given.recipe or ()) or plan.recipes
    chosen = Plan(
        tuple(round(tokens) for tokens in given.horizons), tuple(given.lrs), tuple(given.dropouts),
        tuple(given.seeds), tuple(given.shares), tuple(given.modes), recipes, given.race,
    )  # fmt: skip
    options = options_of(given)
    run_line(NAME, lambda _: measure(options, given.corpus, chosen), options)


if __name__ == "__main__":
    sys.exit(guard(main))
