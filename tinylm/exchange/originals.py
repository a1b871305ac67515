"""The files that an export was made from, carried along in its folder tinylm/ with their SHA-256.

Commands that read a model take an export as well: they use these files.
"""

from pathlib import Path
from typing import Any

from tinylm.base.config import InputError
from tinylm.base.files import SUMS, copy_file, read_json, sha256, write_json
from tinylm.exchange.tokenizer_files import TOKENIZER
from tinylm.model.checkpoint import CONFIG, WEIGHTS

FOLDER = "tinylm"
NAMES = (WEIGHTS, CONFIG, TOKENIZER)
MAX_SUMS_BYTES = 1 << 16


def write_originals(folder: str | Path, models: str | Path, vocab: str | Path) -> None:
    """Copy weights, config and tokenizer into folder/tinylm, and record the SHA-256 of each."""
    target = Path(folder) / FOLDER
    copy_file(Path(models) / WEIGHTS, target / WEIGHTS)
    copy_file(Path(models) / CONFIG, target / CONFIG)
    copy_file(Path(vocab), target / TOKENIZER)
    write_json(target / SUMS, {name: sha256(target / name) for name in NAMES})


def is_export(folder: str | Path) -> bool:
    """Whether `write_originals` wrote into the folder."""
    return (Path(folder) / FOLDER / SUMS).is_file()


def verified(folder: str | Path) -> Path:
    """The folder of an export's originals. Raises InputError if a file is not the exported one."""
    source = Path(folder) / FOLDER
    path = source / SUMS
    if not is_export(folder):
        raise InputError(f"{folder}: not an export; allowed: a folder that tinylm export wrote")
    if path.stat().st_size > MAX_SUMS_BYTES:
        raise InputError(f"{path}: larger than {MAX_SUMS_BYTES} bytes; fetch the export anew")
    sums: Any = read_json(path)
    if not isinstance(sums, dict) or sums.keys() != set(NAMES):
        raise InputError(f"{path}: allowed: the SHA-256 of {', '.join(NAMES)}")
    for name in NAMES:
        if not (source / name).is_file():
            raise InputError(f"{source / name} is missing; fetch the export anew")
        if sha256(source / name) != sums[name]:
            raise InputError(
                f"{source / name}: not the file that was exported; fetch the export anew"
            )
    return source
