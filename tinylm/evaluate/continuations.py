"""The model continues texts of the evaluation split, and the continuations are scored."""

import functools
from collections.abc import Sequence

import pandas as pd

from tinylm.base.config import PARAMS_FILE, InputError
from tinylm.decoding.decoder import Decoder
from tinylm.decoding.sampling import generate
from tinylm.decoding.settings import DecodeSettings
from tinylm.decoding.texts import banned_ids
from tinylm.evaluate.intervals import mean, pooled_perplexity
from tinylm.evaluate.scoring import perplexity, token_log_probs, value_and_interval
from tinylm.evaluate.settings import SEED, EvaluateSettings
from tinylm.kernels.decoding.step import decoding_step
from tinylm.model.transformer import TinyLM
from tinylm.run.evaluated import Samples
from tinylm.run.interval import Interval
from tinylm.text.diversity import distinct_n, repeated_share
from tinylm.vocab.prompts import Prompt, choose_prompts, cut_prompts, without_repeats
from tinylm.vocab.token_store import TokenStore
from tinylm.vocab.tokenizer import Tokenizer

TABLE = [  # columns of samples.csv
    "story",
    "prompt",
    "reference",
    "continuation",
    "perplexity",
    "reference_perplexity",
    "bleu",
    "finished",
]


def evaluation_prompts(
    store: TokenStore, tokenizer: Tokenizer, settings: EvaluateSettings
) -> list[Prompt]:
    """The prompts that section `evaluate` sets, fewer if the split is short or repeats texts.

    No two have the same prompt and the same reference. References of prompts that are cut from the
    stream run past the ends of stories. Raises InputError if there is no prompt.
    """
    count = settings.stories
    tokens = settings.prompt_tokens
    new = settings.new_tokens
    if settings.prompts == "stream":
        prompts = cut_prompts(store, count, tokens, new, SEED)
        longest = f"the evaluation split's {len(store.ids)} tokens"
    else:
        cut = new if settings.reference == "cut" else None
        prompts = choose_prompts(store, count, tokens, cut, sos_id=tokenizer.sos_id)
        longest = "the tokens of the longest whole evaluation story"
    if not prompts:
        raise InputError(
            f"{PARAMS_FILE}: evaluate.prompt_tokens: expected fewer than {longest}, got {tokens}"
        )
    return without_repeats(prompts)


def protocol(count: int, settings: EvaluateSettings, decode: DecodeSettings) -> str:
    """How the samples' metrics were obtained, in sentences."""
    source = "from the starts of evaluation stories"
    if settings.prompts == "stream":
        source = "cut at random places of the stream"
    end = ", across stories" if settings.prompts == "stream" else " of the story"
    reference = f"the next {settings.new_tokens} tokens{end}"
    if settings.reference == "whole":
        reference = "the whole rest of the story"
    return (
        f"{count} prompts of {settings.prompt_tokens} tokens are {source}. Each has at most "
        f"{settings.new_tokens} new tokens up to <eos>. Decoding: {decode.in_words()}. Reference: {reference}."
    )


def continue_prompts(
    model: TinyLM,
    tokenizer: Tokenizer,
    prompts: Sequence[Prompt],
    settings: EvaluateSettings,
    decode: DecodeSettings,
    slide: str = "half",
) -> pd.DataFrame:
    """A row for each prompt: texts, ids, nats and tokens of continuation and reference.

    Nats are those of the model's own distribution, before temperature and filters. They include
    `<eos>` where the text ended.
    """
    decoder = Decoder(
        model=model,
        eos_id=tokenizer.eos_id,
        banned=banned_ids(tokenizer),
        slide=slide,
        step=decoding_step(model),
    )
    starts = [prompt.ids for prompt in prompts]
    generated = generate(
        decoder, starts, decode, max_new_tokens=settings.new_tokens, with_log_probs=True
    )
    rows = []
    for prompt, new in zip(prompts, generated, strict=True):
        nats = -sum(new.log_probs)
        whole = [*prompt.ids, *prompt.reference]
        log_probs = token_log_probs(model, whole, len(prompt.ids), slide)
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
    return pd.DataFrame(rows)


def measure_samples(
    samples: pd.DataFrame, settings: EvaluateSettings, decode: DecodeSettings
) -> tuple[Samples, pd.DataFrame]:
    """(metrics of all samples with 95 % bootstrap intervals, the table samples.csv).

    perplexity: exp of all nats over all tokens. BLEU is over words split at white space, each
    continuation against its one reference.
    """
    from tinylm.text.bleu import MAX_ORDER, Bleu, bleu_of  # takes seconds to import

    texts = samples["continuation"].tolist()
    references = samples["reference"].tolist()
    bleu = Bleu().compute(predictions=texts, references=references)
    words = bleu["statistics"][:, :2].sum(axis=0)
    bleus = []
    for order in range(1, MAX_ORDER + 1):
        statistic = functools.partial(bleu_of, order=order)
        bleus.append(value_and_interval(bleu["statistics"], statistic, bleu[f"bleu{order}"]))
    measured = Samples(
        protocol=protocol(len(samples), settings, decode),
        count=len(samples),
        finished=int(samples["finished"].sum()),
        sentence_bleu=value_and_interval(bleu["sentence_bleu"], mean),
        hypothesis_tokens=int(words[0]),
        reference_tokens=int(words[1]),
        continuation_perplexity=_perplexity_of(samples[["nats", "tokens"]]),
        reference_perplexity=_perplexity_of(samples[["reference_nats", "reference_tokens"]]),
        bleu1=bleus[0],
        bleu2=bleus[1],
        bleu3=bleus[2],
        bleu4=bleus[3],
        distinct1=distinct_n(texts, 1),
        distinct2=distinct_n(texts, 2),
        distinct3=distinct_n(texts, 3),
        repeated_4grams=repeated_share(texts, 4),
        reference_distinct1=distinct_n(references, 1),
        reference_distinct2=distinct_n(references, 2),
        reference_distinct3=distinct_n(references, 3),
        reference_repeated_4grams=repeated_share(references, 4),
    )
    return measured, samples.assign(bleu=bleu["sentence_bleu"])[TABLE]


def _perplexity_of(nats_and_tokens: pd.DataFrame) -> Interval:
    """Perplexity of all texts pooled, with an interval from resampling texts."""
    table = nats_and_tokens.to_numpy(dtype=float)
    pooled = float(pooled_perplexity(table.sum(axis=0)))
    return value_and_interval(table, pooled_perplexity, pooled)
