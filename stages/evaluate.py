"""Stage evaluate: perplexity and baselines on the evaluation split, continuations, BLEU, attention."""

import sys
import time

import numpy as np
import pandas as pd

from tinylm.command import guard, stage_time
from tinylm.config import PARAMS_FILE, InputError, load_params, read_section
from tinylm.decoding.settings import DecodeSettings
from tinylm.files import atomic_path, atomic_write, read_json, write_json
from tinylm.model.storage import check_vocabulary, load_model
from tinylm.runtime import RuntimeSettings, conditions, pick_device
from tinylm.scoring.attention_maps import attention_maps, head_table, opening_sentences, whole_stories
from tinylm.scoring.baselines import baselines, floor
from tinylm.scoring.continuations import EvaluateSettings, continue_stories, summarise
from tinylm.scoring.split_score import score_split
from tinylm.seeding import seed_everything
from tinylm.text.prompts import choose_prompts
from tinylm.text.token_store import TokenStore
from tinylm.text.words import Tokenizer

TABLE = ["prompt", "reference", "continuation", "perplexity", "reference_perplexity", "bleu", "finished"]


def main() -> None:
    start = time.perf_counter()
    params = load_params()
    settings = read_section(params, "evaluate", EvaluateSettings)
    decode = read_section(params, "decode", DecodeSettings)
    runtime = read_section(params, "runtime", RuntimeSettings)
    device = pick_device(runtime.device)
    seed_everything(settings.seed, runtime.threads)
    model, config = load_model("models", device)
    check_vocabulary("models", "data/vocab/tokenizer.json")
    tokenizer = Tokenizer.from_file("data/vocab/tokenizer.json")
    train, evaluation = (TokenStore("data/tokens", split) for split in ("train", "evaluation"))

    cut = settings.new_tokens if settings.reference == "cut" else None
    prompts = choose_prompts(evaluation, settings.stories, settings.prompt_tokens, cut)
    if not prompts:
        allowed = "fewer than the words of the longest evaluation story"
        raise InputError(f"{PARAMS_FILE}: evaluate.prompt_tokens = {settings.prompt_tokens}; allowed: {allowed}")
    scored = score_split(model, tokenizer, evaluation, config["layout"], "data/stories", settings)
    scored["baselines"] = baselines(train, evaluation, config["layout"], settings.ngram_order)
    log_prob = read_json("metrics/download.json", "download")["splits"]["evaluation"].get("log_prob_nats")
    if log_prob is not None and not scored["unknown_share"]:  # the generator's words, not <unk>
        scored["baselines"]["floor"] = floor(log_prob, evaluation, config["layout"])

    rows = continue_stories(model, tokenizer, prompts, settings, decode)
    scored["samples"], sentences = summarise(rows, settings)
    table = pd.DataFrame(rows).assign(bleu=sentences)[TABLE]
    with atomic_write("data/evaluate/samples.csv") as handle:
        table.to_csv(handle, index=False, float_format="%.4f")

    context = model.settings.context
    arrays: dict[str, np.ndarray] = {}
    for number, ids in enumerate(opening_sentences(evaluation, settings.attention_sentences, context), start=1):
        arrays[f"words_{number}"] = np.array([tokenizer.words[i] for i in ids])
        arrays[f"maps_{number}"] = attention_maps(model, ids)
    with atomic_path("data/evaluate/attention.npz") as temporary:
        np.savez(temporary, **arrays)  # type: ignore[arg-type]
    stories = whole_stories(evaluation, settings.tendency_sentences, context)
    heads = head_table(model, stories, [tokenizer.sos_id, tokenizer.eos_id])
    with atomic_write("data/evaluate/heads.csv") as handle:
        pd.DataFrame(heads).to_csv(handle, index=False, float_format="%.5f")

    write_json("metrics/evaluate.json", scored)
    stage_time("evaluate", start, conditions(device, runtime.threads))
    ngram = scored["baselines"]["kneser_ney"]["perplexity"]
    print(f"evaluation perplexity {scored['perplexity']:.3f}; Kneser-Ney of order {settings.ngram_order}: {ngram:.3f}")


if __name__ == "__main__":
    sys.exit(guard(main))
