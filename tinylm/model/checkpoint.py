"""The trained model on disk: weights as safetensors, the rest as JSON; nothing is executable."""

import dataclasses
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save

from tinylm.base.config import PARAMS_FILE, InputError, read_section
from tinylm.base.files import read_json, require, sha256, write_bytes, write_json
from tinylm.model.ops import REFERENCE, Ops
from tinylm.model.settings import ModelSettings
from tinylm.model.transformer import RunBlocks, TinyLM, in_order

WEIGHTS = "model.safetensors"
CONFIG = "config.json"
CHECKPOINTS = "checkpoints"


def save_model(folder: str | Path, model: TinyLM, **extra: Any) -> None:
    """Write folder/model.safetensors, then folder/config.json.

    The config has the settings and `extra`.
    """
    tensors = {}
    for name, tensor in model.state_dict().items():
        tensors[name] = tensor.detach().cpu().contiguous()
    write_bytes(Path(folder) / WEIGHTS, save(tensors))
    config = {
        "model": dataclasses.asdict(model.settings),
        "vocab_size": model.vocab_size,
        "width": model.width,
        **extra,
    }
    write_json(Path(folder) / CONFIG, config)


def new_model(
    settings: ModelSettings,
    embedding: torch.Tensor,
    ops: Ops = REFERENCE,
    run_blocks: RunBlocks = in_order,
) -> TinyLM:
    """A model with fresh weights over the (V, D) matrix.

    Raises InputError if settings and width do not fit.
    """
    problems = settings.problems_with_width(embedding.shape[1])
    if problems:
        raise InputError("\n".join(f"{PARAMS_FILE}: {problem}" for problem in problems))
    return TinyLM(settings, embedding, ops, run_blocks)


def _read_config(path: Path) -> tuple[dict[str, Any], ModelSettings]:
    config = read_json(path, "train")
    if not isinstance(config, dict):
        raise InputError(f"{path}: not a model's config; rm {path} and run dvc repro train")
    return config, read_section(config, "model", ModelSettings, str(path))


def check_vocabulary(models: str | Path, tokenizer: str | Path) -> None:
    """InputError if the model was trained with another tokenizer.json: its ids mean other words."""
    config, _ = _read_config(Path(models) / CONFIG)
    expected = config.get("tokenizer_sha256")
    if expected is not None and expected != sha256(require(tokenizer, "vocab")):
        raise InputError(
            f"{tokenizer}: not the vocabulary that {models} was trained with; run dvc repro train"
        )


def load_model(
    folder: str | Path, device: torch.device | str = "cpu"
) -> tuple[TinyLM, dict[str, Any]]:
    """Read what `save_model` wrote: the model in evaluation mode and the config.

    Raises InputError naming the file.
    """
    config, settings = _read_config(Path(folder) / CONFIG)
    weights = require(Path(folder) / WEIGHTS, "train")
    return _load_weights(weights, settings).to(device).eval(), config


def checkpoint_name(epoch: float) -> str:
    """The name of a checkpoint: its number of epochs, with all digits, such as 3 or 0.25."""
    return repr(float(epoch)).removesuffix(".0")


def load_checkpoints(
    folder: str | Path, device: torch.device | str = "cpu"
) -> Iterator[tuple[float, TinyLM]]:
    """The weights saved during training, folder/checkpoints/EPOCH.safetensors.

    Yields (epoch, model in evaluation mode) in order; nothing if there are none. Raises InputError
    naming the file.
    """
    _, settings = _read_config(Path(folder) / CONFIG)
    files = (Path(folder) / CHECKPOINTS).glob("*.safetensors")
    for weights in sorted(files, key=lambda file: float(file.stem)):
        yield float(weights.stem), _load_weights(weights, settings).to(device).eval()


def _load_weights(weights: Path, settings: ModelSettings) -> TinyLM:
    """The model with the tensors of a file. Raises InputError if they do not fit."""
    try:
        tensors = load_file(weights)
        with torch.device("cpu"):  # whatever torch.set_default_device says
            model = TinyLM(settings, tensors["embedding"]).float()
        model.load_state_dict(tensors)
        for name, tensor in tensors.items():
            if tensor.dtype != torch.float32 or not tensor.isfinite().all():
                raise ValueError(f"{name}: expected finite numbers in float32, got {tensor.dtype}")
    except (SafetensorError, KeyError, ValueError, RuntimeError) as error:
        reason = " ".join(str(error).split())[:160]
        raise InputError(
            f"{weights}: not the weights of config.json: {reason}; rm {weights} and run "
            "dvc repro -f -s train"
        ) from None
    return model
