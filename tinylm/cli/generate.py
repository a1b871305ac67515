"""tinylm generate: prompts in, texts out."""

import argparse
import dataclasses
import re
import sys
from collections.abc import Sequence
from typing import Any

from tinylm.api.language_model import MAX_TOKENS, LanguageModel, load
from tinylm.api.results import Text
from tinylm.base.config import InputError
from tinylm.base.printable import visible
from tinylm.bench.precision_changes import changes as changes_of
from tinylm.decoding.settings import DecodeSettings
from tinylm.exchange.loading import use_threads
from tinylm.vocab.tokenizer import Tokenizer

MAX_PIPED = 1 << 24  # characters
SAMPLING = (
    "temperature",
    "temperature_end",
    "top_k",
    "top_p",
    "fallback_mass",
    "fallback_top_p",
    "repetition_penalty",
    "repetition_window",
    "seed",
)
OF_BEAMS = ("length_penalty", "n_best")


def _option(name: str) -> str:
    return "--" + name.replace("_", "-")


def _check(arguments: argparse.Namespace) -> None:
    """Raise InputError for options that do not go together or are out of range, before anything is loaded."""
    beams, n_best = arguments.beams, arguments.n_best
    if arguments.greedy and arguments.temperature_end is not None:
        raise InputError(
            "--temperature-end does not go with --greedy, which is temperature 0 throughout"
        )
    for name in SAMPLING if beams is not None else OF_BEAMS:
        if getattr(arguments, name) is not None:
            raise InputError(
                f"{_option(name)} {'does not go with' if beams is not None else 'goes only with'} --beams"
            )
    if not 0 <= arguments.max_tokens <= MAX_TOKENS:
        raise InputError(f"--max-tokens {arguments.max_tokens}; allowed: 0 to {MAX_TOKENS}")
    if beams is not None and beams < 1:
        raise InputError(f"--beams {beams}; allowed: a whole number >= 1")
    if n_best is not None and not 1 <= n_best <= beams:
        raise InputError(f"--n-best {n_best}; allowed: 1 to the beams' {beams}")


def read_prompts(words: Sequence[str]) -> list[str]:
    """The prompts given; '-', or none at all, is standard input as one prompt. Raises InputError at a terminal."""
    if words and "-" not in words:
        return list(words)
    if not words and sys.stdin.isatty():
        raise InputError(
            "no prompt; allowed: one or more texts, or a text on standard input ('' starts a story)"
        )
    piped = sys.stdin.read(MAX_PIPED + 1)
    if len(piped) > MAX_PIPED:
        raise InputError(f"standard input: more than {MAX_PIPED} characters; allowed: one prompt")
    return [piped if word == "-" else word for word in words or ["-"]]


def _print_log_probs(tokenizer: Tokenizer, text: Text) -> None:
    for token, log_prob in zip(text.new_ids, text.log_probs or [], strict=True):
        print(f"{log_prob:10.4f}  {visible(tokenizer.tokens[token])}")
    print(f"{text.log_prob:10.4f}  nats in all, {len(text.new_ids)} tokens")


def _sample(lm: LanguageModel, prompts: list[str], options: dict[str, Any]) -> list[Text]:
    """Print each prompt with its continuation; a single one word by word as it is generated. Returns the texts."""
    if len(prompts) == 1:
        try:
            texts = [
                lm.generate(
                    prompts[0],
                    on_text=lambda piece: print(visible(piece), end="", flush=True),
                    **options,
                )
            ]
        finally:
            print()  # so that an error has a line of its own
    else:
        texts = lm.generate(prompts, **options)
    for number, text in enumerate(texts):
        if len(prompts) > 1:
            print(("\n" if number else "") + visible(text))
        if options["log_probs"]:
            _print_log_probs(lm.tokenizer, text)
    return texts


def _search(
    lm: LanguageModel, prompts: list[str], options: dict[str, Any], width: int, ranked: bool
) -> list[Text]:
    """Print the best continuations of each prompt, with their scores if `ranked`. Returns the best texts."""
    found = lm.beams(prompts, width, **options)
    for number, best in enumerate(found):
        print("\n" if number else "", end="")
        for rank, text in enumerate(best, start=1):
            print((f"{rank}. score {text.score:.4f}: " if ranked else "") + visible(text))
            if options["log_probs"]:
                _print_log_probs(lm.tokenizer, text)
    return [best[0] for best in found]


def _same_ids(lm: LanguageModel, settings: DecodeSettings) -> bool:
    """Whether the compiled step, where it is ready, gives the ids of the plain one: in fp32 on the CPU."""
    return (
        settings.step == "plain" and settings.precision == "fp32" and not lm.model.embedding.is_cuda
    )


def run(arguments: argparse.Namespace) -> None:
    """Continue the prompts by sampling or by beam search, as the options ask."""
    _check(arguments)
    prompts, width = read_prompts(arguments.prompts), arguments.beams
    if len(prompts) > 2 and all(len(prompt.split()) == 1 for prompt in prompts):
        print(
            f"note: {len(prompts)} prompts of one word each; a prompt of several words needs quotes",
            file=sys.stderr,
        )
    lm = load(arguments.models, arguments.vocab)
    use_threads()
    names = [field.name for field in dataclasses.fields(DecodeSettings)]
    changes = {
        name: getattr(arguments, name) for name in names if getattr(arguments, name) is not None
    }
    if arguments.greedy:
        changes["temperature"] = 0.0
    try:
        settings = lm.with_changes(**changes)
    except InputError as error:
        raise InputError(
            re.sub(r"options: decode\.(\w+) = ", lambda named: f"{_option(named[1])} ", str(error))
        ) from None
    if arguments.step is None and _same_ids(lm, settings):
        changes["step"] = "auto"
    options = changes | {
        "max_tokens": arguments.max_tokens,
        "log_probs": arguments.log_probs,
        "use_cache": not arguments.no_cache,
    }
    if width is None:
        texts = _sample(lm, prompts, options)
    else:
        if width > lm.model.vocab_size:
            raise InputError(
                f"--beams {width}; allowed: 1 to the vocabulary's {lm.model.vocab_size}"
            )
        ranked = arguments.n_best is not None
        texts = _search(lm, prompts, options | {"n_best": arguments.n_best or 1}, width, ranked)
    if settings.step != "plain" or settings.precision != "fp32":
        decoder = lm.decoder(settings)
        sys.stdout.flush()
        print(f"decoded in {decoder.said}", file=sys.stderr)
        if decoder.precision != "fp32":
            ids = ([*text.prompt_ids, *text.new_ids] for text in texts)
            print(changes_of(lm.model, decoder, ids).in_words(), file=sys.stderr)
