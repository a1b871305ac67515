"""Damaged files of users: each is refused in one line, or read as something valid.

Inputs that once crashed a reader are kept in corpus/READER-NAME/. `make fuzz` runs more cases.
"""

import os
import random
import signal
import warnings
from pathlib import Path

import pytest

from tests.fuzz.mutate import mutate
from tests.fuzz.readers import READERS, Files, valid_inputs
from tests.support.folders import contents
from tinylm.base.config import InputError

CASES = int(os.environ.get("FUZZ_CASES", "25"))  # of each reader
SECONDS = 20
LONGEST_LINE = 2000
CORPUS = sorted(path for path in Path(__file__).with_name("corpus").iterdir() if path.is_dir())


@pytest.fixture(scope="module")
def inputs(tmp_path_factory) -> dict[str, list[Files]]:
    return valid_inputs(tmp_path_factory.mktemp("inputs"))


def read(reader: str, files: Files, folder: Path, is_valid: bool = False) -> None:
    """Write the files and read them; a refusal must be a clear line, anything else fails."""
    folder.mkdir(exist_ok=True)
    for name, content in files.items():
        (folder / name).write_bytes(content)
    try:
        signal.alarm(SECONDS)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            READERS[reader](folder)
    except InputError as error:
        lines = str(error).split("\n")
        assert len(lines) == 1 or reader == "params"
        assert all(line.strip() and len(line) <= LONGEST_LINE for line in lines)
        assert not is_valid
    finally:
        signal.alarm(0)


@pytest.mark.parametrize("reader", READERS)
def test_every_valid_input_is_read(inputs, tmp_path, reader):
    for number, files in enumerate(inputs[reader]):
        read(reader, files, tmp_path / str(number), is_valid=True)


@pytest.mark.parametrize("reader", READERS)
def test_damaged_inputs_are_refused_or_read(inputs, tmp_path, reader):
    for number in range(CASES):
        rng = random.Random(f"{reader}:{number}")
        files = dict(rng.choice(inputs[reader]))
        damaged = rng.choice(sorted(files))
        files[damaged] = mutate(files[damaged], rng)
        read(reader, files, tmp_path / str(number))


@pytest.mark.parametrize("folder", CORPUS, ids=lambda folder: folder.name)
def test_inputs_that_once_crashed_a_reader_are_refused_or_read(tmp_path, folder):
    read(folder.name.partition("-")[0], contents(folder), tmp_path)
