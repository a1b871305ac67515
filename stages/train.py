"""Stage train: fit the model to the train split; write weights and curves."""

import contextlib
import sys

from tinylm.base import paths
from tinylm.base.files import write_sums
from tinylm.host.command import guard
from tinylm.host.loggers import open_logger
from tinylm.host.params import stage_params
from tinylm.host.processes import check_writable
from tinylm.host.stage import Stage
from tinylm.host.tables import format_description
from tinylm.model.describe import describe, summary
from tinylm.train.curves import write_curves
from tinylm.train.distributed import Group, in_ranks
from tinylm.train.preparation import prepare
from tinylm.train.settings import TrainSettings


def main() -> None:
    stage = Stage("train", stage_params())
    settings = stage.settings("train", TrainSettings)
    in_ranks(settings.processes, ["-m", "stages.train"], lambda group: fit(stage, settings, group))


def fit(stage: Stage, settings: TrainSettings, group: Group) -> None:
    """What each process of the run does; rank 0 writes all files."""
    if group.is_rank0:
        check_writable(paths.RUNS, paths.MODELS, paths.METRICS, paths.PLOTS)
    run = prepare(stage, settings, group, paths.TRAIN_RUN, "stages/train.py")
    print(run.summary())
    print(format_description(describe(run.model)))
    with run.alone(), contextlib.ExitStack() as stack:
        if group.is_rank0:
            logged = {f"model.{name}": value for name, value in stage.params["model"].items()}
            logged |= {f"train.{name}": value for name, value in stage.params["train"].items()}
            runtime = stage.runtime
            logger = stack.enter_context(
                open_logger(runtime.logger, paths.RUNS, runtime.log_every_s, logged)
            )
            result = run.train(logger, samples=True)
        else:
            run.train()
            return
        metrics = {key: getattr(run.settings, key) for key in ("seed", "precision", "compile")}
        metrics |= summary(run.model, settings.optimizer) | run.save(paths.MODELS, result)
        run.snapshots.copy_checkpoints(paths.MODELS)
        write_sums(paths.MODELS)
        write_curves(paths.PLOTS, result.curves)
        shown = {
            "held_out": metrics["held_out_perplexity"],
            "parameters": metrics["parameters"],
        }
        stage.write(metrics, shown, result.timing())
        run.snapshots.finish()


if __name__ == "__main__":
    sys.exit(guard(main))
