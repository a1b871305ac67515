"""tinylm generate: continue a text, printed word by word as it is generated."""

import argparse
import re
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from tinylm.base.config import InputError
from tinylm.base.printable import visible
from tinylm.cli.command import NOTHING, add_model_options, number

if TYPE_CHECKING:
    from tinylm.api.language_model import LanguageModel
    from tinylm.api.results import Text
    from tinylm.vocab.tokenizer import Tokenizer

NEEDS = NOTHING
NOTES = """\
Several prompts are continued side by side and printed when all are done. A prompt '-', or none
where standard input is no terminal, is all of the text there. Options left out come from section
decode of params.yaml."""
EXAMPLES = """\
  tinylm generate "once upon a time"
  tinylm generate "the dog" "the dog" --seed 7      two samples of one prompt
  tinylm generate "the dog" --beams 5 --n-best 3
  echo "once upon a time" | tinylm generate --greedy --log-probs
  tr '\\n' '\\0' < prompts.txt | xargs -0 tinylm generate      each line is a prompt
"""
MAX_TOKENS = 1_000_000
MOST_BEAMS = 1_000_000
# Options that replace a setting of section decode, with add_argument's arguments.
SAMPLING: dict[str, dict[str, Any]] = {
    "temperature": {"type": float, "metavar": "T", "help": "0 is greedy, above 1 is bolder"},
    "temperature_end": {"type": float, "metavar": "T", "help": "the temperature moves to this"},
    "top_k": {"type": int, "metavar": "K", "help": "draw from the K likeliest words, 0: from all"},
    "top_p": {"type": float, "metavar": "P", "help": "draw from the likeliest that make up P"},
    "fallback_mass": {
        "type": float,
        "metavar": "P",
        "help": "a nucleus where the K hold less; 0 off",
    },
    "fallback_top_p": {"type": float, "metavar": "P", "help": "the nucleus of --fallback-mass"},
    "repetition_penalty": {"type": float, "metavar": "X", "help": "1 is off"},
    "repetition_window": {"type": int, "metavar": "N", "help": "penalise the last N tokens only"},
    "seed": {"type": int, "metavar": "N", "help": "seed of the random numbers"},
}
OF_BEAMS: dict[str, dict[str, Any]] = {
    "length_penalty": {"type": float, "metavar": "A", "help": "log-probability / length ** A"},
    "n_best": {
        "type": number(int, 1, MOST_BEAMS),
        "metavar": "N",
        "help": "with --beams: print the N best (default 1)",
    },
}
ANY: dict[str, dict[str, Any]] = {
    "slide": {"choices": ("half", "one"), "help": "how the window moves past the context"},
    "step": {
        "choices": ("plain", "compiled", "auto"),
        "help": "compiled if built and ids are equal",
    },
}


def _option(name: str) -> str:
    return "--" + name.replace("_", "-")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """PROMPT and the options."""
    parser.add_argument(
        "prompts", nargs="*", metavar="PROMPT", help="the text to continue; '' starts a story"
    )
    add_model_options(parser)
    parser.add_argument(
        "--max-tokens",
        type=number(int, 0, MAX_TOKENS),
        default=200,
        metavar="N",
        help="new tokens (default %(default)s)",
    )
    how = parser.add_mutually_exclusive_group()
    how.add_argument("--greedy", action="store_true", help="always the likeliest word")
    how.add_argument(
        "--beams",
        type=number(int, 1, MOST_BEAMS),
        metavar="K",
        help="beam search of width K, no sampling",
    )
    for name, option in (SAMPLING | OF_BEAMS | ANY).items():
        group = how if name == "temperature" else parser
        group.add_argument(_option(name), **option)
    parser.add_argument("--no-cache", action="store_true", help="same text, slower")
    parser.add_argument("--log-probs", action="store_true", help="then each token's, in nats")


def _check(arguments: argparse.Namespace) -> None:
    """Raise InputError for options that cannot be combined."""
    beams = arguments.beams
    if arguments.greedy and arguments.temperature_end is not None:
        raise InputError("--temperature-end is not allowed with --greedy, which is temperature 0")
    problem = "is allowed only with" if beams is None else "is not allowed with"
    for name in OF_BEAMS if beams is None else SAMPLING:
        if getattr(arguments, name) is not None:
            raise InputError(f"{_option(name)} {problem} --beams")
    if arguments.n_best is not None and arguments.n_best > beams:
        raise InputError(f"--n-best {arguments.n_best}; allowed: 1 to the beams' {beams}")


def read_prompts(words: Sequence[str]) -> list[str]:
    """The prompts given; '-', or none at all, is standard input as one prompt.

    Raises InputError if standard input is a terminal.
    """
    if words and "-" not in words:
        return list(words)
    if not words and sys.stdin.isatty():
        raise InputError(
            "no prompt; allowed: one or more texts, or a text on standard input ('' starts a story)"
        )
    piped = sys.stdin.read()
    return [piped if word == "-" else word for word in words or ["-"]]


def _print_log_probs(tokenizer: "Tokenizer", text: "Text") -> None:
    for token, log_prob in zip(text.new_ids, text.log_probs or [], strict=True):
        print(f"{log_prob:10.4f}  {visible(tokenizer.shown(token))}")
    print(f"{text.log_prob:10.4f}  nats in all, {len(text.new_ids)} tokens")


def _stream(lm: "LanguageModel", prompt: str, options: dict[str, Any]) -> None:
    """Print a prompt and its continuation as it is generated."""
    try:
        for piece in lm.stream(prompt, **options):
            print(visible(piece), end="", flush=True)
    finally:
        print()  # so that an error has a line of its own


def _sample(lm: "LanguageModel", prompts: list[str], options: dict[str, Any]) -> None:
    """Print each prompt with its continuation, when all are done."""
    texts = lm.generate(prompts, **options)
    for index, text in enumerate(texts):
        print(("\n" if index else "") + visible(text))
        if options["log_probs"]:
            _print_log_probs(lm.tokenizer, text)


def _search(lm: "LanguageModel", arguments: argparse.Namespace, options: dict[str, Any]) -> None:
    """Print the best continuations of each prompt, with scores if --n-best is given."""
    n_best = arguments.n_best or 1
    for index, prompt in enumerate(arguments.prompts):
        best = lm.beams(prompt, arguments.beams, n_best=n_best, **options)
        print("\n" if index else "", end="")
        for rank, text in enumerate(best, start=1):
            score = "" if arguments.n_best is None else f"{rank}. score {text.score:.4f}: "
            print(score + visible(text))
            if options["log_probs"]:
                _print_log_probs(lm.tokenizer, text)


def _changes(arguments: argparse.Namespace, lm: "LanguageModel") -> dict[str, Any]:
    """The settings of section decode that the options replace.

    Raises InputError, which names the option, for a value out of range.
    """
    changes = {}
    for name in (*SAMPLING, "length_penalty", *ANY):
        if getattr(arguments, name) is not None:
            changes[name] = getattr(arguments, name)
    if arguments.greedy:
        changes["temperature"] = 0.0
    try:
        lm.with_changes(**changes)
    except InputError as error:
        message = re.sub(
            r"options: decode\.(\w+) = ", lambda match: f"{_option(match[1])} ", str(error)
        )
        raise InputError(message) from None
    return changes


def run(arguments: argparse.Namespace) -> None:
    """Continue the prompts by sampling or by beam search, depending on the options."""
    from tinylm.api.load import load
    from tinylm.exchange.loading import use_threads

    _check(arguments)
    prompts = arguments.prompts = read_prompts(arguments.prompts)
    lm = load(arguments.models, arguments.vocab)
    use_threads()
    options = _changes(arguments, lm)
    options["max_tokens"] = arguments.max_tokens
    options["use_cache"] = not arguments.no_cache
    if arguments.beams is None and len(prompts) == 1 and not arguments.log_probs:
        _stream(lm, prompts[0], options)
        return
    options["log_probs"] = arguments.log_probs
    if arguments.beams is None:
        _sample(lm, prompts, options)
    else:
        _search(lm, arguments, options)
