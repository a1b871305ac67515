"""The five parts of stage evaluate: loss, baselines, continuations, minimal pairs and attention."""

import dataclasses
from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd
import torch

from tinylm.base import paths
from tinylm.base.files import atomic_write, read_json
from tinylm.decoding.settings import DecodeSettings
from tinylm.evaluate.attention_maps import write_maps
from tinylm.evaluate.baselines import baselines, count_ngrams, less_than_ngrams
from tinylm.evaluate.continuations import (
    Continuer,
    evaluation_prompts,
    measure_samples,
    samples_over_training,
)
from tinylm.evaluate.heads import measure_heads
from tinylm.evaluate.memorised import measure_memorised
from tinylm.evaluate.minimal_pairs import judge_pairs, untrained_like
from tinylm.evaluate.ngram import KneserNey
from tinylm.evaluate.sense import judge_samples, sense_over_training
from tinylm.evaluate.settings import EvaluateSettings, Metrics
from tinylm.evaluate.split_score import score_split
from tinylm.model.checkpoint import check_vocabulary, load_checkpoints, load_model
from tinylm.model.transformer import TinyLM
from tinylm.vocab.matrix_file import load_matrix
from tinylm.vocab.prompts import Prompt
from tinylm.vocab.token_store import TokenStore
from tinylm.vocab.tokenizer import Tokenizer, open_tokenizer

# (metrics, tables by the name of their CSV file); a table is a data frame or a list of rows
Part = tuple[Metrics, dict[str, Any]]


@dataclasses.dataclass(frozen=True)
class TrainedRun:
    """A trained model with its data, and the n-gram models that it is compared with.

    checkpoints: (epochs, model) of the untrained model, of each of `train.keep_epochs`, and of the
    trained model, whose epochs are None.
    vectors (V, D): input embeddings before training. corpus: the results of stage download.
    """

    model: TinyLM
    layout: str
    checkpoints: list[tuple[float | None, TinyLM]]
    tokenizer: Tokenizer
    train: TokenStore
    evaluation: TokenStore
    vectors: np.ndarray
    prompts: list[Prompt]
    corpus: Metrics
    ngrams: KneserNey
    unigrams: KneserNey


def load_trained_run(settings: EvaluateSettings, device: torch.device) -> TrainedRun:
    """The trained model and all other inputs of stage evaluate.

    Raises InputError if a file is missing or does not fit the model.
    """
    model, config = load_model(paths.MODELS, device)
    check_vocabulary(paths.MODELS, paths.TOKENIZER)
    layout = config["layout"]
    tokenizer = open_tokenizer(paths.TOKENIZER)
    train = TokenStore(paths.TOKENS, "train")
    evaluation = TokenStore(paths.TOKENS, "evaluation")
    vectors = load_matrix(paths.EMBEDDING)
    untrained = untrained_like(model, vectors, settings.seed)
    return TrainedRun(
        model=model,
        layout=layout,
        checkpoints=[(0.0, untrained), *load_checkpoints(paths.MODELS, device), (None, model)],
        tokenizer=tokenizer,
        train=train,
        evaluation=evaluation,
        vectors=vectors,
        prompts=evaluation_prompts(evaluation, tokenizer, settings),
        corpus=read_json(paths.results("download"), "download"),
        ngrams=count_ngrams(train, layout, settings.ngram_order),
        unigrams=count_ngrams(train, layout, 1),
    )


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
    training = samples_over_training(run.checkpoints, run.tokenizer, run.prompts, settings, decode)
    tables["training_samples"] = training
    metrics["memorised"], tables["memorised"] = measure_memorised(
        samples, run.tokenizer, run.train, settings
    )
    if run.corpus["source"] == "storybook" and settings.prompts == "starts":
        sense, tables["sense"] = judge_samples(samples, settings)
        metrics["sense"] = sense | {"training": sense_over_training(training, settings)}
    return metrics, tables


def measure_pairs(run: TrainedRun, settings: EvaluateSettings) -> Part:
    """Minimal pairs of grammar and meaning."""
    pairs, table = judge_pairs(
        run.tokenizer,
        run.train,
        run.ngrams,
        run.unigrams,
        run.model,
        run.checkpoints[0][1],
        settings.seed,
    )
    return {"pairs": pairs}, {"pairs": table}


def measure_attention(run: TrainedRun, settings: EvaluateSettings) -> Part:
    """Roles and contribution of the heads; writes the attention maps of some sentences."""
    tokenizer = run.tokenizer
    checkpoints = run.checkpoints
    sentences = settings.attention_sentences
    tokens = list(map(tokenizer.shown, range(len(tokenizer))))
    write_maps(run.model, checkpoints[1:-1], tokens, run.evaluation, sentences)
    heads, tables = measure_heads(run.model, tokenizer, run.evaluation, run.vectors, settings)
    return {"heads": heads}, tables


def write_tables(tables: Mapping[str, Any]) -> None:
    """Write each table to data/evaluate/NAME.csv, with five decimals."""
    for name, table in tables.items():
        with atomic_write(paths.evaluated(f"{name}.csv")) as handle:
            pd.DataFrame(table).to_csv(handle, index=False, float_format="%.5f")
