"""The model continues texts of the evaluation split, and the continuations are scored."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from tinylm.base.config import PARAMS_FILE, InputError
from tinylm.decoding.sampling import generate
from tinylm.decoding.session import window_start
from tinylm.decoding.settings import DecodeSettings
from tinylm.decoding.texts import banned_ids
from tinylm.evaluate.diversity import distinct_n, repeated_share, repeated_shares
from tinylm.evaluate.perplexity import perplexity
from tinylm.evaluate.settings import EvaluateSettings
from tinylm.evaluate.statistics import bootstrap_interval, mean, pooled_perplexity
from tinylm.kernels.decoding.decoder import decoder_of
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


def evaluation_prompts(
    store: TokenStore, tokenizer: Tokenizer, settings: EvaluateSettings
) -> list[Prompt]:
    """The prompts that section `evaluate` asks for, fewer if the split is short; InputError if there is none.

    A truncated reference runs past the ends of stories if the prompts are cut from the stream, or if the
    continuations do not stop at <eos>.
    """
    count, tokens, new = settings.stories, settings.prompt_tokens, settings.new_tokens
    if settings.prompts == "stream":
        found = cut_prompts(store, count, tokens, new, settings.seed)
        allowed = f"fewer than the evaluation split's {len(store.ids)} tokens"
    else:
        cut = new if settings.reference == "cut" else None
        found = choose_prompts(
            store, count, tokens, cut, sos_id=tokenizer.sos_id, across=not settings.stop_at_eos
        )
        allowed = "fewer than the words of the longest whole evaluation story"
    if not found:
        raise InputError(f"{PARAMS_FILE}: evaluate.prompt_tokens = {tokens}; allowed: {allowed}")
    return found


def never_generated(tokenizer: Tokenizer, stop_at_eos: bool) -> list[int]:
    """Special ids that text never contains; if it continues past <eos>, the next story's <sos> may follow."""
    return [token for token in banned_ids(tokenizer) if stop_at_eos or token != tokenizer.sos_id]


def protocol(count: int, settings: EvaluateSettings, decode: DecodeSettings) -> str:
    """How the samples' figures were obtained, in one sentence."""
    where = {
        "starts": "from the starts of evaluation stories",
        "stream": "cut at random places of the stream",
    }
    stop = "up to <eos>" if settings.stop_at_eos else "past any <eos>"
    across = settings.prompts == "stream" or not settings.stop_at_eos
    reference = {
        "whole": "the whole rest of the story",
        "cut": f"the next {settings.new_tokens} tokens"
        + (", across stories" if across else " of the story"),
    }
    return (
        f"{count} prompts of {settings.prompt_tokens} tokens {where[settings.prompts]}, continued by at most "
        f"{settings.new_tokens} tokens {stop}, {decode.in_words()}, against {reference[settings.reference]}."
    )


@torch.no_grad()
def token_log_probs(model: TinyLM, ids: Sequence[int], first: int, slide: str) -> np.ndarray:
    """ln P of ids[first:], each given everything before it within the context.  -> (len(ids) - first,) float64

    Past the context the windows are those of decoding (`window_start`).
    """
    context, device = model.settings.context, model.embedding.device
    found: list[np.ndarray] = []
    n = first  # number of tokens before the one to score
    while n < len(ids):
        start = window_start(n, context, slide)
        end = n
        while end < len(ids) and window_start(end, context, slide) == start:
            end += 1
        window = torch.tensor([ids[start : end - 1]], device=device)
        hidden = model.hidden(window)[0, n - 1 - start :]  # the states that predict ids[n:end]
        scores = torch.log_softmax(model.logits(hidden).double(), dim=-1)
        chosen = scores.gather(1, torch.tensor(ids[n:end], device=device)[:, None])
        found.append(chosen[:, 0].cpu().numpy())
        n = end
    return np.concatenate(found) if found else np.empty(0)


def continue_stories(
    model: TinyLM,
    tokenizer: Tokenizer,
    prompts: Sequence[Prompt],
    settings: EvaluateSettings,
    decode: DecodeSettings,
) -> list[dict[str, Any]]:
    """Continue each prompt by section `decode`; one row per prompt, with texts, nats and tokens of both sides.

    Nats are those of the model's own distribution, before temperature and filters, over the continuation's tokens
    (`<eos>` included where it ended) and the reference's alike.
    """
    found = generate(
        model,
        [prompt.ids for prompt in prompts],
        decode,
        max_new_tokens=settings.new_tokens,
        eos_id=tokenizer.eos_id,
        banned=never_generated(tokenizer, settings.stop_at_eos),
        with_log_probs=True,
        stop_at_eos=settings.stop_at_eos,
        decoder=decoder_of(model, decode),
    )
    rows = []
    for prompt, new in zip(prompts, found, strict=True):
        true = token_log_probs(
            model, [*prompt.ids, *prompt.reference], len(prompt.ids), decode.slide
        )
        rows.append(
            {
                "story": prompt.story,
                "prompt": tokenizer.decode(prompt.ids),
                "reference": tokenizer.decode(prompt.reference),
                "continuation": tokenizer.decode(new.ids),
                "perplexity": perplexity(-sum(new.log_probs), len(new.ids)),
                "reference_perplexity": perplexity(-float(true.sum()), len(true)),
                "finished": new.finished,
                "nats": -sum(new.log_probs),
                "tokens": len(new.ids),
                "reference_nats": -float(true.sum()),
                "reference_tokens": len(true),
                "ids": new.ids,
                "reference_ids": prompt.reference,
            }
        )
    return rows


def continue_greedily(
    model: TinyLM,
    tokenizer: Tokenizer,
    prompts: Sequence[Prompt],
    settings: EvaluateSettings,
    decode: DecodeSettings,
) -> list[dict[str, Any]]:
    """The likeliest token at each step, one row per token: prompt, number from 1, token, its probability.

    Probabilities are the model's own, over all ids. Past the context the window slides as section `decode` says.
    """
    found = generate(
        model,
        [prompt.ids for prompt in prompts],
        decode.greedy(),
        max_new_tokens=settings.new_tokens,
        eos_id=tokenizer.eos_id,
        banned=never_generated(tokenizer, settings.stop_at_eos),
        with_log_probs=True,
        stop_at_eos=settings.stop_at_eos,
        decoder=decoder_of(model, decode),
    )
    return [
        {
            "prompt": tokenizer.decode(prompt.ids),
            "number": number,
            "token": tokenizer.tokens[token],
            "probability": float(np.exp(log_prob)),
        }
        for prompt, new in zip(prompts, found, strict=True)
        for number, (token, log_prob) in enumerate(
            zip(new.ids, new.log_probs, strict=True), start=1
        )
    ]


def sample_stories(
    model: TinyLM,
    tokenizer: Tokenizer,
    prompts: Sequence[Prompt],
    settings: EvaluateSettings,
    decode: DecodeSettings,
) -> tuple[dict[str, Any], dict[str, list[dict[str, Any]]], list[dict[str, Any]]]:
    """(figures with their protocol, tables, rows of `continue_stories`).

    Tables: "samples", rows of TABLE, and "greedy" if section `evaluate` asks for it.
    """
    rows = continue_stories(model, tokenizer, prompts, settings, decode)
    figures, sentences = summarise(rows, settings)
    scored = [row | {"bleu": bleu} for row, bleu in zip(rows, sentences, strict=True)]
    tables = {"samples": [{name: row[name] for name in TABLE} for row in scored]}
    if settings.greedy:
        tables["greedy"] = continue_greedily(
            model, tokenizer, prompts[: settings.greedy], settings, decode
        )
    return {"protocol": protocol(len(rows), settings, decode)} | figures, tables, rows


def summarise(
    rows: Sequence[dict[str, Any]], settings: EvaluateSettings
) -> tuple[dict[str, Any], list[float]]:
    """Figures over all continuations with 95 % bootstrap intervals, and each row's sentence BLEU.

    perplexity: exp of all nats over all tokens, and in addition the mean over rows. BLEU over words split at
    white space, each continuation against its one reference.
    """
    from tinylm.evaluate.bleu import Bleu
    from tinylm.evaluate.bleu_counts import corpus_bleu, match_counts

    def interval(values: Any, statistic: Any, value: float) -> dict[str, float]:
        low, high = bootstrap_interval(
            np.asarray(values, dtype=float), statistic, settings.bootstrap, settings.seed
        )
        return {"value": value, "low": low, "high": high}

    def column(*names: str) -> list[list[float]]:
        return [[row[name] for name in names] for row in rows]

    texts, references = [row["continuation"] for row in rows], [row["reference"] for row in rows]
    bleu = Bleu().compute(predictions=texts, references=references, tokenize="none")
    counts = match_counts(texts, references, tokenize="none")
    sentences = [
        Bleu().compute(predictions=[text], references=[reference], tokenize="none")["sentence_bleu"]
        for text, reference in zip(texts, references, strict=True)
    ]
    own, true = (
        np.array(column("nats", "tokens")),
        np.array(column("reference_nats", "reference_tokens")),
    )
    figures: dict[str, Any] = {
        "count": len(rows),
        "finished": sum(row["finished"] for row in rows),
        "continuation_perplexity": interval(
            own, pooled_perplexity, float(np.exp(own[:, 0].sum() / own[:, 1].sum()))
        ),
        "reference_perplexity": interval(
            true, pooled_perplexity, float(np.exp(true[:, 0].sum() / true[:, 1].sum()))
        ),
        "mean_continuation_perplexity": interval(
            column("perplexity"), mean, float(np.mean([row["perplexity"] for row in rows]))
        ),
        **{
            f"bleu{order}": interval(
                counts, lambda means, order=order: corpus_bleu(means, order), bleu[f"bleu{order}"]
            )
            for order in range(1, 5)
        },
        "sentence_bleu": interval(sentences, mean, bleu["sentence_bleu"]),
        "brevity_penalty": bleu["brevity_penalty"],
        "hypothesis_tokens": bleu["prediction_length"],
        "reference_tokens": bleu["reference_length"],
        **{f"distinct{n}": distinct_n(texts, n) for n in (1, 2, 3)},
        **{f"reference_distinct{n}": distinct_n(references, n) for n in (1, 2, 3)},
        "repeated_4grams": repeated_share(texts, 4),
        "reference_repeated_4grams": repeated_share(references, 4),
        **{
            f"{name}_interval": list(
                bootstrap_interval(np.array(shares), mean, settings.bootstrap, settings.seed)
            )
            for name, side in (
                ("repeated_4grams", texts),
                ("reference_repeated_4grams", references),
            )
            if (shares := repeated_shares(side, 4))
        },
    }
    return figures, sentences
