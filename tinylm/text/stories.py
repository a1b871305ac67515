"""Stories as stage download writes them: a file of JSON lines for each split."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tinylm.base.config import InputError
from tinylm.base.files import require

SPLITS = ("train", "held_out", "evaluation")
END_OF_TEXT = "<|endoftext|>"  # between stories, in TinyStories and in GPT-2's vocabulary
# Where the evaluation stories come from if the data has no evaluation split, by data.held_out.
NO_OFFICIAL_EVALUATION = {"hash": "set apart by hash", "tokens": "the held-out tokens"}
HELD_OUT_IS_EVALUATION = (
    "the data has no evaluation split, so with data.held_out: tokens the evaluation text is the "
    "held-out text, on which training makes its choices; add a test file, or set data.held_out: hash"
)


def read_stories(folder: str | Path, split: str) -> Iterator[dict[str, Any]]:
    """The rows of one split as written. Raises InputError at once if the file is missing."""
    path = require(Path(folder) / f"{split}.jsonl", "download")
    return _rows(path)


def read_texts(folder: str | Path, split: str) -> Iterator[str]:
    """The texts of one split. Raises InputError at once if the file is missing."""
    return (row["text"] for row in read_stories(folder, split))


def _rows(path: Path) -> Iterator[dict[str, Any]]:
    with open(path, "rb") as handle:
        for number, line in enumerate(handle, start=1):
            try:
                row = json.loads(line)
            except ValueError as error:
                raise InputError(
                    f"{path}, line {number}: not JSON ({error}); run dvc repro -f -s download"
                ) from None
            yield row
