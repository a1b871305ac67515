"""Stage kv_bench: greedy decoding of batches with and without the cache; equal ids, time and memory."""

import sys

from tinylm.base import paths
from tinylm.base.command import run_command
from tinylm.base.files import write_csv
from tinylm.bench import kv
from tinylm.decoding.session import Step
from tinylm.model.checkpoint import check_vocabulary
from tinylm.params.stage import Stage
from tinylm.vocab.open_tokenizer import open_tokenizer
from tinylm.vocab.token_store import TokenStore


def main() -> None:
    stage = Stage("kv_bench")
    params = stage.params
    stage.begin(kv.SEED)
    stage.conditions["step"] = Step.name
    tokenizer = open_tokenizer(paths.TOKENIZER)
    check_vocabulary(paths.MODELS, paths.TOKENIZER)
    evaluation = TokenStore(paths.TOKENS, "evaluation")
    prompts = kv.choose_batch(evaluation, params.kv_bench, tokenizer.sos_id)
    tasks = kv.make_tasks(
        params.kv_bench, prompts, params.cache.slide, tokenizer.eos_id, params.runtime
    )
    result = kv.run_bench(tasks)
    write_csv(paths.plot("kv_bench"), kv.PLOT_COLUMNS, kv.plotted_speeds(result))
    times = kv.times_of(result)
    stage.write(kv.results_of(result), kv.metrics_of(times), times)


if __name__ == "__main__":
    sys.exit(run_command(main))
