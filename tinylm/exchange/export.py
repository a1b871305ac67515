"""A trained model as a folder that the library `transformers` loads."""

import dataclasses
from pathlib import Path
from typing import Any

import torch

from tinylm.base.config import InputError
from tinylm.base.files import atomic_folder, copy_file, write_bytes, write_json
from tinylm.base.paths import file_above
from tinylm.decoding.settings import DecodeSettings
from tinylm.exchange.generation import GENERATION_CONFIG, generation_config
from tinylm.exchange.gguf_file import GGUF, gguf_problem, write_gguf
from tinylm.exchange.originals import FOLDER, SUMS, is_export, write_originals
from tinylm.exchange.stock import StockForm, stock_form, stock_problem
from tinylm.exchange.tokenizer_files import (
    TOKENIZER,
    TOKENIZER_CONFIG,
    special_roles,
    tokenizer_files,
)
from tinylm.model.checkpoint import CONFIG, WEIGHTS
from tinylm.model.transformer import TinyLM
from tinylm.vocab.tokenizer import Tokenizer

MODELING = "modeling_tinylm.py"
# of all that is written
NAMES = {CONFIG, GENERATION_CONFIG, TOKENIZER, TOKENIZER_CONFIG, WEIGHTS, MODELING, GGUF, FOLDER}
ORIGINALS = {f"{FOLDER}/{name}" for name in (CONFIG, SUMS, TOKENIZER, WEIGHTS)}


@dataclasses.dataclass(frozen=True)
class Trained:
    """What is exported: the files that training left, and what was read from them."""

    models: str | Path
    vocab: str | Path
    model: TinyLM
    tokenizer: Tokenizer
    decode: DecodeSettings


def own_form(model: TinyLM) -> StockForm:
    """The weights under our own names, for the class in modeling_tinylm.py."""
    config = {
        "model_type": "tinylm",
        "architectures": ["TinyLMForCausalLM"],
        "auto_map": {
            "AutoConfig": "modeling_tinylm.TinyLMConfig",
            "AutoModelForCausalLM": "modeling_tinylm.TinyLMForCausalLM",
        },
        "vocab_size": model.vocab_size,
        "width": model.width,
        "model": dataclasses.asdict(model.settings),
        "dtype": "float32",
    }
    tensors = {name: tensor.detach().cpu() for name, tensor in model.state_dict().items()}
    return StockForm("TinyLMForCausalLM", config, tensors)


def _special_ids(tokenizer: Tokenizer) -> dict[str, int | None]:
    """bos, eos and pad of config.json; roles that no token plays are null, or the class's default would apply."""
    roles: dict[str, int | None] = dict.fromkeys(("bos_token_id", "eos_token_id", "pad_token_id"))
    return roles | {f"{role}_token_id": index for role, index in special_roles(tokenizer).items()}


def _write_weights(path: Path, tensors: dict[str, torch.Tensor]) -> None:
    """safetensors, float32; the metadata is how transformers recognises PyTorch's files."""
    from safetensors.torch import save

    rounded = {name: tensor.float().contiguous().clone() for name, tensor in tensors.items()}
    write_bytes(path, save(rounded, metadata={"format": "pt"}))


def export(folder: Path, trained: Trained, form: str, weights: str = "f32") -> StockForm:
    """Write config, weights, tokenizer, generation defaults and the originals into an empty folder; returns the form.

    Format gguf is one file beside the originals, its matrices in `weights`: f32, f16 or q8_0. Raises InputError if no
    architecture of transformers, or of llama.cpp, computes the model.
    """
    problem = ""
    if form == "transformers":
        problem = stock_problem(trained.model.settings)
    elif form == "gguf":
        problem = gguf_problem(trained.model.settings)
    if problem:
        raise InputError(f"{Path(trained.models) / CONFIG}: {problem}")
    if form == "gguf":
        written = write_gguf(folder / GGUF, trained.model, trained.tokenizer, weights)
        write_originals(folder, trained.models, trained.vocab)
        return written
    written = own_form(trained.model) if form == "tinylm" else stock_form(trained.model)
    context = trained.model.settings.context
    files: dict[str, Any] = {
        CONFIG: written.config | _special_ids(trained.tokenizer),
        GENERATION_CONFIG: generation_config(trained.tokenizer, trained.decode, context),
        **tokenizer_files(trained.tokenizer, context),
    }
    for name, content in files.items():
        write_json(folder / name, content)
    if form == "tinylm":
        copy_file(Path(__file__).with_name(MODELING), folder / MODELING)
    _write_weights(folder / WEIGHTS, written.tensors)
    write_originals(folder, trained.models, trained.vocab)
    return written


def export_folder(folder: Path, trained: Trained, form: str, weights: str = "f32") -> StockForm:
    """`export` in place of what is at `folder`: nothing, an empty folder or an earlier export."""
    allowed = "allowed: a new or empty folder, or an earlier export"
    if folder.is_symlink() or (folder.exists() and not folder.is_dir()):
        raise InputError(f"{folder}: not a folder; {allowed}")
    if above := file_above(folder):
        raise InputError(f"{folder}: {above} is a file; {allowed}")
    foreign = {path.name for path in folder.iterdir()} if folder.exists() else set()
    if is_export(folder):
        originals = {f"{FOLDER}/{path.name}" for path in (folder / FOLDER).iterdir()}
        foreign = (foreign - NAMES) | (originals - ORIGINALS)
    if foreign:
        raise InputError(f"{folder}: holds {min(foreign)}, which no export wrote; {allowed}")
    with atomic_folder(folder.resolve()) as new:
        return export(new, trained, form, weights)
