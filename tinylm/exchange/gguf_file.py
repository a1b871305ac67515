"""A trained model as one GGUF file, which llama.cpp loads as its architecture `gpt2`.

The tensors are those of the stock GPT-2 (`stock.py`), renamed by the library `gguf`. Two things differ there:

- the feed-forward's activation is the tanh form of gelu, on a CPU from a table in binary16. Our gelu is the exact one,
  so logits differ by some 1e-3. A relu model is exact: gelu(s z) / s is relu(z) but for |z| below 5 / s, so what is
  written to the residual stream is s times as large, s a power of two, and so is the root of the norms' epsilon;
- rows of Q8_0 are blocks of 32 weights: the stream is widened to a multiple of 32 (that the heads divide), and the
  feed-forward too.

https://github.com/ggml-org/ggml/blob/master/docs/gguf.md
"""

from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from tinylm.base.config import InputError
from tinylm.base.files import atomic_path
from tinylm.exchange.stock import StockForm, stock_form, stock_problem
from tinylm.exchange.stream import EPSILON
from tinylm.exchange.tokenizer_files import TOKENIZER, special_roles, tokenizer_files
from tinylm.model.settings import ModelSettings
from tinylm.model.transformer import TinyLM
from tinylm.vocab.tokenizer import Tokenizer

GGUF = "model.gguf"
WEIGHTS = ("f32", "f16", "q8_0")
BLOCK = 32  # weights of one block of Q8_0
LARGEST = 65504.0  # of binary16
_STEEPER = {
    "f32": 2.0**20,
    "f16": 2.0**10,
    "q8_0": 2.0**10,
}  # s: larger ones would leave the range of binary16
_TO_STREAM = (
    "wte.weight",
    "wpe.weight",
    "c_proj.bias",
    "attn.c_proj.weight",
    "ln_2.weight",
    "ln_2.bias",
    "c_fc.bias",
)


def gguf_problem(settings: ModelSettings) -> str:
    """Why llama.cpp's gpt2 cannot compute a model of these settings, and what it can; or ''."""
    for name, value, allowed in (
        ("norm", settings.norm, "pre"),
        ("final_norm", settings.final_norm, True),
    ):
        if value != allowed:
            shown, wanted = (str(each).lower() for each in (value, allowed))
            return f"model.{name} = {shown}: llama.cpp has GPT-2 alone of our forms; allowed with --format gguf: {wanted}"
    if settings.positions == "rotary":
        return (
            "model.positions = rotary: llama.cpp has GPT-2 alone of our forms; "
            "allowed with --format gguf: sinusoids | learned | none"
        )
    return stock_problem(settings)


def has_text(tokenizer: Tokenizer) -> bool:
    """Whether llama.cpp has the tokenizer too: byte pairs as they are. Others are ids only."""
    return tokenizer.kind in ("bpe", "gpt2") and tokenizer.normalise("A") == "A"


def write_gguf(path: Path, model: TinyLM, tokenizer: Tokenizer, weights: str) -> StockForm:
    """Write the file; weights: f32, or matrices as f16 or q8_0. Returns what was written, in float64.

    Raises InputError if llama.cpp has no such model, or if a weight exceeds binary16.
    """
    import gguf

    if problem := gguf_problem(model.settings):
        raise InputError(problem)
    form = _blocked(stock_form(model, BLOCK)) if weights == "q8_0" else stock_form(model)
    steeper = _STEEPER[weights] if form.config["activation_function"] == "relu" else 1.0
    tensors = _scaled(form, steeper)
    kind = gguf.GGMLQuantizationType[weights.upper()]
    names = gguf.get_tensor_name_map(gguf.MODEL_ARCH.GPT2, form.config["n_layer"])
    with atomic_path(path) as temporary:
        writer = gguf.GGUFWriter(temporary, gguf.MODEL_ARCH_NAMES[gguf.MODEL_ARCH.GPT2])
        file_type = gguf.LlamaFileType[f"{'ALL' if weights == 'f32' else 'MOSTLY'}_{kind.name}"]
        _describe(writer, form, EPSILON * steeper**2, file_type)
        _write_tokenizer(writer, tokenizer)
        for name, tensor in tensors.items():
            turned = (
                tensor.T if ".c_" in name and tensor.dim() == 2 else tensor
            )  # GPT-2 keeps these as (in, out)
            matrix = tensor.dim() == 2 and "wpe" not in name
            if matrix and weights != "f32" and (largest := float(turned.abs().max())) > LARGEST:
                raise InputError(
                    f"{name}: a weight of {largest:.3g}; allowed in {weights}: up to {LARGEST:g}; use f32"
                )
            to = kind if matrix else gguf.GGMLQuantizationType.F32
            data = gguf.quantize(turned.float().contiguous().numpy(), to)
            known = names.get_name(name, try_suffixes=(".weight", ".bias"))
            assert known is not None
            writer.add_tensor(known, data, raw_dtype=to)
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_tensors_to_file()
        writer.close()
    return form


def _blocked(form: StockForm) -> StockForm:
    """The feed-forward with zero channels up to a multiple of BLOCK: gelu(0) = 0."""
    more = -form.config["n_inner"] % BLOCK
    widths = {
        "c_fc.weight": (0, more),
        "c_fc.bias": (0, more),
        "mlp.c_proj.weight": (0, 0, 0, more),
    }
    tensors = {
        name: next(
            (
                torch.nn.functional.pad(tensor, pad)
                for end, pad in widths.items()
                if name.endswith(end)
            ),
            tensor,
        )
        for name, tensor in form.tensors.items()
    }
    return StockForm(
        form.architecture, form.config | {"n_inner": form.config["n_inner"] + more}, tensors
    )


def _scaled(form: StockForm, steeper: float) -> dict[str, Tensor]:
    """The tensors with a residual stream and feed-forward inputs `steeper` times as large; the logits stay.

    The feed-forward's second matrix stays, for its inputs are larger already.
    """
    tensors = {
        name: tensor * steeper if name.endswith(_TO_STREAM) else tensor
        for name, tensor in form.tensors.items()
    }
    if form.config["tie_word_embeddings"]:
        tensors |= {name: tensor / steeper for name, tensor in tensors.items() if ".ln_f." in name}
    return tensors


def _describe(writer: Any, form: StockForm, epsilon: float, file_type: int) -> None:
    config = form.config
    writer.add_name("tinylm")
    writer.add_context_length(config["n_positions"])
    writer.add_embedding_length(config["n_embd"])
    writer.add_block_count(config["n_layer"])
    writer.add_feed_forward_length(config["n_inner"])
    writer.add_head_count(config["n_head"])
    writer.add_layer_norm_eps(epsilon)
    writer.add_vocab_size(config["vocab_size"])
    writer.add_file_type(file_type)


def _write_tokenizer(writer: Any, tokenizer: Tokenizer) -> None:
    """Byte pairs with GPT-2's rule; or no vocabulary at all, so that ids go in and come out."""
    import gguf

    if not has_text(tokenizer):
        writer.add_tokenizer_model("no_vocab")
        return
    merges = tokenizer_files(tokenizer, 1)[TOKENIZER]["model"]["merges"]
    control, normal = gguf.TokenType.CONTROL, gguf.TokenType.NORMAL
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("gpt-2")
    writer.add_token_list(tokenizer.tokens)
    writer.add_token_types(
        [control if index in tokenizer.specials else normal for index in range(len(tokenizer))]
    )
    writer.add_token_merges([" ".join(pair) for pair in merges])
    roles = special_roles(tokenizer)
    for role, index in roles.items():
        getattr(writer, f"add_{role}_token_id")(index)
    writer.add_add_bos_token("bos" in roles)
