"""tinylm generate: prompts in, texts out."""

import argparse
import re
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from tinylm.base.config import InputError
from tinylm.base.printable import visible
from tinylm.cli.command import NOTHING, Command, add_model_options

if TYPE_CHECKING:
    from tinylm.api.language_model import LanguageModel
    from tinylm.api.results import Text
    from tinylm.decoding.settings import DecodeSettings
    from tinylm.vocab.tokenizer import Tokenizer

MAX_PIPED = 1 << 24  # characters
# Options that replace a setting of section decode: its name, type, metavar and help.
SAMPLING = (
    ("temperature", float, "T", "0 is greedy, above 1 is bolder"),
    ("temperature_end", float, "T", "the temperature moves to this as it goes on"),
    ("top_k", int, "K", "draw from the K likeliest words, 0: from all"),
    ("top_p", float, "P", "draw from the likeliest words that make up P, 1: all"),
    ("fallback_mass", float, "P", "where the K hold less than P, draw from a nucleus; 0 is off"),
    ("fallback_top_p", float, "P", "the nucleus of --fallback-mass"),
    ("repetition_penalty", float, "X", "1 is off"),
    ("repetition_window", int, "N", "penalise the last N tokens only"),
    ("seed", int, "N", "seed of the random numbers"),
)
OF_BEAMS = (("length_penalty", float, "A", "with --beams: log-probability / length ** A"),)
CHOICES = (
    ("slide", ("half", "one"), "how the window moves past the context"),
    (
        "step",
        ("plain", "compiled", "auto"),
        "default: compiled if built and token ids are unchanged",
    ),
)


def _option(name: str) -> str:
    return "--" + name.replace("_", "-")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """PROMPT and the options."""
    parser.add_argument(
        "prompts", nargs="*", metavar="PROMPT", help="the text to continue; '' starts a story"
    )
    add_model_options(parser)
    parser.add_argument(
        "--max-tokens", type=int, default=200, metavar="N", help="new tokens (default %(default)s)"
    )
    how = parser.add_mutually_exclusive_group()
    how.add_argument("--greedy", action="store_true", help="always the likeliest word")
    how.add_argument(
        "--beams", type=int, metavar="K", help="beam search of width K instead of sampling"
    )
    for name, kind, metavar, text in SAMPLING:
        group = how if name == "temperature" else parser
        group.add_argument(_option(name), type=kind, metavar=metavar, help=text)
    for name, kind, metavar, text in OF_BEAMS:
        parser.add_argument(_option(name), type=kind, metavar=metavar, help=text)
    parser.add_argument(
        "--n-best", type=int, metavar="N", help="with --beams: print the N best (default 1)"
    )
    for name, choices, text in CHOICES:
        parser.add_argument(_option(name), choices=choices, help=text)
    parser.add_argument(
        "--no-cache", action="store_true", help="without the KV cache: same text, slower"
    )
    parser.add_argument(
        "--log-probs", action="store_true", help="then each token's log-probability, in nats"
    )


def _check(arguments: argparse.Namespace) -> None:
    """Raise InputError for options that do not go together or are out of range."""
    from tinylm.api.language_model import MAX_TOKENS

    beams = arguments.beams
    n_best = arguments.n_best
    if arguments.greedy and arguments.temperature_end is not None:
        raise InputError("--temperature-end does not go with --greedy, which is temperature 0")
    if beams is None:
        wrong, problem = [*(name for name, *_ in OF_BEAMS), "n_best"], "goes only with"
    else:
        wrong, problem = [name for name, *_ in SAMPLING], "does not go with"
    for name in wrong:
        if getattr(arguments, name) is not None:
            raise InputError(f"{_option(name)} {problem} --beams")
    if not 0 <= arguments.max_tokens <= MAX_TOKENS:
        raise InputError(f"--max-tokens {arguments.max_tokens}; allowed: 0 to {MAX_TOKENS}")
    if beams is not None and beams < 1:
        raise InputError(f"--beams {beams}; allowed: a whole number >= 1")
    if n_best is not None and not 1 <= n_best <= beams:
        raise InputError(f"--n-best {n_best}; allowed: 1 to the beams' {beams}")


def read_prompts(words: Sequence[str]) -> list[str]:
    """The prompts given; '-', or none at all, is standard input as one prompt.

    Raises InputError if standard input is a terminal, or too long.
    """
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


def _print_log_probs(tokenizer: "Tokenizer", text: "Text") -> None:
    for token, log_prob in zip(text.new_ids, text.log_probs or [], strict=True):
        print(f"{log_prob:10.4f}  {visible(tokenizer.tokens[token])}")
    print(f"{text.log_prob:10.4f}  nats in all, {len(text.new_ids)} tokens")


def _sample(lm: "LanguageModel", prompts: list[str], options: dict[str, Any]) -> "list[Text]":
    """Print each prompt with its continuation; a single one word by word as it is generated."""

    def show(piece: str) -> None:
        print(visible(piece), end="", flush=True)

    if len(prompts) == 1:
        try:
            texts = [lm.generate(prompts[0], on_text=show, **options)]
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
    lm: "LanguageModel", prompts: list[str], options: dict[str, Any], width: int, ranked: bool
) -> "list[Text]":
    """Print the best continuations of each prompt, with scores if `ranked`; returns the best."""
    results = lm.beams(prompts, width, **options)
    for number, best in enumerate(results):
        print("\n" if number else "", end="")
        for rank, text in enumerate(best, start=1):
            score = f"{rank}. score {text.score:.4f}: " if ranked else ""
            print(score + visible(text))
            if options["log_probs"]:
                _print_log_probs(lm.tokenizer, text)
    return [best[0] for best in results]


def _changes(arguments: argparse.Namespace) -> dict[str, Any]:
    """The settings of section decode that the options replace."""
    names = [name for name, *_ in (*SAMPLING, *OF_BEAMS, *CHOICES)]
    changes = {name: getattr(arguments, name) for name in names}
    if arguments.greedy:
        changes["temperature"] = 0.0
    return {name: value for name, value in changes.items() if value is not None}


def _settings(lm: "LanguageModel", changes: dict[str, Any]) -> "DecodeSettings":
    """Section decode with the changes; an error names the option."""
    try:
        return lm.with_changes(**changes)
    except InputError as error:
        message = re.sub(
            r"options: decode\.(\w+) = ", lambda match: f"{_option(match[1])} ", str(error)
        )
        raise InputError(message) from None


def run(arguments: argparse.Namespace) -> None:
    """Continue the prompts by sampling or by beam search, as the options ask."""
    from tinylm.api.language_model import load
    from tinylm.exchange.loading import use_threads

    _check(arguments)
    prompts = read_prompts(arguments.prompts)
    width = arguments.beams
    if len(prompts) > 2 and all(len(prompt.split()) == 1 for prompt in prompts):
        print(
            f"note: {len(prompts)} prompts of one word each; "
            "a prompt of several words needs quotes",
            file=sys.stderr,
        )
    lm = load(arguments.models, arguments.vocab)
    use_threads()
    changes = _changes(arguments)
    _settings(lm, changes)  # refuses what is out of range
    options = changes | {
        "max_tokens": arguments.max_tokens,
        "log_probs": arguments.log_probs,
        "use_cache": not arguments.no_cache,
    }
    if width is None:
        _sample(lm, prompts, options)
    else:
        if width > lm.model.vocab_size:
            raise InputError(
                f"--beams {width}; allowed: 1 to the vocabulary's {lm.model.vocab_size}"
            )
        options["n_best"] = arguments.n_best or 1
        _search(lm, prompts, options, width, ranked=arguments.n_best is not None)


COMMAND = Command(
    name="generate",
    purpose="continue a text, printed word by word as it is generated",
    needs=NOTHING,
    add_arguments=add_arguments,
    run=run,
    notes="""\
Several prompts are continued side by side and printed when all are done. A prompt '-', or none
where standard input is no terminal, is read from there. Options left out come from section decode
of params.yaml.""",
    examples="""\
  tinylm generate "once upon a time"
  tinylm generate "the dog" "the dog" --seed 7      two samples of one prompt
  tinylm generate "the dog" --beams 5 --n-best 3
  echo "once upon a time" | tinylm generate --greedy --log-probs
""",
)
