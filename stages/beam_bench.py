"""Stage beam_bench: sampling, greedy decoding and beam search on evaluation stories; quality and speed."""

import sys

from tinylm.base import paths
from tinylm.base.command import run_command
from tinylm.base.files import write_csv
from tinylm.bench import beam
from tinylm.model.checkpoint import check_vocabulary
from tinylm.params.stage import Stage
from tinylm.run.downloaded import Downloaded
from tinylm.run.result_files import read_stage
from tinylm.storybook.check import world_of
from tinylm.vocab.open_tokenizer import open_tokenizer
from tinylm.vocab.token_store import TokenStore


def main() -> None:
    stage = Stage("beam_bench")
    params = stage.params
    settings = params.beam_bench
    stage.begin(params.decode.seed)
    check_vocabulary(paths.MODELS, paths.TOKENIZER)

    tokenizer = open_tokenizer(paths.TOKENIZER)
    evaluation = TokenStore(paths.TOKENS, "evaluation")
    corpus = read_stage(Downloaded, "download")
    world = world_of(corpus.source, corpus.path, digest=corpus.world)
    prompts = beam.choose_bench_prompts(evaluation, settings, tokenizer.sos_id, world)
    tasks = beam.make_tasks(settings, params.decode, params.cache.slide, prompts, params.runtime)
    result = beam.run_bench(tasks, prompts, tokenizer)
    stage.conditions["step"] = result.step
    write_csv(paths.BEAM_TEXTS, beam.OutputRow._fields, beam.side_by_side(result))
    write_csv(paths.plot("beam_bench"), beam.PLOT_COLUMNS, beam.plotted_speeds(result))
    stage.write(beam.results_of(result), beam.metrics_of(result), beam.times_of(result))


if __name__ == "__main__":
    sys.exit(run_command(main))
