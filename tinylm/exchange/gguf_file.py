"""A trained model as one GGUF file, which llama.cpp loads as its architecture `gpt2`.

The tensors are those of the stock GPT-2 (`stock.py`), renamed by the library `gguf`. Two things
differ from GPT-2:

- llama.cpp's activation is the tanh form of gelu, on a CPU from a table in binary16. The exact gelu
  differs, so logits differ by some 1e-3. A relu model is exact: gelu(s z) / s is relu(z) except for
  |z| below 5 / s. So what is written to the residual stream is s times as large, s a power of two,
  and so is the root of the norms' epsilon.
- rows of Q8_0 are blocks of 32 weights: the stream is widened to a multiple of 32 that the heads
  divide, and the feed-forward too.

https://github.com/ggml-org/ggml/blob/master/docs/gguf.md
"""

from pathlib import Path
from typing import Any

from torch import Tensor

from tinylm.base.config import InputError
from tinylm.base.files import atomic_path
from tinylm.exchange.stock import EPSILON, ExportedModel, stock_form
from tinylm.exchange.tokenizer_files import TOKENIZER, special_roles, tokenizer_files
from tinylm.model.transformer import TinyLM
from tinylm.vocab.tokenizer import Tokenizer

GGUF = "model.gguf"
BLOCK = 32  # weights of one block of Q8_0
LARGEST = 65504.0  # of binary16
STEEPER = {"f32": 2.0**20, "f16": 2.0**10, "q8_0": 2.0**10}  # s, within the range of binary16
# What is written to the residual stream, and what feeds the activation.
SCALED = (
    "wte.weight",
    "wpe.weight",
    "c_proj.bias",
    "attn.c_proj.weight",
    "ln_2.weight",
    "ln_2.bias",
    "c_fc.bias",
)


def has_text(tokenizer: Tokenizer) -> bool:
    """Whether llama.cpp has the tokenizer too: byte pairs as they are. Others are ids only."""
    return tokenizer.kind in ("bpe", "gpt2") and tokenizer.normalise("A") == "A"


def write_gguf(path: Path, model: TinyLM, tokenizer: Tokenizer, weights: str) -> ExportedModel:
    """Write the file; weights: f32, or matrices as f16 or q8_0. Returns what was written.

    Raises InputError if llama.cpp's gpt2 cannot compute the model, or a weight exceeds binary16.
    """
    import gguf

    if model.settings.positions == "rotary":
        allowed = "sinusoids | learned | none"
        raise InputError(f"model.positions = rotary; allowed with --format gguf: {allowed}")
    form = stock_form(model, BLOCK if weights == "q8_0" else 1)
    steeper = STEEPER[weights] if form.config["activation_function"] == "relu" else 1.0
    names = gguf.get_tensor_name_map(gguf.MODEL_ARCH.GPT2, form.config["n_layer"])
    with atomic_path(path) as temporary:
        writer = gguf.GGUFWriter(temporary, gguf.MODEL_ARCH_NAMES[gguf.MODEL_ARCH.GPT2])
        _write_config(writer, form, EPSILON * steeper**2, weights)
        _write_tokenizer(writer, tokenizer)
        for name, tensor in _scaled(form, steeper).items():
            kind = gguf.GGMLQuantizationType.F32
            if tensor.dim() == 2 and "wpe" not in name:
                kind = gguf.GGMLQuantizationType[weights.upper()]
            if ".c_" in name and tensor.dim() == 2:  # GPT-2 keeps these as (in, out)
                tensor = tensor.T
            largest = float(tensor.abs().max())
            if weights != "f32" and largest > LARGEST:
                allowed = f"allowed with {weights}: up to {LARGEST:g}; use f32"
                raise InputError(f"{name}: a weight of {largest:.3g}; {allowed}")
            data = gguf.quantize(tensor.float().contiguous().numpy(), kind)
            gguf_name = names.get_name(name, try_suffixes=(".weight", ".bias"))
            writer.add_tensor(str(gguf_name), data, raw_dtype=kind)
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_tensors_to_file()
        writer.close()
    return form


def _scaled(form: ExportedModel, steeper: float) -> dict[str, Tensor]:
    """The tensors with a residual stream and inputs of the activation `steeper` times as large.

    The logits stay. The feed-forward's second matrix stays, since its inputs are larger already.
    """
    tensors = dict(form.tensors)
    for name in tensors:
        if name.endswith(SCALED):
            tensors[name] = tensors[name] * steeper
        elif ".ln_f." in name and form.config["tie_word_embeddings"]:
            tensors[name] = tensors[name] / steeper
    return tensors


def _write_config(writer: Any, form: ExportedModel, epsilon: float, weights: str) -> None:
    import gguf

    config = form.config
    mostly = "ALL" if weights == "f32" else "MOSTLY"
    writer.add_name("tinylm")
    writer.add_context_length(config["n_positions"])
    writer.add_embedding_length(config["n_embd"])
    writer.add_block_count(config["n_layer"])
    writer.add_feed_forward_length(config["n_inner"])
    writer.add_head_count(config["n_head"])
    writer.add_layer_norm_eps(epsilon)
    writer.add_vocab_size(config["vocab_size"])
    writer.add_file_type(gguf.LlamaFileType[f"{mostly}_{weights.upper()}"])


def _write_tokenizer(writer: Any, tokenizer: Tokenizer) -> None:
    """Byte pairs with GPT-2's rule; or no vocabulary at all, so that ids go in and come out."""
    import gguf

    if not has_text(tokenizer):
        writer.add_tokenizer_model("no_vocab")
        return
    merges = tokenizer_files(tokenizer, 1)[TOKENIZER]["model"]["merges"]
    kinds = [gguf.TokenType.NORMAL] * len(tokenizer)
    for index in tokenizer.specials:
        kinds[index] = gguf.TokenType.CONTROL
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("gpt-2")
    writer.add_token_list(tokenizer.tokens)
    writer.add_token_types(kinds)
    writer.add_token_merges([" ".join(pair) for pair in merges])
    roles = special_roles(tokenizer)
    for role, index in roles.items():
        getattr(writer, f"add_{role}_token_id")(index)
    writer.add_add_bos_token("bos" in roles)
