"""What the commands that use a trained model share."""

from pathlib import Path
from typing import Any

from tinylm.base.config import PARAMS_FILE, InputError, load_params, parse_yaml, read_section
from tinylm.base.machine import pick_device
from tinylm.decoding.settings import DecodeSettings
from tinylm.host.runtime import RuntimeSettings
from tinylm.model.checkpoint import CONFIG, check_vocabulary, load_model
from tinylm.model.transformer import TinyLM
from tinylm.presets.write import BASE, preset_text
from tinylm.text.tokens.tokenizer import Tokenizer, open_tokenizer


def read_params() -> dict[str, Any]:
    """params.yaml, or the complete preset where there is none: a trained model can be used anywhere."""
    if Path(PARAMS_FILE).exists():
        return load_params()
    return parse_yaml(preset_text(BASE), f"preset {BASE}")


def load(models: str, vocab: str) -> tuple[TinyLM, Tokenizer, DecodeSettings]:
    """The trained model on the device of params.yaml, its tokenizer, and section decode. Raises InputError."""
    import torch

    params = read_params()
    decode = read_section(params, "decode", DecodeSettings)
    runtime = read_section(params, "runtime", RuntimeSettings)
    torch.set_num_threads(runtime.threads)
    model, _ = load_model(models, pick_device(runtime.device))
    check_vocabulary(models, vocab)
    tokenizer = open_tokenizer(vocab)
    if len(tokenizer) != model.vocab_size:
        raise InputError(
            f"{vocab} has {len(tokenizer)} ids, {Path(models) / CONFIG} {model.vocab_size}: they belong to different "
            "runs; run dvc repro train"
        )
    return model, tokenizer, decode
