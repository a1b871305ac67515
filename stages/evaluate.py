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
from tinylm.decoding.settings import DecodeSettings
from tinylm.host.command import guard
from tinylm.host.runtime import RuntimeSettings, conditions
from tinylm.host.times import stage_time
from tinylm.model.checkpoint import check_vocabulary, load_model, load_moments
from tinylm.presets.sections import stage_params
from tinylm.scoring.attention_maps import moment_arrays, opening_sentences, sentence_arrays, write_arrays
from tinylm.scoring.baselines import baselines, count_ngrams, floor
from tinylm.scoring.continuations import EvaluateSettings, evaluation_prompts, sample_stories
from tinylm.scoring.heads import measure_heads
from tinylm.scoring.memorised import measure_memorised
from tinylm.scoring.sense_methods import judge_methods, over_training
from tinylm.scoring.split_score import headline, score_split
from tinylm.text.tokens.token_store import TokenStore
from tinylm.text.tokens.tokenizer import open_tokenizer


def say(part: int, what: str) -> None:
    """Which of the five parts begins."""
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
    say(1, f"loss of {len(evaluation):,} evaluation stories")
    split = score_split(model, tokenizer, evaluation, config["layout"], paths.STORIES, settings)
    scored = split.figures
    say(2, f"n-grams of {len(train):,} train stories")
    ngrams = count_ngrams(train, config["layout"], settings.ngram_order)
    scored["baselines"] = baselines(train, evaluation, config["layout"], ngrams)
    corpus = read_json(paths.figures("download"), "download")
    log_prob = corpus["splits"]["evaluation"].get("log_prob_nats")
    if log_prob is not None and not scored["unknown_share"]:  # the generator's words, not <unk>
        scored["baselines"]["floor"] = floor(log_prob, evaluation, config["layout"])

    say(3, f"{len(prompts)} continuations: how good, how far from train stories, and whether they make sense")
    scored["samples"], tables, rows = sample_stories(model, tokenizer, prompts, settings, decode)
    scored["memorised"], tables["memorised"] = measure_memorised(rows, tokenizer, train, settings)
    if corpus["source"] == "storybook" and settings.prompts == "starts":  # whose generator can tell
        scored["sense"], tables["sense"] = judge_methods(model, tokenizer, prompts, rows, ngrams, settings, decode)
        samples = read_json(paths.MODEL_SAMPLES, "train")
        scored["sense"]["training"] = over_training(samples, settings.bootstrap, settings.seed)
    tables["stories"] = split.stories

    say(4, "attention maps")
    drawn = opening_sentences(evaluation, settings.attention_sentences, model.settings.context)
    write_arrays(paths.evaluated("attention.npz"), sentence_arrays(model, tokenizer.tokens, drawn))
    discard(*(paths.evaluated(name) for name in ("moments.npz", "greedy.csv", "sense.csv")))
    if moments := moment_arrays(load_moments(paths.MODELS, device), tokenizer.tokens, drawn[0]):
        write_arrays(paths.evaluated("moments.npz"), moments)
    say(5, "what each head attends to, and the loss without it")
    heads = measure_heads(model, tokenizer, evaluation, settings)
    scored["heads"] = heads.figures
    for name, rows in (tables | heads.tables()).items():
        with atomic_write(paths.evaluated(f"{name}.csv")) as handle:
            pd.DataFrame(rows).to_csv(handle, index=False, float_format="%.5f")

    write_sums(paths.EVALUATE)
    shown = {key: scored[key] for key in ("perplexity", "bits_per_byte")}
    if "sense" in scored:
        shown["sense"] = (scored["sense"]["methods"]["decode"]["words"] or {}).get("value")
    write_results("evaluate", scored, **shown, bleu4=scored["samples"]["bleu4"]["value"])
    write_json(paths.seed_score("train"), headline(scored), sealed=True)  # beside those of further seeds
    stage_time("evaluate", start, conditions(device, runtime.threads))
    model_once, ngram = scored.get("once", scored)["perplexity"], scored["baselines"]["kneser_ney"]["perplexity"]
    print(f"evaluation perplexity {model_once:.3f}; Kneser-Ney of order {settings.ngram_order}: {ngram:.3f}")


if __name__ == "__main__":
    sys.exit(guard(main))
