"""Stage ckpt_bench: gradient checkpointing; memory and time of two equal short runs."""

import sys

from tinylm.base import paths
from tinylm.base.command import run_command
from tinylm.base.files import write_csv
from tinylm.bench import ckpt
from tinylm.params.stage import Stage
from tinylm.vocab.open_tokenizer import open_tokenizer


def main() -> None:
    stage = Stage("ckpt_bench")
    params = stage.params
    stage.begin(params.train.seed)
    pad_id = open_tokenizer(paths.TOKENIZER).pad_id
    tasks = ckpt.make_tasks(params.ckpt_bench, params.model, params.train, pad_id, params.runtime)
    result = ckpt.run_bench(tasks, params.train)
    write_csv(paths.plot("ckpt_bench"), ckpt.PLOT_COLUMNS, ckpt.plotted_memory(result))
    times = ckpt.times_of(result)
    stage.write(ckpt.results_of(result), ckpt.metrics_of(times), times)


if __name__ == "__main__":
    sys.exit(run_command(main))
