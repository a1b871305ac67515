"""What stage evaluate measures of the loss and of continuations, and how it writes its tables."""

from collections.abc import Mapping
from typing import Any

import pandas as pd

from tinylm.base import paths
from tinylm.base.files import atomic_write
from tinylm.decoding.settings import DecodeSettings
from tinylm.evaluate.baselines import baselines, less_than_ngrams
from tinylm.evaluate.continuations import Continuer, measure_samples, samples_over_training
from tinylm.evaluate.memorised import measure_memorised
from tinylm.evaluate.sense import judge_samples, sense_over_training
from tinylm.evaluate.settings import EvaluateSettings, Metrics, Part
from tinylm.evaluate.split_score import score_split
from tinylm.evaluate.trained_run import TrainedRun


def measure_loss(run: TrainedRun, settings: EvaluateSettings) -> Part:
    """Perplexity and bits per byte of the split and its stories, and of the baselines."""
    metrics, stories, once = score_split(
        run.model, run.tokenizer, run.evaluation, run.layout, paths.STORIES, settings
    )
    floor = run.corpus["splits"]["evaluation"].get("log_prob_nats")
    if metrics["unknown_share"]:  # the generator scores the words behind <unk>, the model does not
        floor = None
    metrics["baselines"] = baselines(run.evaluation, run.layout, run.ngrams, run.unigrams, floor)
    metrics["baselines"]["kneser_ney"]["difference"] = less_than_ngrams(
        once, run.evaluation, run.layout, run.ngrams, settings
    )
    return metrics, {"stories": stories}


def measure_continuations(
    run: TrainedRun, settings: EvaluateSettings, decode: DecodeSettings
) -> Part:
    """Perplexity, BLEU, variety, memorisation and sense of samples.

    Sense is judged only if the corpus is the storybook and prompts are starts of stories.
    """
    continuer = Continuer(run.model, run.tokenizer, settings)
    metrics: Metrics = {}
    tables: dict[str, Any] = {}
    samples = continuer.samples(run.prompts, decode)
    metrics["samples"], tables["samples"] = measure_samples(samples, settings, decode)
    if settings.greedy:
        tables["greedy"] = continuer.greedy(run.prompts[: settings.greedy], decode)
    checkpoints = [(0.0, run.untrained), *run.checkpoints, (None, run.model)]
    training = samples_over_training(checkpoints, run.tokenizer, run.prompts, settings, decode)
    tables["training_samples"] = training
    metrics["memorised"], tables["memorised"] = measure_memorised(
        samples, run.tokenizer, run.train, settings
    )
    if run.corpus["source"] == "storybook" and settings.prompts == "starts":
        sense, tables["sense"] = judge_samples(samples, settings)
        metrics["sense"] = sense | {"training": sense_over_training(training, settings)}
    return metrics, tables


def write_tables(tables: Mapping[str, Any]) -> None:
    """Write each table to data/evaluate/NAME.csv, with five decimals."""
    for name, table in tables.items():
        with atomic_write(paths.evaluated(f"{name}.csv")) as handle:
            pd.DataFrame(table).to_csv(handle, index=False, float_format="%.5f")
