"""A trained model as a folder that the library `transformers` loads."""

import dataclasses
from pathlib import Path
from typing import Any

from tinylm.base.config import InputError
from tinylm.base.files import atomic_folder, copy_file, write_bytes, write_json
from tinylm.exchange.generation import GENERATION_CONFIG, generation_config
from tinylm.exchange.gguf_file import GGUF, write_gguf
from tinylm.exchange.loading import ORIGINALS, Trained, is_export, write_originals
from tinylm.exchange.stock import StockForm, stock_form
from tinylm.exchange.tokenizer_files import TOKENIZER, TOKENIZER_CONFIG, tokenizer_files
from tinylm.model.checkpoint import CONFIG, WEIGHTS
from tinylm.model.transformer import TinyLM

MODELING = "modeling_tinylm.py"
# of all that is written
NAMES = {CONFIG, GENERATION_CONFIG, TOKENIZER, TOKENIZER_CONFIG, WEIGHTS, MODELING, GGUF, ORIGINALS}


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


def _write_transformers(folder: Path, trained: Trained, form: StockForm) -> None:
    """Config, weights (safetensors, float32), tokenizer and generation defaults."""
    from safetensors.torch import save

    context = trained.model.settings.context
    generation = generation_config(trained.tokenizer, trained.decode, context)
    # roles that no token plays are null, or the class's default would apply
    roles = {key: generation.get(key) for key in ("bos_token_id", "eos_token_id", "pad_token_id")}
    files: dict[str, Any] = {
        CONFIG: form.config | roles,
        GENERATION_CONFIG: generation,
        **tokenizer_files(trained.tokenizer, context),
    }
    for name, content in files.items():
        write_json(folder / name, content)
    rounded = {}
    for name, tensor in form.tensors.items():
        rounded[name] = tensor.float().contiguous().clone()
    # transformers recognises PyTorch's files by this metadata
    write_bytes(folder / WEIGHTS, save(rounded, metadata={"format": "pt"}))


def export(folder: Path, trained: Trained, form: str, weights: str = "f32") -> StockForm:
    """Write a model and its originals into an empty folder; returns what was written.

    form: transformers, tinylm, or gguf with its matrices in `weights`: f32, f16 or q8_0.
    Raises InputError if no architecture of transformers, or of llama.cpp, computes the model.
    """
    if form == "gguf":
        exported = write_gguf(folder / GGUF, trained.model, trained.tokenizer, weights)
    elif form == "tinylm":
        exported = own_form(trained.model)
        copy_file(Path(__file__).with_name(MODELING), folder / MODELING)
        _write_transformers(folder, trained, exported)
    else:
        exported = stock_form(trained.model)
        _write_transformers(folder, trained, exported)
    write_originals(folder, trained)
    return exported


def export_folder(folder: Path, trained: Trained, form: str, weights: str = "f32") -> StockForm:
    """`export` to a folder that is new, empty or an earlier export, which is replaced."""
    allowed = "allowed: a new or empty folder, or an earlier export"
    if folder.is_symlink() or folder.is_file():
        raise InputError(f"{folder}: a file or a link; {allowed}")
    present = {path.name for path in folder.iterdir()} if folder.exists() else set()
    foreign = present - NAMES if is_export(folder) else present
    if foreign:
        raise InputError(f"{folder}: holds {min(foreign)}, which no export wrote; {allowed}")
    with atomic_folder(folder.resolve()) as new:
        return export(new, trained, form, weights)
