"""Stage seeds: the spread over the runs of all seeds; without further seeds, the figures of the one run."""

import csv
import math
import sys
from typing import Any

from tinylm.base import paths
from tinylm.base.files import check_sums, keep_only, read_json, require, write_csv
from tinylm.bench import seeds
from tinylm.bench.measure import SeedSettings
from tinylm.host.command import guard
from tinylm.host.params import stage_params
from tinylm.host.stage import Stage
from tinylm.host.times import read_times


def held_out_curve() -> list[tuple[float, float, float]]:
    """(update, tokens, nats per token) of stage train."""
    with open(require(paths.plot("loss"), "train"), encoding="utf-8", newline="") as handle:
        rows = [row for row in csv.DictReader(handle) if row["series"] == "held-out"]
    return [(float(row["step"]), float(row["tokens"]), float(row["value"])) for row in rows]


def held_out_loss(trained: dict[str, Any]) -> float:
    """Nats per token of the saved weights."""
    return math.log(trained["held_out_perplexity"])


def main() -> None:
    stage = Stage("seeds", stage_params())
    more = stage.settings("seeds", SeedSettings).more
    trained = read_json(paths.results("train"), "train")
    first = trained["seed"]
    score = read_json(paths.seed_score("train"), "evaluate")
    by_seed = {first: score | {"held_out_loss": held_out_loss(trained)}}
    curves = {first: held_out_curve()}
    costs = {}
    for seed in more:
        check_sums(f"{paths.seed_run(seed)}/run.json", f"seed_train@{seed}")
        run = read_json(f"{paths.seed_run(seed)}/run.json")
        score = read_json(paths.seed_score(seed), f"seed_score@{seed}")
        by_seed[seed] = score | {"held_out_loss": held_out_loss(run["figures"])}
        curves[seed] = run["held_out"]
        if timed := read_times(f"seed_{seed}", "seed_train", f"{paths.seed_run(seed)}/run.json"):
            costs[seed] = timed
    keep_only(paths.SEEDS, {"train", *map(str, more)})
    merged = seeds.merge(by_seed)
    mean, spread = merged["perplexity"]["mean"], merged["perplexity"].get("sd")
    metrics = {"perplexity": mean}
    if spread is not None:
        metrics["sd"] = spread
    write_csv(paths.plot("seeds"), ("step", "tokens", "series", "value"), seeds.curves(curves))
    stage.write(merged, metrics, {"settings": costs})
    over = (
        f" ± {spread:.3f} over {len(by_seed)} seeds"
        if spread is not None
        else f", seed {first} alone"
    )
    print(f"evaluation perplexity {mean:.3f}{over}")


if __name__ == "__main__":
    sys.exit(guard(main))
