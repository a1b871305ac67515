"""Stage evaluate: loss, baselines, continuations, minimal pairs and attention on evaluation stories."""

import sys

import pandas as pd

from tinylm.base import paths
from tinylm.base.files import atomic_write, discard, read_json, write_json, write_sums
from tinylm.decoding.settings import DecodeSettings
from tinylm.evaluate.attention_maps import write_maps
from tinylm.evaluate.baselines import baselines, count_ngrams
from tinylm.evaluate.continuations import evaluation_prompts, sample_stories, samples_over_training
from tinylm.evaluate.heads import heads_over_training, measure_heads
from tinylm.evaluate.memorised import measure_memorised
from tinylm.evaluate.minimal_pairs import judge_pairs, untrained_like
from tinylm.evaluate.sense import judge_methods, sense_over_training
from tinylm.evaluate.settings import EvaluateSettings
from tinylm.evaluate.split_score import headline, score_split
from tinylm.host.command import guard
from tinylm.host.params import stage_params
from tinylm.host.stage import Stage
from tinylm.model.checkpoint import check_vocabulary, load_checkpoints, load_model
from tinylm.vocab.matrix_file import load_matrix
from tinylm.vocab.token_store import TokenStore
from tinylm.vocab.tokenizer import open_tokenizer


def main() -> None:
    stage = Stage("evaluate", stage_params())
    settings = stage.settings("evaluate", EvaluateSettings)
    decode = stage.settings("decode", DecodeSettings)
    device = stage.begin(settings.seed)
    model, config = load_model(paths.MODELS, device)
    check_vocabulary(paths.MODELS, paths.TOKENIZER)
    layout = config["layout"]
    tokenizer = open_tokenizer(paths.TOKENIZER)
    train = TokenStore(paths.TOKENS, "train")
    evaluation = TokenStore(paths.TOKENS, "evaluation")
    corpus = read_json(paths.figures("download"), "download")
    vectors = load_matrix(paths.EMBEDDING)
    untrained = untrained_like(model, vectors, settings.seed)
    kept = list(load_checkpoints(paths.MODELS, device))
    checkpoints = [(0.0, untrained), *kept, (None, model)]
    prompts = evaluation_prompts(evaluation, tokenizer, settings)

    print("evaluate 1/5: loss of each evaluation story", flush=True)
    split = score_split(model, tokenizer, evaluation, layout, paths.STORIES, settings)
    results = split.metrics
    tables = {"stories": split.stories}

    print("evaluate 2/5: n-grams of the train stories", flush=True)
    ngrams = count_ngrams(train, layout, settings.ngram_order)
    unigrams = count_ngrams(train, layout, 1)
    own_nats = corpus["splits"]["evaluation"].get("log_prob_nats")
    log_prob = None if results["unknown_share"] else own_nats
    results["baselines"] = baselines(evaluation, layout, ngrams, unigrams, log_prob)

    print("evaluate 3/5: continuations", flush=True)
    results["samples"], samples, rows = sample_stories(model, tokenizer, prompts, settings, decode)
    tables |= samples
    tables["training_samples"] = samples_over_training(
        checkpoints, tokenizer, prompts, settings, decode
    )
    results["memorised"], tables["memorised"] = measure_memorised(rows, tokenizer, train, settings)
    if corpus["source"] == "storybook" and settings.prompts == "starts":
        results["sense"], tables["sense"] = judge_methods(
            model, tokenizer, prompts, rows, ngrams, settings, decode
        )
        results["sense"]["training"] = sense_over_training(tables["training_samples"], settings)

    print("evaluate 4/5: minimal pairs", flush=True)
    results["pairs"], tables["pairs"] = judge_pairs(
        tokenizer,
        train,
        ngrams=ngrams,
        unigrams=unigrams,
        checkpoints=checkpoints,
        seed=settings.seed,
    )

    print("evaluate 5/5: attention", flush=True)
    discard(*(paths.evaluated(name) for name in ("moments.npz", "greedy.csv", "sense.csv")))
    write_maps(model, kept, tokenizer.tokens, evaluation, settings.attention_sentences)
    results["heads"], heads = measure_heads(model, tokenizer, evaluation, vectors, settings)
    tables |= heads
    tables["heads_training"] = heads_over_training(
        checkpoints, tokenizer, evaluation, vectors, settings
    )
    for name, table in tables.items():
        with atomic_write(paths.evaluated(f"{name}.csv")) as handle:
            pd.DataFrame(table).to_csv(handle, index=False, float_format="%.5f")
    write_sums(paths.EVALUATE)
    write_json(paths.seed_score("train"), headline(results), sealed=True)
    metrics = {"perplexity": results["perplexity"], "bits_per_byte": results["bits_per_byte"]}
    if results["raw_bits_per_byte"] is not None:
        metrics["raw_bits"] = results["raw_bits_per_byte"]
    if "sense" in results:
        metrics["sense"] = (results["sense"]["methods"]["decode"]["words"] or {}).get("value")
    metrics["bleu4"] = results["samples"]["bleu4"]["value"]
    stage.write(results, metrics)
    baseline = results["baselines"]["kneser_ney"]["perplexity"]
    perplexity = results.get("once", results)["perplexity"]
    print(f"evaluation perplexity {perplexity:.3f}; Kneser-Ney: {baseline:.3f}")


if __name__ == "__main__":
    sys.exit(guard(main))
