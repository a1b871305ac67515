"""tinylm generate: prompts in, texts out."""

import argparse
import sys
import warnings
from collections.abc import Sequence
from itertools import islice

from tinylm.base.config import InputError, read_section
from tinylm.base.printable import visible
from tinylm.beam.search import beam_search
from tinylm.bench.precision_changes import changes
from tinylm.decoding.sampling import generate
from tinylm.decoding.settings import DecodeSettings
from tinylm.decoding.texts import banned_ids, encode_prompts
from tinylm.exchange.loading import load
from tinylm.kernels.decoding.decoder import ModelDecoder, decoder_of
from tinylm.model.transformer import TinyLM
from tinylm.scoring.continuations import token_log_probs
from tinylm.text.tokens.tokenizer import Tokenizer

MAX_TOKENS = 1_000_000
MAX_PIPED = 1 << 24  # characters
NAMED = 5  # unknown words of a prompt
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
    for name in SAMPLING if beams is not None else OF_BEAMS:
        if getattr(arguments, name) is not None:
            raise InputError(f"{_option(name)} goes {'not with' if beams is not None else 'only with'} --beams")
    if not 0 <= arguments.max_tokens <= MAX_TOKENS:
        raise InputError(f"--max-tokens {arguments.max_tokens}; allowed: 0 to {MAX_TOKENS}")
    if beams is not None and beams < 1:
        raise InputError(f"--beams {beams}; allowed: a whole number >= 1")
    if n_best is not None and not 1 <= n_best <= beams:
        raise InputError(f"--n-best {n_best}; allowed: 1 to the beams' {beams}")


def _settings(arguments: argparse.Namespace, decode: DecodeSettings) -> DecodeSettings:
    """Section `decode` with the options given. Raises InputError for a value out of range."""
    values = vars(decode).copy()
    if arguments.greedy or arguments.temperature is not None:
        values["temperature_end"] = None
    for name in values:
        if getattr(arguments, name) is not None:
            values[name] = getattr(arguments, name)
    if arguments.greedy:
        values["temperature"] = 0.0
    return read_section({"decode": values}, "decode", DecodeSettings, "options")


def read_prompts(words: Sequence[str]) -> list[str]:
    """The prompts given; '-', or none at all, is standard input as one prompt. Raises InputError at a terminal."""
    if words and "-" not in words:
        return list(words)
    if not words and sys.stdin.isatty():
        raise InputError("no prompt; allowed: one or more texts, or a text on standard input ('' starts a story)")
    piped = sys.stdin.read(MAX_PIPED + 1)
    if len(piped) > MAX_PIPED:
        raise InputError(f"standard input: more than {MAX_PIPED} characters; allowed: one prompt")
    return [piped if word == "-" else word for word in words or ["-"]]


def warn_of_unknown_words(tokenizer: Tokenizer, texts: Sequence[str]) -> None:
    """Name the words that the model does not see; where it sees none, `encode_prompts` says so."""
    for number, text in enumerate(texts, start=1):
        unknown = dict.fromkeys(tokenizer.unknown_words(text))
        if not unknown or set(tokenizer.encode(text)) == {tokenizer.unk_id}:
            continue
        named = ", ".join(repr(visible(word)) for word in islice(unknown, NAMED))
        more = f" and {len(unknown) - NAMED} more" if len(unknown) > NAMED else ""
        warnings.warn(f"prompt {number}: not in the vocabulary, seen as <unk>: {named}{more}", stacklevel=2)


class _Stream:
    """One text on its way to the terminal: each new token prints what it adds to the text."""

    def __init__(self, tokenizer: Tokenizer, prompt: Sequence[int]) -> None:
        self.tokenizer, self.ids, self.shown = tokenizer, list(prompt), 0
        self._show()

    def _show(self) -> None:
        self._print(self.tokenizer.decode(self.ids).rstrip("\ufffd"))  # the next token may complete a character

    def _print(self, text: str) -> None:
        print(visible(text[self.shown :]), end="", flush=True)
        self.shown = len(text)

    def end(self) -> None:
        """End the line; for when no token will follow."""
        self._print(self.tokenizer.decode(self.ids))
        print()

    def add(self, _: int, token: int) -> None:
        """Take the next token; for `generate(on_token=...)`."""
        self.ids.append(token)
        self._show()


def _print_log_probs(tokenizer: Tokenizer, ids: Sequence[int], log_probs: Sequence[float]) -> None:
    for token, log_prob in zip(ids, log_probs, strict=True):
        print(f"{log_prob:10.4f}  {visible(tokenizer.tokens[token])}")
    print(f"{sum(log_probs):10.4f}  nats in all, {len(ids)} tokens")


def _sample(
    model: TinyLM,
    tokenizer: Tokenizer,
    prompts: list[list[int]],
    settings: DecodeSettings,
    arguments: argparse.Namespace,
    decoder: ModelDecoder,
) -> list[list[int]]:
    """Print each prompt with its continuation; a single one word by word as it is generated. Returns the texts' ids."""
    stream = _Stream(tokenizer, prompts[0]) if len(prompts) == 1 else None
    found = generate(
        model,
        prompts,
        settings,
        max_new_tokens=arguments.max_tokens,
        eos_id=tokenizer.eos_id,
        banned=banned_ids(tokenizer),
        on_token=stream.add if stream else None,
        with_log_probs=arguments.log_probs,
        use_cache=not arguments.no_cache,
        decoder=decoder,
    )
    for number, (prompt, new) in enumerate(zip(prompts, found, strict=True)):
        print("\n" if number else "", end="")
        if stream:
            stream.end()
        else:
            print(visible(tokenizer.decode([*prompt, *new.ids])))
        if arguments.log_probs:
            _print_log_probs(tokenizer, new.ids, new.log_probs)
    return [[*prompt, *new.ids] for prompt, new in zip(prompts, found, strict=True)]


def _search(
    model: TinyLM,
    tokenizer: Tokenizer,
    prompts: list[list[int]],
    settings: DecodeSettings,
    arguments: argparse.Namespace,
    decoder: ModelDecoder,
) -> list[list[int]]:
    """Print the n best continuations of each prompt that the beams found, with their scores if there are several.

    Returns the best texts' ids.
    """
    found = beam_search(
        model,
        prompts,
        width=arguments.beams,
        max_new_tokens=arguments.max_tokens,
        length_penalty=settings.length_penalty,
        eos_id=tokenizer.eos_id,
        banned=banned_ids(tokenizer),
        n_best=arguments.n_best or 1,
        slide=settings.slide,
        use_cache=not arguments.no_cache,
        decoder=decoder,
    )
    for number, (prompt, hypotheses) in enumerate(zip(prompts, found, strict=True)):
        print("\n" if number else "", end="")
        for rank, hypothesis in enumerate(hypotheses, start=1):
            ids = [*prompt, *hypothesis.ids]
            several = f"{rank}. score {hypothesis.score:.4f}: " if arguments.n_best else ""
            print(several + visible(tokenizer.decode(ids)))
            if arguments.log_probs:
                log_probs = token_log_probs(model, ids, len(prompt), settings.slide).tolist()
                _print_log_probs(tokenizer, hypothesis.ids, log_probs)
    return [[*prompt, *best.ids] for prompt, (best, *_) in zip(prompts, found, strict=True)]


def run(arguments: argparse.Namespace) -> None:
    """Continue the prompts by sampling or by beam search, as the options ask."""
    _check(arguments)
    texts = read_prompts(arguments.prompts)
    model, tokenizer, decode = load(arguments.models, arguments.vocab)
    settings = _settings(arguments, decode)
    if arguments.beams is not None and arguments.beams > model.vocab_size:
        raise InputError(f"--beams {arguments.beams}; allowed: 1 to the vocabulary's {model.vocab_size}")
    warn_of_unknown_words(tokenizer, texts)
    prompts = encode_prompts(tokenizer, texts, model.settings.context, settings.slide)
    decoder = decoder_of(model, settings, wait=False)
    write = _sample if arguments.beams is None else _search
    texts_ids = write(model, tokenizer, prompts, settings, arguments, decoder)
    if settings.step != "plain" or settings.precision != "fp32":
        sys.stdout.flush()
        print(f"decoded in {decoder.said}", file=sys.stderr)
    if decoder.precision != "fp32":
        print(changes(model, decoder, texts_ids).in_words(), file=sys.stderr)
