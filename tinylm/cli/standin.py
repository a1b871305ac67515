"""tinylm standin: write a corpus of the size of TinyStories, to see what that size costs."""

import os
from argparse import Namespace

from tinylm.base.config import InputError
from tinylm.host.workers import cores
from tinylm.studies.synthetic_corpus import TRAIN_STORIES, VALIDATION_STORIES, write_standin


def run(arguments: Namespace) -> None:
    """Write FOLDER/train.txt and FOLDER/validation.txt and say how large they are."""
    train = TRAIN_STORIES if arguments.stories is None else arguments.stories
    validation = max(1, train * VALIDATION_STORIES // TRAIN_STORIES)
    workers = cores() if arguments.workers is None else arguments.workers
    for name, value, least in (("stories", train, 1), ("workers", workers, 1), ("seed", arguments.seed, 0)):
        if value < least:
            raise InputError(f"--{name} {value}; allowed: a whole number >= {least}")
    if not 0 <= arguments.new_words <= 1:
        raise InputError(f"--new-words {arguments.new_words:g}; allowed: a share from 0 to 1")
    if not arguments.folder or (os.path.lexists(arguments.folder) and not os.path.isdir(arguments.folder)):
        raise InputError(f"{arguments.folder!r}: no folder; allowed: the name of a folder or of one to be made")
    for path in (f"{arguments.folder}/{name}.txt" for name in ("train", "validation")):
        if os.path.lexists(path):
            raise InputError(f"{path} is there already; allowed: a folder without it, so that no corpus is lost")
    sizes = write_standin(arguments.folder, train, validation, arguments.new_words, arguments.seed, workers)
    for name, size in sizes.items():
        print(f"{arguments.folder}/{name}.txt: {size:,} bytes")
    print(f"read it with data.source: local, data.path: {arguments.folder}")
