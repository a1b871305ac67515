"""One case of the fuzzer: a damaged copy of a valid input, read in a folder of its own, and what came out."""

import contextlib
import io
import random
import shutil
import tempfile
import warnings
from pathlib import Path

from tests.fuzz.mutate import mutate
from tests.fuzz.targets import TARGETS, mend_checksums
from tinylm.base.config import InputError
from tinylm.base.printable import visible

REFUSED, READ, FOUND = "refused", "read", "FOUND"
LONGEST = 2000  # characters of a line that refuses
Seeds = dict[str, list[dict[str, bytes]]]


def damaged(seeds: Seeds, target: str, number: int) -> tuple[dict[str, bytes], random.Random]:
    """The files of case `number`: everything follows from the target's name and the number."""
    rng = random.Random(f"{target}:{number}")
    files = dict(rng.choice(seeds[target]))
    for name in rng.sample(sorted(files), rng.choice((1, 1, 1, 2)) if len(files) > 1 else 1):
        other = rng.choice(seeds[target])
        files[name] = mutate(files[name], rng, other.get(name, b""))
    return files, rng


def _verdict(target: str, folder: Path) -> tuple[str, str]:
    try:
        TARGETS[target][0](folder)
        return READ, ""
    except InputError as error:
        message = visible(error)  # as commands print it
        lines = message.split("\n")
        if len(lines) > 1 and target not in (
            "params",
            "model",
            "export",
        ):  # whose settings are told all at once
            return FOUND, f"a refusal of {len(lines)} lines: {message[:300]!r}"
        if not all(line.strip() and len(line) <= LONGEST and line.isprintable() for line in lines):
            return FOUND, f"a refusal that is no clear line: {message[:300]!r}"
        return REFUSED, message
    except MemoryError:
        return FOUND, "more memory than a case may take"
    except BaseException as error:  # a panic of a library is no Exception
        if isinstance(error, KeyboardInterrupt | SystemExit):
            raise
        return FOUND, f"{type(error).__name__}: {str(error)[:300]}"


def read(target: str, files: dict[str, bytes], rng: random.Random | None = None) -> tuple[str, str]:
    """(refused, read or FOUND, what was said) of these files; with `rng` every other case has its checksums mended."""
    folder = Path(tempfile.mkdtemp(prefix="tinylm-fuzz-"))
    try:
        for name, content in files.items():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_bytes(content)
        if rng is not None and rng.random() < 0.6:
            mend_checksums(folder)
        with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
            warnings.simplefilter("ignore")
            return _verdict(target, folder)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def run_case(seeds: Seeds, target: str, number: int) -> tuple[str, str]:
    """Make and read one case."""
    files, rng = damaged(seeds, target, number)
    return read(target, files, rng)
