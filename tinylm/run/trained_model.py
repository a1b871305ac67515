"""A trained model read from its folder: a run's models/, or an export.

An export carries the files that it was made from in its folder tinylm/. Commands read those.
"""

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tinylm.base import paths
from tinylm.base.config import InputError, read_section
from tinylm.base.machine import pick_device
from tinylm.base.runtime import RuntimeSettings
from tinylm.decoding.settings import DecodeSettings
from tinylm.model.checkpoint import (
    CONFIG,
    check_vocabulary,
    checkpoint_name,
    load_checkpoints,
    load_model,
)
from tinylm.model.transformer import TinyLM
from tinylm.run.downloaded import Corpus
from tinylm.run.lock import outdated, read_lock
from tinylm.run.result_files import read_result
from tinylm.vocab.open_tokenizer import open_tokenizer
from tinylm.vocab.tokenizer import Tokenizer

ORIGINALS = "tinylm"  # the folder in an export
ORIGINAL_TOKENIZER = "tokenizer.json"
ORIGINAL_CORPUS = "corpus.json"


@dataclasses.dataclass(frozen=True)
class TrainedModel:
    """The files that training left, and what was read from them.

    params: params.yaml as parsed. corpus: where the stories come from, None if nothing says so.
    """

    models: Path
    vocab: Path
    model: TinyLM
    tokenizer: Tokenizer
    decode: DecodeSettings
    params: Mapping[str, Any]
    corpus: Corpus | None = None


def is_export(folder: str | Path) -> bool:
    """Whether `write_originals` wrote into the folder."""
    return (Path(folder) / ORIGINALS / CONFIG).is_file()


def find(folder: str | Path, vocab: str | Path | None = None) -> tuple[Path, Path]:
    """(folder of the weights, tokenizer.json) of a run's models/ or of an export.

    Without `vocab` the tokenizer is the export's, or data/vocab/tokenizer.json next to models/.
    """
    models = Path(folder)
    tokenizer = models.parent / paths.TOKENIZER
    if is_export(models):
        models = models / ORIGINALS
        tokenizer = models / ORIGINAL_TOKENIZER
    return models, tokenizer if vocab is None else Path(vocab)


def _read_corpus(folder: Path) -> Corpus | None:
    """The corpus that an export recorded, or else stage download of the run beside the folder."""
    own = folder / ORIGINALS / ORIGINAL_CORPUS
    if own.exists():
        return read_result(Corpus, own, "download")
    noted = folder.parent / paths.results("download")
    has_other_stories = outdated(read_lock(folder.parent), ("download", "vocab", "train"))
    return (
        None if has_other_stories or not noted.exists() else read_result(Corpus, noted, "download")
    )


def folder_of_world(folder: str | Path, path: str) -> str:
    """Where the world of a run is: `data.path`, beside the folder of its model.

    An export may lie anywhere: if the path is not beside it, it is one of the working folder.
    """
    beside = Path(folder).parent / path
    return path if is_export(folder) and not beside.exists() else str(beside)


def _checkpoint(models: Path, device: Any, epoch: float) -> TinyLM:
    """The model after this many epochs. Raises InputError, with the existing checkpoints."""
    checkpoints = dict(load_checkpoints(models, device))
    if epoch not in checkpoints:
        epochs = ", ".join(map(checkpoint_name, checkpoints))
        reason = (
            "an export has the last ones"
            if models.name == ORIGINALS
            else "train.keep_epochs kept none"
        )
        present = epochs or f"none, {reason}"
        raise InputError(f"{models}: no weights of epoch {epoch:g}; available: {present}")
    return checkpoints[epoch]


def load_trained(
    folder: str | Path,
    params: Mapping[str, Any],
    vocab: str | Path | None = None,
    epoch: float | None = None,
) -> TrainedModel:
    """The trained model on the device of params.yaml, its tokenizer, and how to decode.

    params: params.yaml as parsed. epoch: load the weights kept at this epoch, instead of the last ones.
    Raises InputError, which names the file.
    """
    decode = read_section(params, "decode", DecodeSettings)
    runtime = read_section(params, "runtime", RuntimeSettings)
    models, vocab = find(folder, vocab)
    device = pick_device(runtime.device)
    if epoch is None:
        model, _ = load_model(models, device)
    else:
        model = _checkpoint(models, device, epoch)
    check_vocabulary(models, vocab)
    tokenizer = open_tokenizer(vocab)
    if len(tokenizer) != model.vocab_size:
        raise InputError(
            f"{vocab} has {len(tokenizer)} ids, but {models / CONFIG} has {model.vocab_size}: "
            "they come from different runs; run dvc repro train"
        )
    corpus = _read_corpus(Path(folder))
    return TrainedModel(models, vocab, model, tokenizer, decode, params, corpus)


def use_threads(params: Mapping[str, Any]) -> None:
    """Let PyTorch compute with `runtime.threads` of params.yaml."""
    import torch

    torch.set_num_threads(read_section(params, "runtime", RuntimeSettings).threads)
