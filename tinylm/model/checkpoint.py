"""The trained model on disk: weights as safetensors, everything else as JSON; nothing is executable."""

import dataclasses
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save

from tinylm.base.config import PARAMS_FILE, InputError, read_section, setting
from tinylm.base.files import (
    check_sha256,
    check_sums,
    read_json,
    require,
    sha256,
    write_bytes,
    write_json,
)
from tinylm.model.ops import REFERENCE, Ops
from tinylm.model.settings import ModelSettings
from tinylm.model.transformer import RunBlocks, TinyLM, in_order

WEIGHTS = "model.safetensors"
CONFIG = "config.json"
CHECKPOINTS = "checkpoints"


def save_model(folder: str | Path, model: TinyLM, **extra: Any) -> None:
    """Write folder/model.safetensors, then folder/config.json with the settings, `extra` and the weights' SHA-256."""
    weights = Path(folder) / WEIGHTS
    tensors = {
        name: tensor.detach().cpu().contiguous() for name, tensor in model.state_dict().items()
    }
    write_bytes(weights, save(tensors))
    config = {
        "model": dataclasses.asdict(model.settings),
        "vocab_size": model.vocab_size,
        "width": model.width,
        **extra,
        "sha256": sha256(weights),
    }
    write_json(Path(folder) / CONFIG, config)


def new_model(
    settings: ModelSettings,
    embedding: torch.Tensor,
    ops: Ops = REFERENCE,
    run_blocks: RunBlocks = in_order,
) -> TinyLM:
    """A model with fresh weights over the (V, D) matrix. Raises InputError if settings and width do not fit."""
    problems = settings.problems_with_width(embedding.shape[1])
    if problems:
        raise InputError("\n".join(f"{PARAMS_FILE}: {problem}" for problem in problems))
    return TinyLM(settings, embedding, ops, run_blocks)


@dataclasses.dataclass(frozen=True)
class _Saved:
    """What config.json says of the weights."""

    vocab_size: int = setting(low=1)
    width: int = setting(low=1)
    sha256: str = setting()


def _read_config(path: Path) -> tuple[dict[str, Any], ModelSettings, _Saved]:
    check_sums(path, "train")
    config = read_json(path, "train")
    if not isinstance(config, dict):
        raise InputError(f"{path}: not the config of a model; rm {path} and run dvc repro train")
    settings = read_section(config, "model", ModelSettings, str(path))
    named = {
        field.name: config[field.name]
        for field in dataclasses.fields(_Saved)
        if field.name in config
    }
    saved = read_section({"config": named}, "config", _Saved, str(path))
    problems = settings.problems_with_width(saved.width)
    if problems:
        raise InputError("\n".join(f"{path}: {problem}" for problem in problems))
    return config, settings, saved


def _misfit(tensors: dict[str, torch.Tensor], wanted: dict[str, torch.Tensor]) -> str:
    """What is wrong with the tensors of a file; empty if nothing is."""
    odd = sorted(tensors.keys() ^ wanted.keys())
    if odd:
        return f"tensor {odd[0]} is {'missing' if odd[0] in wanted else 'unknown'}"
    for name, tensor in tensors.items():
        if tensor.shape != wanted[name].shape or tensor.dtype != torch.float32:
            expected = tuple(wanted[name].shape)
            return f"tensor {name} is {tuple(tensor.shape)} {tensor.dtype}; allowed: {expected} torch.float32"
        if not tensor.isfinite().all():
            return f"tensor {name} holds a value that is not finite"
    return ""


def check_vocabulary(models: str | Path, tokenizer: str | Path) -> None:
    """InputError if the model was trained with another tokenizer.json than this one: its ids mean other words."""
    config = read_json(Path(models) / CONFIG, "train")
    expected = config.get("tokenizer_sha256") if isinstance(config, dict) else None
    if expected is not None and expected != sha256(require(tokenizer, "vocab")):
        raise InputError(
            f"{tokenizer}: not the vocabulary that {models} was trained with; run dvc repro train"
        )


def load_model(
    folder: str | Path, device: torch.device | str = "cpu"
) -> tuple[TinyLM, dict[str, Any]]:
    """Read what `save_model` wrote: the model in evaluation mode and the config. Raises InputError naming the file."""
    path, weights = Path(folder) / CONFIG, Path(folder) / WEIGHTS
    config, settings, saved = _read_config(path)
    check_sha256(weights, saved.sha256, "train")
    return _with_weights(weights, path, settings, saved).to(device).eval(), config


def load_checkpoints(
    folder: str | Path, device: torch.device | str = "cpu"
) -> Iterator[tuple[float, TinyLM]]:
    """The weights kept during training, folder/checkpoints/EPOCH.safetensors: (epoch, model in evaluation mode), in order.

    Empty if none were kept. Raises InputError naming the file.
    """
    path = Path(folder) / CONFIG
    _, settings, saved = _read_config(path)
    kept = {}
    for weights in (Path(folder) / CHECKPOINTS).glob("*.safetensors"):
        try:
            kept[float(weights.stem)] = weights
        except ValueError:
            raise InputError(
                f"{weights}: named {weights.stem}; allowed: an epoch, as in 1.safetensors"
            ) from None
    for epoch, weights in sorted(kept.items()):
        check_sums(weights, "train")
        yield epoch, _with_weights(weights, path, settings, saved).to(device).eval()


def _with_weights(weights: Path, path: Path, settings: ModelSettings, saved: _Saved) -> TinyLM:
    """The model that the config at `path` describes with the tensors of `weights`."""
    try:
        tensors = load_file(weights)
    except SafetensorError as error:
        raise InputError(f"{weights}: not the weights of {path}: {str(error)[:160]}") from None
    embedding = tensors.get("embedding", torch.zeros(0, 0))
    problem = f"embedding is {tuple(embedding.shape)}; allowed: ({saved.vocab_size}, {saved.width})"
    if embedding.shape == (saved.vocab_size, saved.width):
        model = TinyLM(settings, embedding)
        problem = _misfit(tensors, model.state_dict())
    if problem:
        raise InputError(
            f"{weights}: not the weights of {path}: {problem}; rm {weights} and run dvc repro -f -s train"
        )
    model.load_state_dict(tensors)
    return model
