"""A trained model as a folder that the library `transformers` loads."""

import dataclasses
import os
from pathlib import Path
from typing import Any

from tinylm.base.config import InputError
from tinylm.base.files import atomic_folder, copy_file, write_bytes, write_json
from tinylm.exchange.generation import GENERATION_CONFIG, generation_config
from tinylm.exchange.gguf_file import GGUF, write_gguf
from tinylm.exchange.read_back import check_export
from tinylm.exchange.remote_code import CONFIGURATION, WRAPPER, remote_code
from tinylm.exchange.stock import ExportedModel, stock_form
from tinylm.exchange.tokenizer_files import TOKENIZER_CONFIG, TOKENIZER_JSON, tokenizer_files
from tinylm.model.checkpoint import CONFIG, WEIGHTS
from tinylm.model.transformer import TinyLM
from tinylm.run.result_files import write_result
from tinylm.run.trained_model import (
    ORIGINAL_CORPUS,
    ORIGINAL_TOKENIZER,
    ORIGINALS,
    TrainedModel,
    is_export,
)
from tinylm.vocab.tokenizer import RULE_FILE

FILES = {CONFIG, GENERATION_CONFIG, TOKENIZER_JSON, TOKENIZER_CONFIG, WEIGHTS, GGUF}


def written_names() -> set[str]:
    """The files and folders that an export may hold."""
    return {*FILES, *remote_code(), ORIGINALS}


def tinylm_form(model: TinyLM) -> ExportedModel:
    """The weights under tinylm's own names, for the code of `remote_code`."""
    architecture = "TinyLMForCausalLM"
    settings = model.settings
    config = {
        "model_type": "tinylm",
        "architectures": [architecture],
        "auto_map": {
            "AutoConfig": f"{CONFIGURATION}.TinyLMConfig",
            "AutoModelForCausalLM": f"{WRAPPER}.{architecture}",
        },
        "vocab_size": model.vocab_size,
        "width": model.width,
        "model": dataclasses.asdict(settings),
        # what other tools read
        "hidden_size": model.width,
        "num_hidden_layers": settings.layers,
        "num_attention_heads": settings.heads,
        "max_position_embeddings": settings.context,
        "tie_word_embeddings": False,  # a tied output reads the embedding: there is one tensor
        "use_cache": False,
        "dtype": "float32",
    }
    tensors = dict(model.named_parameters()) | dict(model.named_buffers())
    named = {f"tinylm.{name}": tensor.detach().cpu() for name, tensor in tensors.items()}
    parameters = sum(parameter.numel() for parameter in model.parameters())
    return ExportedModel(architecture, config, named, parameters)


def _write_transformers(folder: Path, trained: TrainedModel, form: ExportedModel) -> None:
    """Config, weights (safetensors, float32), tokenizer and generation defaults."""
    from safetensors.torch import save

    context = trained.model.settings.context
    generation = generation_config(trained.tokenizer, trained.decode, context)
    if not form.config.get("use_cache", True):
        generation["use_cache"] = False
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


def export(folder: Path, trained: TrainedModel, form: str) -> ExportedModel:
    """Write a model and its originals into an empty folder; returns what was written.

    form: transformers, tinylm or gguf.
    Raises InputError if no architecture of transformers, or of llama.cpp, computes the model, or if
    the files that were written do not.
    """
    if form == "gguf":
        exported = write_gguf(folder / GGUF, trained.model, trained.tokenizer)
    elif form == "tinylm":
        exported = tinylm_form(trained.model)
        _write_transformers(folder, trained, exported)
        for name, text in remote_code().items():
            write_bytes(folder / name, text.encode())
    else:
        exported = stock_form(trained.model)
        _write_transformers(folder, trained, exported)
    write_originals(folder, trained)
    return dataclasses.replace(exported, check=check_export(folder, trained.model, form))


def export_folder(folder: Path, trained: TrainedModel, form: str) -> ExportedModel:
    """`export` to a folder that is new, empty or an earlier export, which is replaced."""
    wanted = "expected a new or empty folder, or an earlier export"
    if folder.is_symlink() or folder.is_file():
        raise InputError(f"{folder}: {wanted}, got a file or a link")
    present = {path.name for path in folder.iterdir()} if folder.exists() else set()
    foreign = present - written_names() if is_export(folder) else present
    if foreign:
        raise InputError(f"{folder}: {wanted}, got {min(foreign)}")
    with atomic_folder(folder.resolve()) as new:
        return export(new, trained, form)


def write_originals(folder: Path, trained: TrainedModel) -> None:
    """Copy weights, config and tokenizer into folder/tinylm, and note there what wrote the stories."""
    target = folder / ORIGINALS
    copy_file(trained.models / WEIGHTS, target / WEIGHTS)
    copy_file(trained.models / CONFIG, target / CONFIG)
    copy_file(trained.vocab, target / ORIGINAL_TOKENIZER)
    copy_file(trained.vocab.with_name(RULE_FILE), target / RULE_FILE)
    if corpus := trained.corpus:
        # Only a world's path is read. An absolute one, or that of other files, would publish a folder's name.
        is_told = corpus.source == "world" and not os.path.isabs(corpus.path or "")
        path = corpus.path if is_told else None
        write_result(target / ORIGINAL_CORPUS, dataclasses.replace(corpus, path=path))
