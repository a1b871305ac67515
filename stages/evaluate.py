"""Stage evaluate: loss, continuations and attention on the evaluation split."""

import sys

from tinylm.base import paths
from tinylm.base.command import run_command
from tinylm.base.files import write_csv, write_json
from tinylm.evaluate import measurement
from tinylm.evaluate.graded_decoding import grade_decoding, plotted
from tinylm.evaluate.settings import SEED
from tinylm.evaluate.split_score import headline
from tinylm.evaluate.trained_run import load_trained_run
from tinylm.evaluate.truth import compared_stories, measure_truth
from tinylm.kernels.decoding.step import decoding_step
from tinylm.params.stage import Stage
from tinylm.run.evaluated import Evaluated


def main() -> None:
    stage = Stage("evaluate")
    settings = stage.params.evaluate
    decode = stage.params.decode
    device = stage.begin(SEED)
    run = load_trained_run(settings, device)
    stage.conditions["step"] = decoding_step(run.model).name

    print("evaluate 1/3: loss on the evaluation stories, with n-grams and generator", flush=True)
    loss, baselines, tables = measurement.measure_loss(run)
    compared = compared_stories(run)
    divergence, of_words = measure_truth(run, compared)
    print("evaluate 2/3: continuations", flush=True)
    decoding = None if compared.left_out else grade_decoding(run, compared.stories, decode)
    continued, samples = measurement.measure_continuations(
        run, settings, decode, stage.params.cache
    )
    print("evaluate 3/3: attention", flush=True)
    heads, of_heads = measurement.measure_attention(run)

    results = Evaluated(
        **vars(loss),
        baselines=baselines,
        truth=divergence,
        samples=continued.samples,
        memorised=continued.memorised,
        sense=continued.plausibility,
        heads=heads,
        decoding=decoding,
    )
    measurement.write_tables(tables | of_words | samples | of_heads)
    write_json(paths.seed_score("train"), headline(loss))
    rows = [tuple(row.values()) for row in of_words.get("truth_training", [])]
    write_csv(paths.plot("truth"), ("tokens", "series", "value"), rows)
    header = ("setting", "series", "value")
    write_csv(paths.plot("decoding"), header, plotted(decoding or {}))
    stage.write(results, {"evaluate": results.metrics()})
    for warning in results.warnings:
        print(f"warning: {warning}")
    once = results.scored_once or results
    print(
        f"evaluation perplexity {once.perplexity:.3f}; "
        f"Kneser-Ney: {baselines.kneser_ney.perplexity:.3f}"
    )


if __name__ == "__main__":
    sys.exit(run_command(main))
