"""Whether the files of an export compute the model: they are read back, and their logits compared.

The format transformers is read by transformers where it is installed. Otherwise, and for the format
gguf, the graph of GPT-2 or GPT-NeoX is computed here from the tensors of the file, in float64. The
format tinylm is read by `TinyLM`, whose code it ships.
"""

import contextlib
import copy
import dataclasses
import importlib.util
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from tinylm.base.config import InputError
from tinylm.base.files import read_json
from tinylm.exchange.gguf_file import GGUF
from tinylm.exchange.stock import GPT2, GPT_NEOX
from tinylm.model.checkpoint import CONFIG, WEIGHTS
from tinylm.model.settings import ModelSettings
from tinylm.model.transformer import TinyLM

Logits = Callable[[Tensor], Tensor]  # ids (B, T) -> (B, T, V) float64
MOST_TOKENS = 256  # random ids whose logits are compared
# The largest difference allowed, as a share of the largest logit once each token's mean is subtracted.
BOUND = 1e-3
# With large weights float32 itself is inexact, so a difference of this many rounding errors is allowed.
ROUNDINGS = 10
GGUF_NAMES = {  # as in stock.GPT2
    "inputs": "token_embd",
    "positions": "position_embd",
    "blocks": "blk",
    "norm1": "attn_norm",
    "qkv": "attn_qkv",
    "out": "attn_output",
    "norm2": "ffn_norm",
    "up": "ffn_up",
    "down": "ffn_down",
    "final_norm": "output_norm",
    "output": "output",
}
ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "gelu": F.gelu,
    "relu": F.relu,
    "tanh": partial(F.gelu, approximate="tanh"),
}


@torch.no_grad()
def check_export(folder: Path, model: TinyLM, form: str) -> str:
    """Compare the logits of the files in a folder with the model's.

    form: transformers, tinylm or gguf. Returns a sentence that says what was compared.
    Raises InputError if they differ.
    """
    ours = copy.deepcopy(model).cpu().eval()
    length = min(MOST_TOKENS, model.settings.context)
    with torch.device("cpu"):  # whatever torch.set_default_device says
        generator = torch.Generator().manual_seed(1)
        ids = torch.randint(model.vocab_size, (1, length), generator=generator)
        rounded = ours.float()(ids).double()
        exact = ours.double()(ids)
        del ours
        reader, logits = _reader_of(folder, form)
        found = logits(ids)
        del logits  # a copy of all weights in float64
    if not exact.isfinite().all():
        return "the model's logits are not finite, so the files were not compared with it"
    # A constant added to all logits of a token changes no probability, but would hide differences.
    largest = float((exact - exact.mean(-1, keepdim=True)).abs().max())
    allowed = BOUND * largest
    if rounded.isfinite().all():
        allowed = max(allowed, ROUNDINGS * float((rounded - exact).abs().max()))
    difference = float((found - exact).abs().max())
    if not difference <= allowed:  # true for nan
        raise InputError(
            "nothing was exported, because the exported files do not reproduce the model: their logits, read by "
            f"{reader}, differ by up to {difference:.2g}, expected at most {allowed:.2g}; please report this model's "
            "params.yaml"
        )
    sentence = (
        f"logits read back by {reader} differ by at most {difference:.1g} (largest {largest:.3g})"
    )
    if form == "gguf":
        # Not an error of the file: llama.cpp approximates gelu, and some models amplify the difference.
        off = float((_gguf_graph(folder / GGUF, "tanh").logits(ids) - exact).abs().max())
        sentence += f"; with llama.cpp's approximation of gelu, by at most {off:.1g}"
    return sentence


def _reader_of(folder: Path, form: str) -> tuple[str, Logits]:
    """(who reads the files, their function)."""
    if form == "gguf":
        return "tinylm's own GPT-2", _gguf_graph(folder / GGUF, "gelu").logits
    if form == "tinylm":
        return "tinylm", _tinylm_model(folder)
    reason = ""
    if importlib.util.find_spec("transformers") is not None:
        try:
            return _by_transformers(folder)
        except Exception as error:  # an installation that is broken, or too old for the format
            lines = str(error).splitlines() or [type(error).__name__]
            reason = f" (transformers could not: {lines[0]})"
    graph = _stock_graph(folder)
    return f"tinylm's own {'GPT-NeoX' if graph.rotated else 'GPT-2'}{reason}", graph.logits


def _by_transformers(folder: Path) -> tuple[str, Logits]:
    import transformers

    with _quiet(transformers.logging):
        model = transformers.AutoModelForCausalLM.from_pretrained(folder)
    model = model.double().eval()

    def logits(ids: Tensor) -> Tensor:
        # Without a mask, transformers warns about padding if the random ids contain its token.
        return cast(Tensor, model(ids, attention_mask=torch.ones_like(ids)).logits)

    return f"transformers {transformers.__version__}", logits


@contextlib.contextmanager
def _quiet(logging: Any) -> Iterator[None]:
    """Without transformers' progress bars and notes, which are about loading a model to use it."""
    verbosity, shows_bars = logging.get_verbosity(), logging.is_progress_bar_enabled()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        logging.set_verbosity(verbosity)
        if shows_bars:
            logging.enable_progress_bar()


def _tensors(folder: Path) -> dict[str, Tensor]:
    from safetensors.torch import load_file

    return {name: tensor.double() for name, tensor in load_file(folder / WEIGHTS).items()}


def _tinylm_model(folder: Path) -> Logits:
    config = read_json(folder / CONFIG)
    tensors = {name.removeprefix("tinylm."): tensor for name, tensor in _tensors(folder).items()}
    model = TinyLM(ModelSettings(**config["model"]), tensors["embedding"]).double().eval()
    model.load_state_dict(tensors, strict=False)  # tables of positions are in the file too
    return model


def _stock_graph(folder: Path) -> "_Graph":
    config = read_json(folder / CONFIG)
    tensors = _tensors(folder)
    if config["model_type"] == "gpt_neox":
        head_width = config["hidden_size"] // config["num_attention_heads"]
        return _Graph(
            tensors,
            GPT_NEOX,
            layers=config["num_hidden_layers"],
            heads=config["num_attention_heads"],
            epsilon=config["layer_norm_eps"],
            activation=ACTIVATIONS[config["hidden_act"]],
            rotated=int(head_width * config["rotary_pct"]),
            base=config["rotary_emb_base"],
        )
    for name, tensor in tensors.items():
        if ".c_" in name and tensor.dim() == 2:
            tensors[name] = tensor.T  # GPT-2 keeps these as (in, out)
    return _Graph(
        tensors,
        GPT2,
        layers=config["n_layer"],
        heads=config["n_head"],
        epsilon=config["layer_norm_epsilon"],
        activation=ACTIVATIONS[config["activation_function"]],
    )


def _gguf_graph(path: Path, activation: str) -> "_Graph":
    """The graph of a GGUF file. activation: a name in ACTIVATIONS."""
    import gguf

    reader = gguf.GGUFReader(path)
    tensors = {}
    for tensor in reader.tensors:
        values = np.array(gguf.dequantize(tensor.data, tensor.tensor_type))
        tensors[tensor.name] = torch.from_numpy(values).double()

    def field(name: str) -> Any:
        return reader.fields[f"gpt2.{name}"].contents()

    return _Graph(
        tensors,
        GGUF_NAMES,
        layers=field("block_count"),
        heads=field("attention.head_count"),
        epsilon=field("attention.layer_norm_epsilon"),
        activation=ACTIVATIONS[activation],
    )


@dataclasses.dataclass(frozen=True)
class _Graph:
    """GPT-2, or GPT-NeoX with sequential residuals, over tensors by name.

    names: of our parts, as in stock.py. Matrices are (out, in).
    rotated: channels of each head of GPT-NeoX that are rotated; 0 is a GPT-2.
    """

    tensors: Mapping[str, Tensor]
    names: Mapping[str, str]
    layers: int
    heads: int
    epsilon: float
    activation: Callable[[Tensor], Tensor]
    rotated: int = 0
    base: float = 10000.0

    def logits(self, ids: Tensor) -> Tensor:
        """(B, T) -> (B, T, V)"""
        inputs = self.tensors[f"{self.names['inputs']}.weight"]
        x = inputs[ids]
        if not self.rotated:
            x = x + self.tensors[f"{self.names['positions']}.weight"][: ids.shape[1]]
        for layer in range(self.layers):
            part = {
                name: f"{self.names['blocks']}.{layer}.{self.names[name]}"
                for name in ("norm1", "qkv", "out", "norm2", "up", "down")
            }
            mixed = self._attention(self._linear(part["qkv"], self._norm(part["norm1"], x)))
            x = x + self._linear(part["out"], mixed)
            inner = self.activation(self._linear(part["up"], self._norm(part["norm2"], x)))
            x = x + self._linear(part["down"], inner)
        output = self.tensors.get(f"{self.names['output']}.weight", inputs)
        return self._norm(self.names["final_norm"], x) @ output.T

    def _linear(self, name: str, x: Tensor) -> Tensor:
        return F.linear(x, self.tensors[f"{name}.weight"], self.tensors[f"{name}.bias"])

    def _norm(self, name: str, x: Tensor) -> Tensor:
        gain, bias = self.tensors[f"{name}.weight"], self.tensors[f"{name}.bias"]
        return F.layer_norm(x, x.shape[-1:], gain, bias, self.epsilon)

    def _attention(self, projected: Tensor) -> Tensor:
        """Causal attention of all heads.  (B, T, 3 W) -> (B, T, W)"""
        if self.rotated:  # queries, keys and values lie together for each head
            each = projected.unflatten(-1, (self.heads, 3, -1)).permute(3, 0, 2, 1, 4)
        else:
            each = projected.unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        queries, keys, values = each  # (B, H, T, Dh)
        if self.rotated:
            queries, keys = self._rotate(queries), self._rotate(keys)
        mixed = F.scaled_dot_product_attention(queries, keys, values, is_causal=True)
        return mixed.transpose(1, 2).flatten(-2)

    def _rotate(self, x: Tensor) -> Tensor:
        """Each pair (i, i + rotated / 2) of a head's channels, by position times base^(-2i / rotated)."""
        half = self.rotated // 2
        rates = self.base ** (-torch.arange(half, dtype=torch.float64) / half)
        angles = torch.arange(x.shape[-2], dtype=torch.float64)[:, None] * rates  # (T, half)
        first, second, rest = x.split((half, half, x.shape[-1] - self.rotated), dim=-1)
        cos, sin = angles.cos(), angles.sin()
        return torch.cat([first * cos - second * sin, second * cos + first * sin, rest], dim=-1)
