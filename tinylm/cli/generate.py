"""Continue a text, printed word by word as it is generated.

Several prompts are continued side by side and printed when all are done. With '-' or piped input,
the prompt is read from standard input. Options that you leave out come from params.yaml (sections
decode and cache, and beam_bench.length_penalty), as do the settings that have no option.
"""

import argparse
import sys
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from tinylm.base.config import InputError
from tinylm.base.printable import visible
from tinylm.cli.command import add_model_options, number_between

if TYPE_CHECKING:
    from tinylm.api.language_model import LanguageModel
    from tinylm.api.results import Text

EXAMPLES = """\
  tinylm generate "once upon a time"
  tinylm generate "the dog" "the dog" --seed 7      two samples of one prompt
  tinylm generate "the dog" --beams 5 --n-best 3
  echo "once upon a time" | tinylm generate --greedy --log-probs
  tr '\\n' '\\0' < prompts.txt | xargs -0 tinylm generate      each line is a prompt
"""
MOST = 1_000_000  # tokens, beams
SAMPLING = {  # settings of section decode: (type, metavar, help) of the option that replaces each
    "temperature": (float, "T", "0 is greedy; above 1, unlikely words become more frequent"),
    "top_k": (int, "K", "sample from the top K tokens (0: off)"),
    "top_p": (float, "P", "sample from the likeliest tokens that sum to P (1: off)"),
    "min_p": (
        float,
        "P",
        "sample from tokens at least P times as likely as the likeliest (0: off)",
    ),
    "eta": (
        float,
        "P",
        "drop tokens less likely than P, fewer where many are likely (0: off)",
    ),
    "repetition_penalty": (float, "X", "divide the scores of earlier tokens by X (1: off)"),
    "seed": (int, "N", "seed of the random numbers"),
}


def _option(name: str) -> str:
    return "--" + name.replace("_", "-")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """PROMPT and the options."""
    add = parser.add_argument
    add("prompts", nargs="*", metavar="PROMPT", help="the text to continue; '' starts a story")
    add_model_options(parser)
    tokens = number_between(int, 0, MOST)
    add("--max-tokens", type=tokens, default=200, metavar="N", help="new tokens (%(default)s)")
    how = parser.add_mutually_exclusive_group()
    how.add_argument("--greedy", action="store_true", help="always take the most likely token")
    beams = number_between(int, 1, MOST)
    how.add_argument("--beams", type=beams, metavar="K", help="beam search of width K, no sampling")
    for name, (kind, metavar, meaning) in SAMPLING.items():
        group = how if name == "temperature" else parser
        group.add_argument(_option(name), type=kind, metavar=metavar, help=meaning)
    add("--n-best", type=beams, metavar="N", help="with --beams: print the N best (default 1)")
    steps = ("plain", "compiled", "auto")
    native = "auto: native kernel if its output matches PyTorch"
    add("--step", choices=steps, default="auto", help=native)
    add("--no-cache", action="store_true", help="recompute every step: the same text, slower")
    add("--log-probs", action="store_true", help="print the log-probability of each token, in nats")


def _check(arguments: argparse.Namespace) -> None:
    """Raise InputError for options that cannot be combined."""
    if arguments.beams is None:
        if arguments.n_best is not None:
            raise InputError("--n-best needs --beams")
        return
    for name in SAMPLING:
        if getattr(arguments, name) is not None:
            raise InputError(f"{_option(name)} cannot be combined with --beams")


def read_prompts(words: Sequence[str]) -> list[str]:
    """The prompts given; '-', or none at all, is standard input as one prompt.

    Raises InputError if standard input is a terminal.
    """
    if words and "-" not in words:
        return list(words)
    if not words and sys.stdin.isatty():
        raise InputError("expected a prompt, or text on standard input ('' starts a story)")
    piped = sys.stdin.read()
    return [piped if word == "-" else word for word in words or ["-"]]


def _stream(pieces: Iterable[str]) -> None:
    """Print a prompt and its continuation as it is generated."""
    try:
        for piece in pieces:
            print(visible(piece), end="", flush=True)
    finally:
        print()  # so that an error has a line of its own


def _print(lm: "LanguageModel", text: "Text", name: str, with_log_probs: bool) -> None:
    """Print a text after its name, then the log-probability of each new token."""
    print(name + visible(text))
    if not with_log_probs:
        return
    for token, log_prob in zip(text.new_ids, text.log_probs or [], strict=True):
        print(f"{log_prob:10.4f}  {visible(lm.tokenizer.shown(token))}")
    print(f"{text.log_prob:10.4f}  nats in all, {len(text.new_ids)} tokens")


def _options(arguments: argparse.Namespace) -> dict[str, Any]:
    """The keyword arguments of LanguageModel's methods, with the settings that options replace."""
    options = {"max_tokens": arguments.max_tokens}
    for name in SAMPLING:
        if getattr(arguments, name) is not None:
            options[name] = getattr(arguments, name)
    if arguments.greedy:
        options["temperature"] = 0.0
    return options


def run(arguments: argparse.Namespace) -> None:
    """Continue the prompts by sampling or by beam search, depending on the options."""
    from tinylm.api.language_model import load
    from tinylm.params.presets.write import params_or_preset
    from tinylm.run.trained_model import use_threads

    _check(arguments)
    prompts = read_prompts(arguments.prompts)
    lm = load(arguments.models, arguments.vocab)
    use_threads(params_or_preset())
    lm.use_cache = not arguments.no_cache
    lm.step = arguments.step
    options = _options(arguments)
    log_probs = arguments.log_probs
    if arguments.beams is None and len(prompts) == 1 and not log_probs:
        _stream(lm.stream(prompts[0], **options))
        return
    if arguments.beams is None:
        groups: Iterable[list[Text]] = [
            [text] for text in lm.generate(prompts, log_probs=log_probs, **options)
        ]
    else:
        options |= {"width": arguments.beams, "n_best": arguments.n_best or 1}
        groups = (lm.beams(prompt, log_probs=log_probs, **options) for prompt in prompts)
    for index, texts in enumerate(groups):
        print("\n" if index else "", end="")
        for rank, text in enumerate(texts, start=1):
            score = "" if arguments.n_best is None else f"{rank}. score {text.score:.4f}: "
            _print(lm, text, score, log_probs)
