"""Stage seeds: the spread over the runs of all seeds; with one seed, the metrics of that run."""

import shutil
import sys
from collections.abc import Collection
from pathlib import Path

from tinylm.base import paths
from tinylm.base.command import run_command
from tinylm.base.files import read_json, write_csv
from tinylm.bench import seeds
from tinylm.params.stage import Stage
from tinylm.run.result_files import read_stage
from tinylm.run.trained import Trained


def remove_other_seeds(more: Collection[int]) -> None:
    """Remove what earlier runs left of seeds that are no longer in `seeds.more`; a clone would lack it."""
    for path in Path(paths.seed_score("train")).parent.glob("*"):
        seed = path.name.removesuffix(".json")
        if seed.isdigit() and int(seed) not in more:
            shutil.rmtree(path) if path.is_dir() else path.unlink()


def main() -> None:
    stage = Stage("seeds")
    more = stage.params.seeds.more
    trained = read_stage(Trained, "train")
    remove_other_seeds(more)
    first = trained.seed
    scores = {first: seeds.score_of(trained.held_out_loss, "train", "evaluate")}
    curves = {first: seeds.first_curve()}
    for seed in more:
        run = read_json(f"{paths.seed_run(seed)}/run.json", f"seed_train@{seed}")
        scores[seed] = seeds.score_of(run["figures"]["held_out_loss"], seed, f"seed_score@{seed}")
        curves[seed] = run["held_out"]

    results = seeds.summarise(scores)
    write_csv(paths.plot("seeds"), ("step", "tokens", "series", "value"), seeds.curves(curves))
    stage.write(results)
    print(f"evaluation perplexity {seeds.shown_perplexity(results)}")


if __name__ == "__main__":
    sys.exit(run_command(main))
