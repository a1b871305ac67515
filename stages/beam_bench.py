"""Stage beam_bench: sampling, greedy decoding and beam search on evaluation stories; quality and speed."""

import dataclasses
import sys

from tinylm.base import paths
from tinylm.base.files import read_json, write_csv, write_sums
from tinylm.bench import beam, measure
from tinylm.decoding.settings import DecodeSettings
from tinylm.host.command import guard
from tinylm.host.params import stage_params
from tinylm.host.stage import Stage
from tinylm.model.checkpoint import check_vocabulary
from tinylm.vocab.token_store import TokenStore
from tinylm.vocab.tokenizer import open_tokenizer

COLUMNS = ("prompt", "reference", "method", "text", "log_prob", "score")


def main() -> None:
    stage = Stage("beam_bench", stage_params())
    measure.start_server(beam.__name__)
    settings = stage.settings("beam_bench", beam.BeamBenchSettings)
    decode = stage.settings("decode", DecodeSettings)
    stage.begin(decode.seed)
    config = read_json(paths.MODEL_CONFIG, "train")
    beam.check_widths(settings, config["vocab_size"])
    check_vocabulary(paths.MODELS, paths.TOKENIZER)
    tokenizer = open_tokenizer(paths.TOKENIZER)
    evaluation = TokenStore(paths.TOKENS, "evaluation")
    prompts = beam.story_prompts(evaluation, settings, tokenizer.sos_id)
    judged = []
    if (
        read_json(paths.results("download"), "download")["source"] == "storybook"
    ):  # whose generator can tell
        judged = beam.story_prompts(
            evaluation, dataclasses.replace(settings, prompts=beam.JUDGED), tokenizer.sos_id
        )
    tasks = beam.make_tasks(
        settings, decode, prompts=[prompt.ids for prompt in prompts], judged=[prompt.ids for prompt in judged],
        model=paths.MODELS, tokenizer=paths.TOKENIZER, device=stage.runtime.device, threads=stage.runtime.threads,
    )  # fmt: skip
    measured, failed = measure.split_failures("beam_bench", beam.run(tasks))
    texts = {
        result["setting"]: beam.table(result, prompts, tokenizer, decode.length_penalty)
        for result in measured
    }
    stated = beam.conditions(settings, decode)
    methods = {}
    greedy = next((result for result in measured if result["setting"] == "greedy"), None)
    for result in measured:
        quality = beam.quality(result, texts[result["setting"]]) | beam.judge(
            result, tasks[0], tokenizer
        )
        compared = beam.against_greedy(result, greedy, decode.seed) if greedy else {}
        methods[result["setting"]] = stated | quality | compared
    side_by_side = [
        [row[column] for column in COLUMNS] for rows in zip(*texts.values()) for row in rows
    ]
    write_csv(paths.BEAM_TEXTS, COLUMNS, side_by_side)
    write_sums(paths.BEAM_BENCH)
    results = {"prompts": len(prompts), "new_tokens": settings.new_tokens, "methods": methods}
    widest = methods.get(f"beam {max(settings.widths)}", {})
    rows, missing = measure.records(measured, ("setting",), measure.with_spread(beam.FIGURES))
    speeds = {row.pop("setting"): stated | row for row in rows}
    widths = {task.name: task.width or 1 for task in tasks}
    plotted = [
        (name, widths[name], series, row[metric])
        for metric, series in (
            ("tokens_per_s", "one prompt"),
            ("batch_tokens_per_s", "all prompts at once"),
        )
        for name, row in speeds.items()
    ]
    tables = {paths.plot("beam_bench_time"): [("method", "width", "series", "value"), *plotted]}
    times = {
        "methods": speeds,
        "not_measured": failed + missing,
    }
    log_prob = widest.get("log_prob_per_token")
    stage.write(results, {"log_prob": log_prob}, times, tables)


if __name__ == "__main__":
    sys.exit(guard(main))
