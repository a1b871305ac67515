"""The stories of each split as download wrote them."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tinylm.config import InputError
from tinylm.files import check_sums, require

SPLITS = ("train", "held_out", "evaluation")


def read_stories(folder: str | Path, split: str) -> Iterator[dict[str, Any]]:
    """The rows of one split as written. Raises InputError, at once, where the file is missing or damaged."""
    path = require(Path(folder) / f"{split}.jsonl", "download")
    check_sums(path, "download")

    def rows() -> Iterator[dict[str, Any]]:
        with open(path, encoding="utf-8", newline="\n") as handle:
            for number, line in enumerate(handle, 1):
                try:
                    row = json.loads(line)
                    row["text"]
                except (ValueError, TypeError, KeyError):
                    raise InputError(
                        f"{path}, line {number}: not a story; rm {path} and run dvc repro -f -s download"
                    ) from None
                yield row

    return rows()
