"""Stage kv_bench: greedy decoding of batches with and without the cache; equal ids, time and memory."""

import sys

from tinylm.base import paths
from tinylm.base.command import run_command
from tinylm.base.files import write_csv
from tinylm.bench import kv, measure
from tinylm.decoding.session import Step
from tinylm.model.checkpoint import check_vocabulary
from tinylm.params.stage import Stage
from tinylm.run.benches import Cache, CacheTimes
from tinylm.run.result_files import from_mapping
from tinylm.vocab.open_tokenizer import open_tokenizer
from tinylm.vocab.token_store import TokenStore


def main() -> None:
    stage = Stage("kv_bench")
    settings = stage.params.kv_bench
    stage.begin(kv.SEED)
    stage.conditions["step"] = Step.name
    tokenizer = open_tokenizer(paths.TOKENIZER)
    check_vocabulary(paths.MODELS, paths.TOKENIZER)
    evaluation = TokenStore(paths.TOKENS, "evaluation")
    prompts = kv.choose_batch(evaluation, settings, tokenizer.sos_id)
    eos_id = tokenizer.eos_id
    tasks = kv.make_tasks(
        settings,
        prompts,
        slide=stage.params.cache.slide,
        eos_id=eos_id,
        runtime=stage.params.runtime,
    )
    measured, failed = measure.run_trials(kv.BENCH, tasks)
    compared, ties = kv.compare(measured, tasks[0])
    rows = kv.BENCH.rows(measured)
    same = not ties if compared else None  # any other difference has failed the stage
    results = {
        "batch": len(prompts),
        "prompt_tokens": measure.PROMPT_TOKENS,
        "same_ids": same,
        "compared": compared,
        "ties": ties,
    }
    plotted = [
        (row["new_tokens"], "cache" if row["cache"] else "no cache", row["tokens_per_s"])
        for row in rows
    ]
    write_csv(paths.plot("kv_bench"), ("new_tokens", "series", "value"), plotted)
    profile = measure.in_own_process(kv.profile_task, tasks[-1])
    times = {"settings": rows, "profile": profile, "not_measured": failed, "trials": measure.TRIALS}
    metrics = measure.shown("kv", kv.longest(rows), "tokens_per_s", "speedup", "peak_mib")
    stage.write(from_mapping(Cache, results), metrics, from_mapping(CacheTimes, times))


if __name__ == "__main__":
    sys.exit(run_command(main))
