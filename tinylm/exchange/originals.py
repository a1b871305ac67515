"""The files that an export was made from: carried along in its folder tinylm/ and read back to the same bytes."""

import contextlib
import dataclasses
import hashlib
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch

from tinylm.base.config import InputError, read_section, setting
from tinylm.base.files import SUMS, discard, read_json, sha256, write_bytes, write_json
from tinylm.base.paths import file_above
from tinylm.exchange.tokenizer_files import TOKENIZER
from tinylm.model.checkpoint import CONFIG, MOMENTS, WEIGHTS, check_vocabulary, load_model
from tinylm.model.settings import ModelSettings
from tinylm.model.transformer import TinyLM
from tinylm.vocab.tokenizer import MAX_FILE_BYTES, Tokenizer, open_tokenizer

FOLDER = "tinylm"
MAX_BYTES = {WEIGHTS: 1 << 37, CONFIG: 1 << 20, TOKENIZER: MAX_FILE_BYTES, SUMS: 1 << 16}
SAMPLES = "samples.json"  # of the training, as MOMENTS are


def write_originals(folder: str | Path, models: str | Path, vocab: str | Path) -> None:
    """Copy weights, config and tokenizer into folder/tinylm, and record the SHA-256 of each."""
    sources = {
        WEIGHTS: Path(models) / WEIGHTS,
        CONFIG: Path(models) / CONFIG,
        TOKENIZER: Path(vocab),
    }
    sums = {}
    for name, source in sources.items():
        sums[name] = sha256(source)
        _copy(source, Path(folder) / FOLDER / name, sums[name])
    write_json(Path(folder) / FOLDER / SUMS, sums)


def is_export(folder: str | Path) -> bool:
    """Whether `write_originals` wrote into the folder."""
    return (Path(folder) / FOLDER / SUMS).is_file()


def verified(folder: str | Path) -> Path:
    """The folder of an export's originals, all of which are what was exported. Raises InputError, as `restore` does."""
    _checked_sums(Path(folder))
    source = Path(folder) / FOLDER
    _open(source)
    return source


def restore(
    folder: str | Path, models: str | Path, vocab: str | Path, replace: bool
) -> tuple[int, Tokenizer]:
    """Copy an export's originals to where `save_model` and `Tokenizer.save` wrote them: (parameters, tokenizer).

    What belongs to the training of a replaced model, kept weights and sample stories, is removed with it. Raises
    InputError if a file is not the one that was exported, if the files do not belong to one model, if the places cannot
    hold both, and, without `replace`, if another model or tokenizer is there.
    """
    _check_places(str(models), str(vocab))
    source = Path(folder) / FOLDER
    sums = _checked_sums(Path(folder))
    parameters, tokenizer = _open(source)
    targets = {
        WEIGHTS: Path(models) / WEIGHTS,
        TOKENIZER: Path(vocab),
        CONFIG: Path(models) / CONFIG,
    }
    others = [
        name for name, path in targets.items() if path.exists() and sha256(path) != sums[name]
    ]
    if others and not replace:
        taken = " and ".join(str(targets[name]) for name in others)
        raise InputError(
            f"{taken}: another model is there; --force replaces it, --models and --vocab name other places"
        )
    if others:
        discard(*(Path(models) / MOMENTS).glob("*"), Path(models) / SAMPLES, Path(models) / SUMS)
    if TOKENIZER in others:
        discard(Path(vocab).with_name(SUMS))  # of the tokenizer that was there
    for (
        name,
        target,
    ) in targets.items():  # the config last: it names the weights for which it is valid
        _copy(source / name, target, sums[name])
    return parameters, tokenizer


def _check_places(models: str, vocab: str) -> None:
    """InputError unless `models` can be a folder and `vocab` a file that is none of the model's."""
    for option, name, allowed in (("models", models, "a folder"), ("vocab", vocab, "a file")):
        place = Path(name)
        fits = not place.exists() or (place.is_dir() if option == "models" else place.is_file())
        above = file_above(place)
        if not name or not fits or above:
            below = f": {above} is a file" if above else ""
            raise InputError(f"--{option} {name or repr(name)}{below}; allowed: {allowed}")
    folder, file = Path(models).resolve(), Path(vocab).resolve()
    if file in (folder, folder / WEIGHTS, folder / CONFIG, *folder.parents):
        raise InputError(
            f"--vocab {vocab} and --models {models} are one place; allowed: a file beside the model's own"
        )


def _copy(source: Path, target: Path, expected: str) -> None:
    """Copy a file; it appears under its name only if its bytes are the expected ones."""
    content = source.read_bytes()
    if hashlib.sha256(content).hexdigest() != expected:
        raise InputError(f"{source}: changed while it was copied; start again")
    write_bytes(target, content)


def _checked_sums(folder: Path) -> dict[str, str]:
    """The SHA-256 of each original, verified. InputError naming the file if one is missing or differs."""
    path = folder / FOLDER / SUMS
    if not is_export(folder):
        raise InputError(
            f"{folder}: not an export ({path} is missing); allowed: a folder that tinylm export wrote"
        )
    _check_size(path)
    with _named(path):
        sums: Any = read_json(path)
    names = {WEIGHTS, CONFIG, TOKENIZER}
    digest = re.compile(r"[0-9a-f]{64}")
    if (
        not isinstance(sums, dict)
        or sums.keys() != names
        or not all(isinstance(value, str) and digest.fullmatch(value) for value in sums.values())
    ):
        raise InputError(
            f"{path}: allowed: the SHA-256 of {', '.join(sorted(names))}; fetch the export anew"
        )
    for name in names:
        _check_size(folder / FOLDER / name)
        if sha256(folder / FOLDER / name) != sums[name]:
            raise InputError(
                f"{folder / FOLDER / name}: not the file that was exported; fetch the export anew"
            )
    return sums


def _check_size(path: Path) -> None:
    if not path.is_file():
        raise InputError(f"{path} is missing; fetch the export anew")
    if path.stat().st_size > MAX_BYTES[path.name]:
        raise InputError(
            f"{path}: larger than {MAX_BYTES[path.name]} bytes; not a file of an export"
        )


@contextlib.contextmanager
def _named(source: Path) -> Iterator[None]:
    """Readers' messages say how to make a file again here; for an export's file, say only that it is damaged."""
    try:
        yield
    except InputError as error:
        reason = re.sub(r"[;:] (rm .* and )?run dvc repro.*", "", str(error))
        raise InputError(f"{reason}; the originals in {source} cannot be used") from None


@dataclasses.dataclass(frozen=True)
class _Shape:
    """What config.json says of the embedding."""

    vocab_size: int = setting(low=1, high=1 << 26)
    width: int = setting(low=1, high=1 << 20)


def _described_bytes(path: Path) -> tuple[int, int]:
    """Ids, and bytes of the weights, of the model that a config.json describes, without making it."""
    config: Any = read_json(path)
    if not isinstance(config, dict):
        raise InputError(f"{path}: not the config of a model")
    settings = read_section(config, "model", ModelSettings, str(path))
    named = {name: config[name] for name in ("vocab_size", "width") if name in config}
    shape = read_section({"config": named}, "config", _Shape, str(path))
    if problems := settings.problems_with_width(shape.width):
        raise InputError("\n".join(f"{path}: {problem}" for problem in problems))
    one, two = (_bytes(dataclasses.replace(settings, layers=layers), shape) for layers in (1, 2))
    return shape.vocab_size, one + (settings.layers - 1) * (two - one)


def _bytes(settings: ModelSettings, shape: _Shape) -> int:
    with torch.device("meta"):
        model = TinyLM(settings, torch.empty(shape.vocab_size, shape.width))
    return sum(tensor.nbytes for tensor in model.state_dict().values())


def _open(source: Path) -> tuple[int, Tokenizer]:
    """Parameters and tokenizer. InputError if config, weights and tokenizer do not belong to one model."""
    with _named(source):
        tokenizer = open_tokenizer(source / TOKENIZER)
        ids, expected = _described_bytes(source / CONFIG)
        if len(tokenizer) != ids:
            raise InputError(f"{source / TOKENIZER}: {len(tokenizer)} ids; the model has {ids}")
        with open(source / WEIGHTS, "rb") as handle:
            header = int.from_bytes(handle.read(8), "little")
        size = (source / WEIGHTS).stat().st_size - 8 - header
        if size != expected:
            raise InputError(
                f"{source / WEIGHTS}: {size} bytes of numbers; its config describes {expected}"
            )
        model, _ = load_model(source)
        check_vocabulary(source, source / TOKENIZER)
    return sum(parameter.numel() for parameter in model.parameters()), tokenizer
