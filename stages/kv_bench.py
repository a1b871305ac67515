"""Stage kv_bench: greedy decoding of a batch with and without the cache; equal ids, time and memory."""

import sys
import time

from tinylm.base import paths
from tinylm.base.config import read_section
from tinylm.base.machine import pick_device
from tinylm.base.results import write_results
from tinylm.base.seeding import seed_everything
from tinylm.bench import kv, measure
from tinylm.decoding.settings import DecodeSettings
from tinylm.host.command import guard
from tinylm.host.runtime import RuntimeSettings, conditions, in_words
from tinylm.host.times import stage_time
from tinylm.model.settings import ModelSettings
from tinylm.presets.sections import stage_params
from tinylm.text.tokens.token_store import TokenStore
from tinylm.text.tokens.tokenizer import open_tokenizer

FIGURES = ("tokens_per_s", "first_token_s", "rest_s_per_token", "cache_mib", "peak_mib", "process_mib")


def main() -> None:
    start = time.perf_counter()
    measure.start_server(kv.__name__)
    params = stage_params()
    settings = read_section(params, "kv_bench", kv.KvBenchSettings)
    model = read_section(params, "model", ModelSettings)
    decode = read_section(params, "decode", DecodeSettings)
    runtime = read_section(params, "runtime", RuntimeSettings)
    measured_on = conditions(pick_device(runtime.device), runtime.threads)
    seed_everything(decode.seed, runtime.threads)
    tokenizer = open_tokenizer(paths.TOKENIZER)
    prompts = kv.choose_batch(TokenStore(paths.TOKENS, "evaluation"), settings, model, tokenizer.sos_id)
    print(f"conditions: {in_words(measured_on)}")

    tasks = kv.make_tasks(
        settings, model=model, decode=decode, prompts=prompts, eos_id=tokenizer.eos_id,
        embedding=paths.EMBEDDING, device=runtime.device, threads=runtime.threads,
    )  # fmt: skip
    measured, failed = measure.split_failures("kv_bench", kv.run(tasks))
    lengths, ties = kv.compare(measured, tasks[0])
    rows, missing = measure.records(measured, ("new_tokens", "cache", "past_context"), FIGURES)
    same = not ties if lengths else None  # any other difference has failed the stage
    figures = {"batch": len(prompts), "same_ids": same, "lengths": lengths, "ties": ties}
    write_results("kv_bench", figures, same=same)
    plotted = [(row["new_tokens"], "cache" if row["cache"] else "no cache", row["tokens_per_s"]) for row in rows]
    tables = {paths.plot("kv_bench_time"): [("new_tokens", "series", "value"), *plotted]}
    known = {"settings": rows, "not_measured": failed + missing, "measured": kv.MEASURED}
    stage_time("kv_bench", start, measured_on, known, tables)


if __name__ == "__main__":
    sys.exit(guard(main))
