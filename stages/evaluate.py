"""Stage evaluate: loss, continuations and attention on the evaluation split."""

import sys

from tinylm.base import paths
from tinylm.base.command import run_command
from tinylm.base.files import write_csv, write_json
from tinylm.evaluate import measurement
from tinylm.evaluate.settings import SEED
from tinylm.evaluate.split_score import headline
from tinylm.evaluate.trained_run import load_trained_run
from tinylm.evaluate.truth import above_floor
from tinylm.kernels.decoding.step import decoding_step
from tinylm.params.stage import Stage


def main() -> None:
    stage = Stage("evaluate")
    settings = stage.params.evaluate
    decode = stage.params.decode
    device = stage.begin(SEED)
    run = load_trained_run(settings, device)
    stage.conditions["step"] = decoding_step(run.model).name

    print("evaluate 1/3: loss on the evaluation stories, with n-grams and generator", flush=True)
    results, tables = measurement.measure_loss(run)
    print("evaluate 2/3: continuations", flush=True)
    continuations, samples = measurement.measure_continuations(
        run, settings, decode, stage.params.cache
    )
    print("evaluate 3/3: attention", flush=True)
    attention, heads = measurement.measure_attention(run)

    results |= continuations | attention
    measurement.write_tables(tables | samples | heads)
    write_json(paths.seed_score("train"), headline(results))
    rows = [tuple(row.values()) for row in tables.get("truth_training", [])]
    write_csv(paths.plot("truth"), ("tokens", "series", "value"), rows)
    written = results["samples"]
    metrics = {
        "perplexity": results["perplexity"],
        "samples_perplexity": written["continuation_perplexity"]["value"],
        "samples_bleu": written["sentence_bleu"]["value"],
    }
    stage.write(results, {"evaluate": metrics | above_floor(results["truth"])})
    for warning in results["warnings"]:
        print(f"warning: {warning}")
    baseline = results["baselines"]["kneser_ney"]["perplexity"]
    scored_once = results.get("once", results)  # as the baselines are
    perplexity = scored_once["perplexity"]
    print(f"evaluation perplexity {perplexity:.3f}; Kneser-Ney: {baseline:.3f}")


if __name__ == "__main__":
    sys.exit(run_command(main))
