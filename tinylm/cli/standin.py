"""tinylm standin: write a synthetic corpus of the size of TinyStories, to see what that size costs."""

import argparse

NOTES = """\
As many stories as TinyStories has, 1.9 GB, with its statistics of words, punctuation, quotes and lengths, but of
words that mean nothing: to time the pipeline and to see its memory, not to learn from. The same seed writes the same
bytes."""
EXAMPLES = """\
  tinylm standin data/standin                       2.1 M stories, 1.9 GB
  tinylm standin data/standin --stories 100000
  tinylm standin data/endless --new-words 0.02      new words never stop coming
"""


def add_options(parser: argparse.ArgumentParser) -> None:
    """FOLDER and the options."""
    parser.add_argument(
        "folder", metavar="FOLDER", help="where train.txt and validation.txt are written"
    )
    parser.add_argument(
        "--stories", type=int, metavar="N", help="of train (default: TinyStories' 2,119,719)"
    )
    parser.add_argument(
        "--new-words", type=float, default=0.0, metavar="P", help="share of words seen only once"
    )
    parser.add_argument(
        "--seed",
        type=int,
        default=1,
        metavar="N",
        help="seed of the random numbers (default %(default)s)",
    )
    parser.add_argument("--workers", type=int, metavar="N", help="processes (default: one a core)")


def run(arguments: argparse.Namespace) -> None:
    """Write FOLDER/train.txt and FOLDER/validation.txt and print their sizes."""
    from tinylm.studies.synthetic_corpus import write_checked

    folder = arguments.folder
    sizes = write_checked(
        folder, arguments.stories, arguments.new_words, arguments.seed, arguments.workers
    )
    for name, size in sizes.items():
        print(f"{folder}/{name}.txt: {size:,} bytes")
    print(f"read it with data.source: local, data.path: {folder}")
