"""Stage beam_bench: sampling, greedy decoding and beam search on evaluation stories; quality and speed."""

import itertools
import sys

from tinylm.base import paths
from tinylm.base.command import run_command
from tinylm.base.files import write_csv
from tinylm.bench import beam, measure
from tinylm.model.checkpoint import check_vocabulary
from tinylm.params.stage import Stage
from tinylm.run.benches import Beams, BeamTimes
from tinylm.run.downloaded import Downloaded
from tinylm.run.result_files import from_mapping, read_stage
from tinylm.vocab.open_tokenizer import open_tokenizer
from tinylm.vocab.token_store import TokenStore


def main() -> None:
    stage = Stage("beam_bench")
    settings = stage.params.beam_bench
    decode = stage.params.decode
    stage.begin(decode.seed)
    check_vocabulary(paths.MODELS, paths.TOKENIZER)

    tokenizer = open_tokenizer(paths.TOKENIZER)
    evaluation = TokenStore(paths.TOKENS, "evaluation")
    source = read_stage(Downloaded, "download").source
    prompts = beam.story_prompts(evaluation, settings, tokenizer.sos_id)
    judged = beam.judged_prompts(evaluation, settings, tokenizer.sos_id, source)
    tasks = beam.make_tasks(
        settings,
        decode,
        slide=stage.params.cache.slide,
        prompts=[prompt.ids for prompt in prompts],
        judged=[prompt.ids for prompt in judged],
        runtime=stage.params.runtime,
    )
    measured, failed = measure.run_trials(beam.BENCH, tasks)
    stage.conditions["step"] = measured[0]["step"]
    texts = []
    methods = {}
    for result in measured:
        texts.append(beam.texts_of(result, prompts, tokenizer, settings.length_penalty))
        metrics = beam.quality(result, texts[-1])
        if judged:
            metrics["possible"] = beam.judge(result, tasks[0], tokenizer)
            metrics["judged"] = len(judged)
        methods[result["setting"]] = metrics
    side_by_side = itertools.chain.from_iterable(zip(*texts, strict=True))
    write_csv(paths.BEAM_TEXTS, beam.Text._fields, side_by_side)
    results = {"prompts": len(prompts), "new_tokens": settings.new_tokens, "methods": methods}
    speeds = {row.pop("setting"): row for row in beam.BENCH.rows(measured)}
    header = ("method", "width", "series", "value")
    write_csv(paths.plot("beam_bench"), header, beam.plotted_speeds(speeds, tasks))
    times = {"methods": speeds, "not_measured": failed, "trials": measure.TRIALS}
    beams = {}
    for width in settings.widths:
        name = f"beam {width}"
        beams[width] = {**methods.get(name, {}), **speeds.get(name, {})}
    shown = measure.shown("beam", beams, "bleu4", "tokens_per_s")
    stage.write(from_mapping(Beams, results), shown, from_mapping(BeamTimes, times))


if __name__ == "__main__":
    sys.exit(run_command(main))
