"""Stage accum_sweep: one short training run for each number of mini-batches per update."""

import sys

from tinylm.base import paths
from tinylm.base.command import run_command
from tinylm.base.files import write_csv
from tinylm.bench import accum
from tinylm.params.stage import Stage
from tinylm.vocab.open_tokenizer import open_tokenizer

PLOTS = {  # horizontal axis: the plot's file
    "micro_step": "accum_micro_steps",
    "update": "accum_updates",
    "tokens": "accum_tokens",
}


def main() -> None:
    stage = Stage("accum_sweep")
    params = stage.params
    stage.begin(params.train.seed)
    tokenizer = open_tokenizer(paths.TOKENIZER)
    sweep = params.accum_sweep
    tasks = accum.make_tasks(sweep, params.model, params.train, tokenizer, params.runtime)
    result = accum.run_bench(tasks, tokenizer)
    for axis, rows in accum.plotted_losses(result).items():
        write_csv(paths.plot(PLOTS[axis]), (axis, "series", "value"), rows)
    times = accum.times_of(result)
    stage.write(accum.results_of(result), accum.metrics_of(times, sweep), times)


if __name__ == "__main__":
    sys.exit(run_command(main))
