"""A trained model as one GGUF file, which llama.cpp loads as its architecture `gpt2`.

The tensors are those of the stock GPT-2 (`stock.py`) in float32, renamed by the library `gguf`. The
activation of llama.cpp is the tanh form of gelu, on a CPU from a table in binary16. For a gelu
model, logits differ by some 1e-3, for a relu model by some 1e-5, since relu(z) = gelu(s z) / s except
for |z| < 5 / s: see `steepened`.

https://github.com/ggml-org/ggml/blob/master/docs/gguf.md
"""

import dataclasses
import math
from pathlib import Path
from typing import Any

from tinylm.base.config import InputError
from tinylm.base.files import atomic_path
from tinylm.exchange.stock import ExportedModel, stock_form
from tinylm.exchange.tokenizer_files import TOKENIZER_JSON, special_roles, tokenizer_files
from tinylm.model.transformer import TinyLM
from tinylm.vocab.tokenizer import Tokenizer

GGUF = "model.gguf"
# The largest s. A model with large numbers gets a smaller one (`steepness`).
STEEPEST = 2.0**12
# What no number of a file in binary16 may exceed, a factor of two below the end of its range.
LARGEST_IN_F16 = 2.0**15


def has_text(tokenizer: Tokenizer) -> bool:
    """Whether llama.cpp has the tokenizer too: byte pairs as they are. Others are ids only.

    It loads no byte pairs without a single merge.
    """
    if tokenizer.kind not in ("bpe", "gpt2") or tokenizer.normalise("A") != "A":
        return False
    return bool(_merges(tokenizer))


def _merges(tokenizer: Tokenizer) -> list[list[str]]:
    merges: list[list[str]] = tokenizer_files(tokenizer, 1)[TOKENIZER_JSON]["model"]["merges"]
    return merges


def write_gguf(path: Path, model: TinyLM, tokenizer: Tokenizer) -> ExportedModel:
    """Write the file; returns what was written.

    Raises InputError if llama.cpp's gpt2 cannot compute the model.
    """
    import gguf

    if model.settings.positions == "rotary":
        raise InputError(
            "model.positions: --format gguf expects sinusoids, learned or none, got rotary"
        )
    form = stock_form(model)
    if model.settings.activation == "relu":
        form = steepened(form, steepness(form))
    names = gguf.get_tensor_name_map(gguf.MODEL_ARCH.GPT2, form.config["n_layer"])
    with atomic_path(path) as temporary:
        writer = gguf.GGUFWriter(temporary, gguf.MODEL_ARCH_NAMES[gguf.MODEL_ARCH.GPT2])
        _write_config(writer, form.config)
        _write_tokenizer(writer, tokenizer)
        for name, tensor in form.tensors.items():
            if ".c_" in name and tensor.dim() == 2:  # GPT-2 keeps these as (in, out)
                tensor = tensor.T
            gguf_name = names.get_name(name, try_suffixes=(".weight", ".bias"))
            writer.add_tensor(str(gguf_name), tensor.float().contiguous().numpy())
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_tensors_to_file()
        writer.close()
    return form


def steepness(form: ExportedModel) -> float:
    """Choose the s of `steepened` for a relu model, at most STEEPEST.

    It is the largest power of two, which rounds nothing, with which all matrices and activations fit
    into binary16. The input of a feed-forward layer is g x + b, where the normalised x has length
    sqrt(D). So its matrix W (in, out) and bias c give at most sqrt(D) |g W| + |b W + c| in each column.
    """
    largest = 1.0
    root = form.config["n_embd"] ** 0.5
    tensors = {name: tensor.double() for name, tensor in form.tensors.items()}
    for name, tensor in tensors.items():
        if "wte." in name or "wpe." in name or "attn.c_proj.weight" in name:
            largest = max(largest, float(tensor.abs().max()))
        elif name.endswith("mlp.c_fc.weight"):
            block = name.removesuffix("mlp.c_fc.weight")
            gain, bias = (tensors[f"{block}ln_2.{part}"] for part in ("weight", "bias"))
            moved = bias @ tensor + tensors[f"{block}mlp.c_fc.bias"]
            activated = root * (gain[:, None] * tensor).norm(dim=0) + moved.abs()
            entering = root * gain.abs() + bias.abs()
            largest = max(largest, float(activated.max()), float(entering.max()))
    power = math.floor(math.log2(LARGEST_IN_F16 / largest))
    return float(max(1.0, min(STEEPEST, 2.0**power)))


def steepened(form: ExportedModel, s: float) -> ExportedModel:
    """The GPT-2 with the same logits whose activation reads and gives s times as much.

    A norm gives the same for s x as for x, if its epsilon is s^2 times as large. So everything that
    is written to the residual stream becomes s times as large.
    """
    is_tied = form.config["tie_word_embeddings"]
    factors = {  # part of a name: what the tensor is multiplied by
        # written to the residual stream
        ".wte.": s,
        ".wpe.": s,
        ".attn.c_proj.": s,
        ".mlp.c_proj.bias": s,
        ".mlp.c_proj.weight": 1.0,  # what it reads is s times as large already
        # read by the activation
        ".ln_2.": s,
        ".mlp.c_fc.bias": s,
        # multiplied by the embedding, which has grown, if it is also the output layer
        ".ln_f.": 1 / s if is_tied else 1.0,
    }
    tensors = dict(form.tensors)
    for name, tensor in tensors.items():
        for part, factor in factors.items():
            if part in name:
                tensors[name] = tensor * factor
    epsilon = form.config["layer_norm_epsilon"] * s**2
    config = form.config | {"layer_norm_epsilon": epsilon}
    return dataclasses.replace(form, config=config, tensors=tensors)


def _write_config(writer: Any, config: dict[str, Any]) -> None:
    import gguf

    writer.add_name("tinylm")
    writer.add_context_length(config["n_positions"])
    writer.add_embedding_length(config["n_embd"])
    writer.add_block_count(config["n_layer"])
    writer.add_feed_forward_length(config["n_inner"])
    writer.add_head_count(config["n_head"])
    writer.add_layer_norm_eps(config["layer_norm_epsilon"])
    writer.add_vocab_size(config["vocab_size"])
    writer.add_file_type(gguf.LlamaFileType.ALL_F32)


def _write_tokenizer(writer: Any, tokenizer: Tokenizer) -> None:
    """Byte pairs with GPT-2's rule; or no vocabulary at all, so that ids go in and come out."""
    import gguf

    if not has_text(tokenizer):
        writer.add_tokenizer_model("no_vocab")
        return
    kinds = [gguf.TokenType.NORMAL] * len(tokenizer)
    for index in tokenizer.specials:
        kinds[index] = gguf.TokenType.CONTROL
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("gpt-2")
    writer.add_token_list(tokenizer.tokens)
    writer.add_token_types(kinds)
    writer.add_token_merges([" ".join(pair) for pair in _merges(tokenizer)])
    roles = special_roles(tokenizer)
    for role, index in roles.items():
        getattr(writer, f"add_{role}_token_id")(index)
    writer.add_add_bos_token("bos" in roles)
