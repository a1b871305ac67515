"""Print a story word by word: how surprising each word is for its generator and for the model.

The generator of the model's stories, the storybook or a world, knows the exact probability of
every next word, so on average nothing predicts its stories better. The last column shows what each
expected: the generator above, the model below.
"""

import argparse
import math

from tinylm.cli.command import add_model_options

EXAMPLES = """\
  tinylm truth "once upon a time there was a"
  tinylm truth "once upon a time there was a brave girl named" --decode      what the decoding filters keep
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """TEXT and where the model is."""
    parser.add_argument("text", metavar="TEXT", help="a story, or its beginning")
    parser.add_argument(
        "--decode", action="store_true", help="add a third line: what section decode samples from"
    )
    add_model_options(parser)


def run(arguments: argparse.Namespace) -> None:
    """Print a row for each word."""
    from tinylm.api.language_model import load
    from tinylm.evaluate.truth import list_top_words

    lm = load(arguments.models, arguments.vocab)
    words = lm.truth(arguments.text, arguments.decode)
    print(f"{'word':<16}{'kind':<8}{'generator':>10}{'model':>8}   generator and model expected")
    for row in words.to_dict("records"):
        expected = list_top_words(row["true_next"])
        if row["word"]:
            true = "impossible" if row["true"] == math.inf else f"{row['true']:.2f}"
            print(f"{row['word']:<16}{row['kind']:<8}{true:>10}{row['model']:>8.2f}   {expected}")
        else:
            print(f"{'(next)':<16}{row['kind']:<29}{expected}")
        print(f"{'':<45}{list_top_words(row['model_next'])}")
        if arguments.decode:
            counts = f"possible words: {row['possible']}, drawn from: {row['drawn']}"
            print(f"{counts:<45}{list_top_words(row['drawn_next'])}")
    print(
        "Surprise is in nats. The first line shows what the generator expected, the second what the model expected."
    )
    if arguments.decode:
        print(f"The third line shows what decoding samples from ({lm.settings.in_words()}).")
    if row["true"] == math.inf:
        print(f"The generator never writes {row['word']!r} there, so it cannot score the rest.")
