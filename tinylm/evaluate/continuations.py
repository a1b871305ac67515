"""The model continues texts of the evaluation split, and the continuations are scored."""

import dataclasses
import functools
from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from tinylm.base.config import PARAMS_FILE, InputError
from tinylm.decoding.sampling import Generation, generate
from tinylm.decoding.settings import DecodeSettings
from tinylm.decoding.texts import banned_ids
from tinylm.evaluate.bleu import corpus_bleu, score_texts
from tinylm.evaluate.diversity import distinct_n, repeated_share, repeated_shares
from tinylm.evaluate.scoring import perplexity, token_log_probs, with_interval
from tinylm.evaluate.settings import EvaluateSettings
from tinylm.evaluate.statistics import bootstrap_interval, mean, pooled_perplexity
from tinylm.kernels.decoding.step import decoding_step
from tinylm.model.transformer import TinyLM
from tinylm.vocab.prompts import Prompt, choose_prompts, cut_prompts
from tinylm.vocab.token_store import TokenStore
from tinylm.vocab.tokenizer import Tokenizer

TABLE = (
    "story",
    "prompt",
    "reference",
    "continuation",
    "perplexity",
    "reference_perplexity",
    "bleu",
    "finished",
)

Text = tuple[str, str, bool]  # prompt, continuation, whether it ended by itself
PROMPTS_IN_TRAINING = 20  # continued by each checkpoint


def evaluation_prompts(
    store: TokenStore, tokenizer: Tokenizer, settings: EvaluateSettings
) -> list[Prompt]:
    """The prompts that section `evaluate` sets, fewer if the split is short.

    A truncated reference runs past the ends of stories if the prompts are cut from the stream, or
    if the continuations do not stop at <eos>. Raises InputError if there is no prompt.
    """
    count = settings.stories
    tokens = settings.prompt_tokens
    new = settings.new_tokens
    if settings.prompts == "stream":
        prompts = cut_prompts(store, count, tokens, new, settings.seed)
        allowed = f"fewer than the evaluation split's {len(store.ids)} tokens"
    else:
        cut = new if settings.reference == "cut" else None
        across = not settings.stop_at_eos
        prompts = choose_prompts(store, count, tokens, cut, sos_id=tokenizer.sos_id, across=across)
        allowed = "fewer than the words of the longest whole evaluation story"
    if not prompts:
        raise InputError(f"{PARAMS_FILE}: evaluate.prompt_tokens = {tokens}; allowed: {allowed}")
    return prompts


def never_generated(tokenizer: Tokenizer, stop_at_eos: bool) -> list[int]:
    """Special ids that text never contains.

    If it continues past <eos>, the next story's <sos> may follow.
    """
    return [token for token in banned_ids(tokenizer) if stop_at_eos or token != tokenizer.sos_id]


def protocol(count: int, settings: EvaluateSettings, decode: DecodeSettings) -> str:
    """How the samples' metrics were obtained, in one sentence."""
    source = {
        "starts": "from the starts of evaluation stories",
        "stream": "cut at random places of the stream",
    }
    stop = "up to <eos>" if settings.stop_at_eos else "past any <eos>"
    across = settings.prompts == "stream" or not settings.stop_at_eos
    end = ", across stories" if across else " of the story"
    reference = {
        "whole": "the whole rest of the story",
        "cut": f"the next {settings.new_tokens} tokens{end}",
    }
    return (
        f"{count} prompts of {settings.prompt_tokens} tokens {source[settings.prompts]}, continued "
        f"by at most {settings.new_tokens} tokens {stop}, {decode.in_words()}, against "
        f"{reference[settings.reference]}."
    )


def _generate(
    model: TinyLM,
    tokenizer: Tokenizer,
    prompts: Sequence[Prompt],
    settings: EvaluateSettings,
    decode: DecodeSettings,
    stop_at_eos: bool,
    with_log_probs: bool,
) -> list[Generation]:
    """The prompts continued by the limits of section `evaluate`."""
    return generate(
        model,
        [prompt.ids for prompt in prompts],
        decode,
        max_new_tokens=settings.new_tokens,
        eos_id=tokenizer.eos_id,
        banned=never_generated(tokenizer, settings.stop_at_eos),
        with_log_probs=with_log_probs,
        stop_at_eos=stop_at_eos,
        step=decoding_step(model, decode),
    )


def continue_prompts(
    model: TinyLM,
    tokenizer: Tokenizer,
    prompts: Sequence[Prompt],
    settings: EvaluateSettings,
    decode: DecodeSettings,
) -> list[Text]:
    """Each prompt continued up to <eos> or the limit of section `evaluate`, as text."""
    generated = _generate(
        model, tokenizer, prompts, settings, decode, stop_at_eos=True, with_log_probs=False
    )
    texts = []
    for prompt, new in zip(prompts, generated, strict=True):
        texts.append((tokenizer.decode(prompt.ids), tokenizer.decode(new.ids), new.finished))
    return texts


def samples_over_training(
    checkpoints: Sequence[tuple[float | None, TinyLM]],
    tokenizer: Tokenizer,
    prompts: Sequence[Prompt],
    settings: EvaluateSettings,
    decode: DecodeSettings,
) -> list[dict[str, Any]]:
    """The first prompts continued by each checkpoint: epochs, prompt, text, finished.

    epochs is None at the end of training.
    """
    fastest = dataclasses.replace(decode, step="auto")
    rows = []
    for epochs, model in checkpoints:
        texts = continue_prompts(model, tokenizer, prompts[:PROMPTS_IN_TRAINING], settings, fastest)
        for prompt, text, finished in texts:
            rows.append({"epochs": epochs, "prompt": prompt, "text": text, "finished": finished})
    return rows


def continue_stories(
    model: TinyLM,
    tokenizer: Tokenizer,
    prompts: Sequence[Prompt],
    settings: EvaluateSettings,
    decode: DecodeSettings,
) -> list[dict[str, Any]]:
    """Continue each prompt by section `decode`: one row per prompt.

    A row has texts, nats and tokens of the continuation and the reference. Nats are those of the
    model's own distribution, before temperature and filters, over all tokens of either,
    `<eos>` included where the text ended.
    """
    rows = []
    generated = _generate(
        model, tokenizer, prompts, settings, decode, settings.stop_at_eos, with_log_probs=True
    )
    for prompt, new in zip(prompts, generated, strict=True):
        nats = -sum(new.log_probs)
        whole = [*prompt.ids, *prompt.reference]
        log_probs = token_log_probs(model, whole, len(prompt.ids), decode.slide)
        reference_nats = -float(log_probs.sum())
        row = {
            "story": prompt.story,
            "prompt": tokenizer.decode(prompt.ids),
            "reference": tokenizer.decode(prompt.reference),
            "continuation": tokenizer.decode(new.ids),
            "perplexity": perplexity(nats, len(new.ids)),
            "reference_perplexity": perplexity(reference_nats, len(log_probs)),
            "finished": new.finished,
            "nats": nats,
            "tokens": len(new.ids),
            "reference_nats": reference_nats,
            "reference_tokens": len(log_probs),
            "ids": new.ids,
            "reference_ids": prompt.reference,
        }
        rows.append(row)
    return rows


def continue_greedily(
    model: TinyLM,
    tokenizer: Tokenizer,
    prompts: Sequence[Prompt],
    settings: EvaluateSettings,
    decode: DecodeSettings,
) -> list[dict[str, Any]]:
    """The likeliest token at each step, one row per token: prompt, number from 1, probability.

    Probabilities are the model's own, over all ids. Past the context the window slides as section
    `decode` sets.
    """
    rows = []
    generated = _generate(
        model, tokenizer, prompts, settings, decode.greedy(), settings.stop_at_eos, True
    )
    for prompt, new in zip(prompts, generated, strict=True):
        text = tokenizer.decode(prompt.ids)
        tokens = zip(new.ids, new.log_probs, strict=True)
        for number, (token, log_prob) in enumerate(tokens, start=1):
            row = {
                "prompt": text,
                "number": number,
                "token": tokenizer.tokens[token],
                "probability": float(np.exp(log_prob)),
            }
            rows.append(row)
    return rows


def sample_stories(
    model: TinyLM,
    tokenizer: Tokenizer,
    prompts: Sequence[Prompt],
    settings: EvaluateSettings,
    decode: DecodeSettings,
) -> tuple[dict[str, Any], dict[str, Any], list[dict[str, Any]]]:
    """(metrics with their protocol, tables by name, rows of `continue_stories`).

    Tables: "samples" with the columns of TABLE, and "greedy" if section `evaluate` sets it.
    """
    rows = continue_stories(model, tokenizer, prompts, settings, decode)
    metrics, sentence_bleu = summarise(rows, settings)
    samples = pd.DataFrame(rows).assign(bleu=sentence_bleu)[list(TABLE)]
    tables: dict[str, Any] = {"samples": samples}
    if settings.greedy:
        first = prompts[: settings.greedy]
        tables["greedy"] = continue_greedily(model, tokenizer, first, settings, decode)
    return {"protocol": protocol(len(rows), settings, decode), **metrics}, tables, rows


def summarise(
    rows: Sequence[dict[str, Any]], settings: EvaluateSettings
) -> tuple[dict[str, Any], list[float]]:
    """Metrics over all continuations with 95 % bootstrap intervals, and each row's sentence BLEU.

    perplexity: exp of all nats over all tokens, and in addition the mean over rows. BLEU is over
    words split at white space, each continuation against its one reference.
    """
    from tinylm.evaluate.bleu_metric import Bleu  # needs a second to import

    texts = [row["continuation"] for row in rows]
    references = [row["reference"] for row in rows]
    perplexities = [row["perplexity"] for row in rows]
    bleu = Bleu().compute(predictions=texts, references=references, tokenize="none")
    counts, sentence_bleu = score_texts(texts, references, "none")
    metrics: dict[str, Any] = {
        "count": len(rows),
        "finished": sum(row["finished"] for row in rows),
        "mean_continuation_perplexity": with_interval(
            perplexities, mean, settings, float(np.mean(perplexities))
        ),
        "sentence_bleu": with_interval(sentence_bleu, mean, settings, bleu["sentence_bleu"]),
        "brevity_penalty": bleu["brevity_penalty"],
        "hypothesis_tokens": bleu["prediction_length"],
        "reference_tokens": bleu["reference_length"],
    }
    for name, prefix in (("continuation_perplexity", ""), ("reference_perplexity", "reference_")):
        table = pd.DataFrame(rows)[[f"{prefix}nats", f"{prefix}tokens"]].to_numpy(dtype=float)
        totals = np.array([table[:, 0].sum(), table[:, 1].sum()])
        pooled = float(pooled_perplexity(totals))
        metrics[name] = with_interval(table, pooled_perplexity, settings, pooled)
    for order in range(1, 5):
        name = f"bleu{order}"
        statistic = functools.partial(corpus_bleu, order=order)
        metrics[name] = with_interval(counts, statistic, settings, bleu[name])
    for prefix, side in (("", texts), ("reference_", references)):
        for n in (1, 2, 3):
            metrics[f"{prefix}distinct{n}"] = distinct_n(side, n)
        metrics[f"{prefix}repeated_4grams"] = repeated_share(side, 4)
        shares = np.array(repeated_shares(side, 4))
        if len(shares):
            interval = bootstrap_interval(shares, mean, settings.bootstrap, settings.seed)
            metrics[f"{prefix}repeated_4grams_interval"] = list(interval)
    return metrics, sentence_bleu
