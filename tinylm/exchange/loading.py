"""A trained model read from its folder: what the commands and the Python interface share."""

from pathlib import Path
from typing import Any

from tinylm.base import paths
from tinylm.base.config import PARAMS_FILE, InputError, load_params, parse_yaml, read_section
from tinylm.base.machine import pick_device
from tinylm.decoding.settings import DecodeSettings
from tinylm.exchange.originals import is_export, verified
from tinylm.exchange.tokenizer_files import TOKENIZER
from tinylm.host.runtime import RuntimeSettings
from tinylm.model.checkpoint import CONFIG, check_vocabulary, load_checkpoints, load_model
from tinylm.model.transformer import TinyLM
from tinylm.presets.write import BASE, preset_text
from tinylm.vocab.tokenizer import Tokenizer, open_tokenizer


def read_params() -> dict[str, Any]:
    """params.yaml, or the complete preset where there is none: a trained model can be used anywhere."""
    if Path(PARAMS_FILE).exists():
        return load_params()
    return parse_yaml(preset_text(BASE), f"preset {BASE}")


def find(folder: str | Path, vocab: str | Path | None = None) -> tuple[Path, Path]:
    """(folder of the weights, tokenizer.json) of a run's models/ or of an export, whose originals are verified.

    Without `vocab` the tokenizer is the export's, or data/vocab/tokenizer.json beside models/.
    """
    models = Path(folder)
    if is_export(models):
        models = verified(models)
        beside = models / TOKENIZER
    else:
        beside = models.parent / paths.TOKENIZER
    return models, beside if vocab is None else Path(vocab)


def _checkpoint(models: Path, device: Any, epoch: float) -> TinyLM:
    """The weights after so many epochs. Raises InputError that names those there are."""
    checkpoints = dict(load_checkpoints(models, device))
    if epoch not in checkpoints:
        epochs = ", ".join(f"{name:g}" for name in checkpoints)
        present = epochs or "none, train.keep_epochs kept no weights"
        raise InputError(f"{models}: no weights of epoch {epoch:g}; there are: {present}")
    return checkpoints[epoch]


def load_parts(
    folder: str | Path, vocab: str | Path | None = None, epoch: float | None = None
) -> tuple[TinyLM, Tokenizer, DecodeSettings]:
    """The trained model on the device of params.yaml, its tokenizer, and section decode. Raises InputError.

    epoch: of weights that were kept during training, instead of the last ones.
    """
    params = read_params()
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
            f"{vocab} has {len(tokenizer)} ids, {models / CONFIG} {model.vocab_size}: they belong to different "
            "runs; run dvc repro train"
        )
    return model, tokenizer, decode


def use_threads() -> None:
    """Let PyTorch compute with `runtime.threads` of params.yaml."""
    import torch

    torch.set_num_threads(read_section(read_params(), "runtime", RuntimeSettings).threads)
