"""Stage evaluate: perplexity and baselines on the evaluation split, continuations, BLEU, attention."""

import sys
import time

import pandas as pd

from tinylm.base import paths
from tinylm.base.config import read_section
from tinylm.base.files import atomic_write, discard, read_json, write_json, write_sums
from tinylm.base.machine import pick_device
from tinylm.base.results import write_results
from tinylm.base.seeding import seed_everything
from tinylm.bench.both_ways import samples_both_ways
from tinylm.decoding.settings import DecodeSettings
from tinylm.evaluate.attention_maps import map_arrays, opening_sentences, write_arrays
from tinylm.evaluate.baselines import baselines, count_ngrams
from tinylm.evaluate.continuations import EvaluateSettings, evaluation_prompts, sample_stories
from tinylm.evaluate.heads import heads_over_training, measure_heads
from tinylm.evaluate.memorised import measure_memorised
from tinylm.evaluate.minimal_pairs import judge_pairs, untrained_like
from tinylm.evaluate.sense_methods import judge_methods, over_training
from tinylm.evaluate.split_score import headline, score_split
from tinylm.host.command import guard
from tinylm.host.params import stage_params
from tinylm.host.runtime import RuntimeSettings, conditions
from tinylm.host.times import stage_time
from tinylm.model.checkpoint import check_vocabulary, load_model, load_moments
from tinylm.vocab.matrix_file import load_matrix
from tinylm.vocab.token_store import TokenStore
from tinylm.vocab.tokenizer import open_tokenizer


def _say(part: int, what: str) -> None:
    print(f"evaluate {part}/5: {what}", flush=True)


def main() -> None:
    start = time.perf_counter()
    params = stage_params()
    settings = read_section(params, "evaluate", EvaluateSettings)
    decode = read_section(params, "decode", DecodeSettings)
    runtime = read_section(params, "runtime", RuntimeSettings)
    device = pick_device(runtime.device)
    seed_everything(settings.seed, runtime.threads)
    model, config = load_model(paths.MODELS, device)
    check_vocabulary(paths.MODELS, paths.TOKENIZER)
    tokenizer = open_tokenizer(paths.TOKENIZER)
    train, evaluation = (TokenStore(paths.TOKENS, split) for split in ("train", "evaluation"))
    prompts = evaluation_prompts(evaluation, tokenizer, settings)
    _say(1, f"loss of {len(evaluation):,} evaluation stories")
    split = score_split(model, tokenizer, evaluation, config["layout"], paths.STORIES, settings)
    scored = split.figures
    _say(2, f"n-grams of {len(train):,} train stories")
    ngrams, unigrams = (
        count_ngrams(train, config["layout"], order) for order in (settings.ngram_order, 1)
    )
    corpus = read_json(paths.figures("download"), "download")
    log_prob = (
        None if scored["unknown_share"] else corpus["splits"]["evaluation"].get("log_prob_nats")
    )
    scored["baselines"] = baselines(evaluation, config["layout"], ngrams, unigrams, log_prob)

    _say(
        3,
        f"{len(prompts)} continuations: how good, how far from train stories, and whether they make sense",
    )
    scored["samples"], tables, rows = sample_stories(model, tokenizer, prompts, settings, decode)
    scored["cache"], both_ways = samples_both_ways(model, tokenizer, prompts, settings, decode)
    scored["memorised"], tables["memorised"] = measure_memorised(rows, tokenizer, train, settings)
    if corpus["source"] == "storybook" and settings.prompts == "starts":  # whose generator can tell
        scored["sense"], tables["sense"] = judge_methods(
            model, tokenizer, prompts, rows, ngrams, settings, decode
        )
        written = read_json(paths.MODEL_SAMPLES, "train")
        scored["sense"]["training"] = over_training(written, settings.bootstrap, settings.seed)

    _say(4, "which of two sentences is likelier")
    kept, vectors = [*load_moments(paths.MODELS, device)], load_matrix(paths.EMBEDDING)
    moments = [(0.0, untrained_like(model, vectors, settings.seed)), *kept, (None, model)]
    scored["pairs"], tables["pairs"] = judge_pairs(
        model,
        tokenizer,
        train,
        ngrams=ngrams,
        unigrams=unigrams,
        moments=moments,
        seed=settings.seed,
    )

    _say(
        5,
        "attention: maps, what each head attends to, now and in training, and the loss without it",
    )
    discard(*(paths.evaluated(name) for name in ("moments.npz", "greedy.csv", "sense.csv")))
    drawn = opening_sentences(evaluation, settings.attention_sentences, model.settings.context)
    for name, arrays in map_arrays(model, kept, tokenizer.tokens, drawn).items():
        write_arrays(paths.evaluated(f"{name}.npz"), arrays)
    heads = measure_heads(model, tokenizer, evaluation, vectors, settings)
    scored["heads"] = heads.figures
    tables["heads_training"] = heads_over_training(
        moments, tokenizer, evaluation, vectors, settings
    )
    for name, rows in (tables | heads.tables() | {"stories": split.stories}).items():
        with atomic_write(paths.evaluated(f"{name}.csv")) as handle:
            pd.DataFrame(rows).to_csv(handle, index=False, float_format="%.5f")

    write_sums(paths.EVALUATE)
    shown = {"perplexity": scored["perplexity"], "raw_bits": scored["raw_bits_per_byte"]}
    if "sense" in scored:
        shown["sense"] = (scored["sense"]["methods"]["decode"]["words"] or {}).get("value")
    write_results("evaluate", scored, **shown, bleu4=scored["samples"]["bleu4"]["value"])
    write_json(
        paths.seed_score("train"), headline(scored), sealed=True
    )  # beside those of further seeds
    stage_time("evaluate", start, conditions(device, runtime.threads), {"cache": both_ways})
    once, ngram = (
        figures["perplexity"]
        for figures in (scored.get("once", scored), scored["baselines"]["kneser_ney"])
    )
    print(
        f"evaluation perplexity {once:.3f}; Kneser-Ney of order {settings.ngram_order}: {ngram:.3f}"
    )


if __name__ == "__main__":
    sys.exit(guard(main))
