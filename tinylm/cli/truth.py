"""Print a storybook text word by word: how surprising each word is for its generator and for the model.

The generator knows the exact probability of every next word, so nothing can predict its stories
better. Below the words is what both expect next. A surprise of 0.69 nats is a choice between two.
"""

import argparse

from tinylm.cli.command import add_model_options

EXAMPLES = """\
  tinylm truth "once upon a time there was a"
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """TEXT and where the model is."""
    parser.add_argument("text", metavar="TEXT", help="a story, or its beginning")
    add_model_options(parser)


def _in_words(probs: dict[str, float]) -> str:
    return ", ".join(f"{word} {prob:.2f}" for word, prob in list(probs.items())[:5])


def run(arguments: argparse.Namespace) -> None:
    """Print a row for each word."""
    from tinylm.api.language_model import load

    words = load(arguments.models, arguments.vocab).truth(arguments.text)
    print(f"{'word':<16}{'kind':<9}{'generator':>9}{'model':>8}   generator and model expected")
    for row in words.itertuples():
        surprise = "impossible" if row.true == float("inf") else f"{row.true:9.2f}"
        if not row.word:
            surprise = ""
        model = f"{row.model:8.2f}" if row.word else ""
        print(
            f"{row.word or '(next)':<16}{row.kind:<9}{surprise:>9}{model:>8}   {_in_words(row.true_next)}"
        )
        print(f"{'':<45}{_in_words(row.model_next)}")
