"""Stage kv_bench: greedy decoding of batches with and without the cache; equal ids, time and memory."""

import sys
import time

from tinylm.base import paths
from tinylm.base.config import read_section
from tinylm.base.files import read_json
from tinylm.base.machine import pick_device
from tinylm.base.results import write_results
from tinylm.base.seeding import seed_everything
from tinylm.bench import kv, measure
from tinylm.decoding.settings import DecodeSettings
from tinylm.host.command import guard
from tinylm.host.runtime import RuntimeSettings, conditions, in_words
from tinylm.host.times import stage_time
from tinylm.model.checkpoint import check_vocabulary
from tinylm.presets.sections import stage_params
from tinylm.vocab.token_store import TokenStore
from tinylm.vocab.tokenizer import open_tokenizer

MEMORY = ("cache_mib", "peak_mib", "process_mib")


def main() -> None:
    start = time.perf_counter()
    measure.start_server(kv.__name__)
    params = stage_params()
    settings = read_section(params, "kv_bench", kv.KvBenchSettings)
    decode = read_section(params, "decode", DecodeSettings)
    runtime = read_section(params, "runtime", RuntimeSettings)
    measured_on = conditions(pick_device(runtime.device), runtime.threads)
    seed_everything(decode.seed, runtime.threads)
    tokenizer = open_tokenizer(paths.TOKENIZER)
    context = read_json(paths.MODEL_CONFIG, "train")["model"]["context"]
    check_vocabulary(paths.MODELS, paths.TOKENIZER)
    prompts = kv.choose_batch(
        TokenStore(paths.TOKENS, "evaluation"), settings, context, tokenizer.sos_id
    )
    print(f"conditions: {in_words(measured_on)}")

    tasks = kv.make_tasks(
        settings, prompts, model=paths.MODELS, decode=decode, eos_id=tokenizer.eos_id,
        device=runtime.device, threads=runtime.threads,
    )  # fmt: skip
    measured, failed = measure.split_failures("kv_bench", kv.run(tasks, context, settings.repeats))
    compared, ties = kv.compare(measured, tasks[0])
    figures = (*measure.with_spread(kv.TIMES), *MEMORY)
    rows, missing = measure.records(
        measured, ("new_tokens", "rows", "cache", "past_context"), figures
    )
    same = not ties if compared else None  # any other difference has failed the stage
    found = [{"new_tokens": length, "rows": size} for length, size in compared]
    write_results(
        "kv_bench",
        {"batch": len(prompts), "same_ids": same, "compared": found, "ties": ties},
        same=same,
    )
    by_length = [row for row in rows if row["rows"] == len(prompts)]
    plotted = [
        (row["new_tokens"], "cache" if row["cache"] else "no cache", row["tokens_per_s"])
        for row in by_length
    ]
    tables = {paths.plot("kv_bench_time"): [("new_tokens", "series", "value"), *plotted]}
    smaller = [row for row in rows if row not in by_length]
    known = {
        "settings": by_length,
        "smaller": smaller,
        "not_measured": failed + missing,
        "measured": kv.MEASURED,
    }
    stage_time("kv_bench", start, measured_on, known, tables)


if __name__ == "__main__":
    sys.exit(guard(main))
