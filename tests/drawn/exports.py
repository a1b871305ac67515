"""Properties of exports, read by those for whom they are made: transformers, and llama.cpp's GPT-2 in plain code."""

import importlib.util
import random
import re
import tempfile
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import pytest
import tokenizers
import torch
import transformers
from torch import Tensor
from torch.nn import functional as F

import tinylm
from tests.drawn.corpora import LANGUAGES, MARKS
from tests.drawn.drawing import DrawnRun
from tests.drawn.models import plain_model, random_model, settings_of
from tests.drawn.properties import ALONE, holds
from tests.drawn.rounding import BF16, F16, FP32, Q8_0, Exact, exactly
from tests.drawn.running import in_folder
from tests.support.remote_code import own_modules
from tests.support.small import words_of
from tinylm.base.config import InputError, read_section
from tinylm.cli import main
from tinylm.decoding.settings import DecodeSettings
from tinylm.exchange import read_back
from tinylm.exchange.export import export_folder
from tinylm.exchange.stock import REQUIRED
from tinylm.model.checkpoint import load_model, save_model
from tinylm.model.transformer import TinyLM
from tinylm.run.trained_model import TrainedModel
from tinylm.vocab.open_tokenizer import open_tokenizer
from tinylm.vocab.tokenizer import Tokenizer

transformers.logging.disable_progress_bar()
FORMATS = ("transformers", "tinylm", "gguf")
SHAPES = 12  # of one example
WIDEST = 320
LARGER = 8  # powers of two
BLOCK = 32  # numbers that Q8_0 scales together
# Of the GGUF format: the tanh form of gelu, and a steep gelu instead of relu, each off by up to so much of the logits.
GELU_ERROR = 5e-3
TEXT = "the cat sat on a mat and saw two big dogs run far from home as rain came down fast"


class AsLlama:
    """The graph of llama.cpp's gpt2 over the tensors of a file, in float64.

    Matrices become `kind` where their rows are whole blocks, otherwise F16, as llama.cpp quantises; then what they are
    multiplied by is rounded in the same way.
    """

    def __init__(
        self, path: Path, kind: gguf.GGMLQuantizationType = gguf.GGMLQuantizationType.F32
    ) -> None:
        reader = gguf.GGUFReader(path)
        self.fields = {name: field.contents() for name, field in reader.fields.items()}
        self.kinds = {}
        self.tensors = {}
        for tensor in reader.tensors:
            values = gguf.dequantize(tensor.data, tensor.tensor_type)
            is_matrix = values.ndim == 2 and not tensor.name.startswith("position")
            if is_matrix and kind != gguf.GGMLQuantizationType.F32:
                fits = values.shape[1] % gguf.GGML_QUANT_SIZES[kind][0] == 0
                self.kinds[tensor.name] = kind if fits else gguf.GGMLQuantizationType.F16
            self.tensors[tensor.name] = self.rounded(tensor.name, values)

    def rounded(self, name: str, values: Any) -> Tensor:
        """The values as a matrix of this name holds them, or what it is multiplied by."""
        values = np.ascontiguousarray(values, dtype=np.float32)
        if kind := self.kinds.get(name):
            with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
                values = gguf.dequantize(gguf.quantize(values, kind), kind)
        return torch.from_numpy(values.copy()).double()

    def product(self, name: str, x: Tensor) -> Tensor:
        if name in self.kinds:
            x = self.rounded(name, x.numpy())
        return x @ self.tensors[name].T

    def linear(self, name: str, x: Tensor) -> Tensor:
        return self.product(f"{name}.weight", x) + self.tensors.get(f"{name}.bias", 0.0)

    def norm(self, name: str, x: Tensor) -> Tensor:
        gain, bias = (self.tensors[f"{name}.{part}"] for part in ("weight", "bias"))
        return F.layer_norm(
            x, x.shape[-1:], gain, bias, self.fields["gpt2.attention.layer_norm_epsilon"]
        )

    def attention(self, block: str, x: Tensor) -> Tensor:
        projected = self.linear(f"{block}.attn_qkv", self.norm(f"{block}.attn_norm", x))
        heads = self.fields["gpt2.attention.head_count"]
        parts = [part.unflatten(-1, (heads, -1)).transpose(0, 1) for part in projected.chunk(3, -1)]
        mixed = F.scaled_dot_product_attention(*parts, is_causal=True)
        return self.linear(f"{block}.attn_output", mixed.transpose(0, 1).flatten(1))

    def __call__(self, ids: Tensor) -> Tensor:
        """(T,) -> (T, V)"""
        x = (
            self.tensors["token_embd.weight"][ids]
            + self.tensors["position_embd.weight"][: len(ids)]
        )
        for layer in range(self.fields["gpt2.block_count"]):
            block = f"blk.{layer}"
            x = x + self.attention(block, x)
            up = self.linear(f"{block}.ffn_up", self.norm(f"{block}.ffn_norm", x))
            x = x + self.linear(f"{block}.ffn_down", F.gelu(up, approximate="tanh"))
        output = "output.weight" if "output.weight" in self.tensors else "token_embd.weight"
        return self.product(output, self.norm("output_norm", x))


def exact_logits(model: TinyLM, ids: Tensor, unit: float) -> Exact:
    """(T, V)"""
    (exact,) = exactly(lambda plain: [plain(ids[None])[0]], lambda: plain_model(model), unit)
    return exact


def exported(folder: Path, trained: TrainedModel, form: str) -> bool:
    """Whether the model was exported; a refusal names a key of section model."""
    try:
        export_folder(folder, trained, form)
        return True
    except InputError as error:
        refusal = str(error)
    assert re.match(r"model\.\w+: ", refusal), f"--format {form}: {refusal}"
    return False


def check_logits(
    folder: Path, model: TinyLM, form: str, ids: Tensor, where: str, is_first: bool = True
) -> None:
    """What an export computes for these ids (T,); in bfloat16 too, if it is the first."""
    if form == "gguf":
        check_gguf(folder / "model.gguf", model, ids, where)
        return
    trust = {"trust_remote_code": True} if form == "tinylm" else {}
    for dtype, unit in ((torch.float32, FP32), (torch.bfloat16, BF16))[: 1 + is_first]:
        with own_modules():
            reader = transformers.AutoModelForCausalLM
            read = reader.from_pretrained(folder, dtype=dtype, **trust).eval()
        with torch.no_grad():
            logits = read(ids[None]).logits[0]
        exact_logits(model, ids, unit).check(logits, f"{where}{type(read).__name__}, {dtype}")


def check_gguf(path: Path, model: TinyLM, ids: Tensor, where: str) -> None:
    """In F32, quantised to Q8_0, and in F16."""
    kinds = gguf.GGMLQuantizationType
    for kind, unit in ((kinds.F32, FP32), (kinds.F16, F16), (kinds.Q8_0, Q8_0)):
        exact = exact_logits(model, ids, unit)
        off = GELU_ERROR * float(exact.value.norm())
        logits = AsLlama(path, kind)(ids)
        exact.with_slack(off).check(logits, f"{where}GGUF, {kind.name}")


def drawn_shape(rng: np.random.Generator) -> tuple[int, dict[str, Any]]:
    """(width, changes of section model): any shape of a small model, and in most cases one that GPT-2 can have.

    Every second one is rotary: transformers has an architecture of its own for it.
    """
    heads = int(rng.integers(1, 7))
    width = int(rng.integers(2, WIDEST + 1))
    if rng.random() < 0.3:
        width = -(-width // BLOCK) * BLOCK
    head_width = int(rng.integers(1, -(-width // heads) + 4))
    changes: dict[str, Any] = {"heads": heads, "layers": int(rng.integers(1, 3))}
    if rng.random() < 0.5:
        changes["positions"] = "rotary"
    # Rotary positions need an even width; the others may have it.
    changes |= {"head_width": head_width + head_width % 2, "feed_forward": int(rng.integers(1, 65))}
    return width, changes | (REQUIRED if rng.random() < 0.8 else {})


@torch.no_grad()
def enlarge(model: TinyLM, factor: float) -> None:
    """Multiply what the feed-forward layers activate, as long training at a high learning rate does."""
    for name, parameter in model.named_parameters():
        if ".up." in name:
            parameter.mul_(factor)


def check_shapes(drawn: DrawnRun, folder: Path, form: str) -> None:
    """Models of several shapes, exported in this format if it accepts them."""
    rng = np.random.default_rng(drawn.number)
    tokenizer = words_of([TEXT])
    tokenizer.save(folder / "tokenizer.json")
    decode = read_section(drawn.params(), "decode", DecodeSettings)
    for number in range(SHAPES):
        width, changes = drawn_shape(rng)
        settings = settings_of(drawn, **changes)
        model = random_model(settings, len(tokenizer), width, drawn.number + number)
        enlarge(model, 2.0 ** int(rng.integers(LARGER + 1)))
        models = folder / f"models{number}"
        save_model(models, model)
        trained = TrainedModel(
            models, folder / "tokenizer.json", model, tokenizer, decode, drawn.params()
        )
        length = int(rng.integers(1, settings.context + 1))
        ids = torch.from_numpy(rng.integers(len(tokenizer), size=length))
        target = folder / f"export{number}"
        if exported(target, trained, form):
            with pytest.MonkeyPatch.context() as patch:  # as where transformers is not installed
                patch.setattr(importlib.util, "find_spec", lambda name: None)
                read_back.check_export(target, model, form)
            check_logits(target, model, form, ids, f"width {width}, {changes}, ", not number)


@holds(ALONE, settings_alone=True)
def transformers_computes_an_export_of_any_shape(drawn: DrawnRun, folder: Path) -> None:
    """GPT-2 and GPT-NeoX have tinylm's logits, in float32 and in bfloat16."""
    check_shapes(drawn, folder, "transformers")


@holds(ALONE, settings_alone=True)
def the_code_in_an_export_computes_any_shape(drawn: DrawnRun, folder: Path) -> None:
    """So does what transformers runs with trust_remote_code."""
    check_shapes(drawn, folder, "tinylm")


@holds(ALONE, settings_alone=True)
def llama_cpp_computes_a_gguf_of_any_shape(drawn: DrawnRun, folder: Path) -> None:
    """Its graph has tinylm's logits, also with matrices that are quantised."""
    check_shapes(drawn, folder, "gguf")


@holds("trained")
def an_exported_run_computes_its_model(drawn: DrawnRun, folder: Path) -> None:
    """`tinylm export` in every format that accepts the model."""
    rng = np.random.default_rng(drawn.number)
    model, _ = load_model(folder / "models")
    length = int(rng.integers(1, model.settings.context + 1))
    ids = torch.from_numpy(rng.integers(model.vocab_size, size=length))
    with tempfile.TemporaryDirectory() as name, in_folder(folder):
        for form in FORMATS:
            target = Path(name) / form
            code = main(["export", str(target), "--format", form])
            assert code in (0, 2), f"tinylm export --format {form}: exit code {code}"
            assert target.exists() == (code == 0)
            if code == 0:
                check_logits(target, model, form, ids, "the trained model, ")


def judged(models: Path | str) -> str:
    """What the generator expects at the start of a story, beside this model, or why it is not asked."""
    try:
        return repr(tinylm.load(models).truth("").to_dict())
    except InputError as error:
        return str(error)


@holds("trained")
def the_generator_judges_an_export_as_its_run(drawn: DrawnRun, folder: Path) -> None:
    """A world whose files have changed since judges neither."""
    data = drawn.params()["data"]
    with tempfile.TemporaryDirectory() as name, in_folder(folder):
        target = Path(name) / "export"
        assert main(["export", str(target), "--format", "tinylm"]) == 0
        assert judged(target) == judged("models")
        if data["source"] != "world":
            return
        plots = folder / data["path"] / "plots.txt"
        content = plots.read_bytes()
        try:
            plots.write_bytes(content + b"\n# changed\n")
            for models in (target, "models"):
                found = judged(models)
                assert "got changed ones" in found, f"{models}: {found}"
        finally:
            plots.write_bytes(content)


@holds("prepared")
def the_tokenizer_of_an_export_gives_tinylms_ids(drawn: DrawnRun, folder: Path) -> None:
    """Of the run's texts and of any other; its decoded text is tinylm's, but for spaces and <unk> (export.md)."""
    tokenizer = open_tokenizer(folder / "data/vocab/tokenizer.json")
    chooser = random.Random(drawn.number)
    texts = [drawn_text(chooser) for _ in range(30)] + drawn.files.texts()[:9]
    settings = settings_of(drawn, heads=1, head_width=2, positions="none", **REQUIRED)
    model = random_model(settings, len(tokenizer), 4, drawn.number)
    decode = read_section(drawn.params(), "decode", DecodeSettings)
    with tempfile.TemporaryDirectory() as name:
        save_model(Path(name) / "models", model)
        vocabulary = folder / "data/vocab/tokenizer.json"
        trained = TrainedModel(
            Path(name) / "models", vocabulary, model, tokenizer, decode, drawn.params()
        )
        assert exported(Path(name) / "export", trained, "transformers")
        read = transformers.AutoTokenizer.from_pretrained(Path(name) / "export")
        assert exported(Path(name) / "gguf", trained, "gguf")
        fields = AsLlama(Path(name) / "gguf/model.gguf").fields
    for text in filter(str.strip, texts):
        if tokenizer.kind == "longest_match" and tokenizer.normalise(text) != spelled(
            tokenizer, text
        ):
            continue  # refused there, see export.md
        ids = [*([] if tokenizer.sos_id is None else [tokenizer.sos_id]), *tokenizer.encode(text)]
        found = read(text).input_ids
        assert found == ids, f"{text!r}: expected ids {ids}, got {found}"
        ours = tokenizer.decode([index for index in ids if index != tokenizer.unk_id])
        theirs = read.decode(ids, skip_special_tokens=True)
        if drawn.params()["vocab"]["punctuation"] == "keep":
            ours, theirs = ours.replace(" ", ""), theirs.replace(" ", "")
        assert theirs == ours, f"ids {ids}: expected {ours!r}, got {theirs!r}"
    check_vocabulary_of_gguf(fields, tokenizer, texts)


def drawn_text(chooser: random.Random) -> str:
    """Words and marks of all languages, in any order."""
    words = [word for words in LANGUAGES.values() for word in words.split()]
    parts = [chooser.choice(words) + chooser.choice(MARKS) for _ in range(chooser.randint(1, 12))]
    text = "".join(parts).strip()
    return chooser.choice([text, text, text.upper(), text.title()])


def spelled(tokenizer: Tokenizer, text: str) -> str:
    return tokenizer.decode(tokenizer.encode(text))


def check_vocabulary_of_gguf(
    fields: dict[str, Any], tokenizer: Tokenizer, texts: list[str]
) -> None:
    """A file with a vocabulary has all that llama.cpp needs, and byte pairs by it are tinylm's."""
    if fields["tokenizer.ggml.model"] == "no_vocab":
        return
    names = ("tokens", "merges", "token_type", "pre")
    missing = [name for name in names if f"tokenizer.ggml.{name}" not in fields]
    assert not missing, f"expected tokenizer.ggml.{missing[0]}, which llama.cpp reads"
    tokens = {token: index for index, token in enumerate(fields["tokenizer.ggml.tokens"])}
    assert len(tokens) == len(tokenizer)
    merges = [tuple(merge.split(" ")) for merge in fields["tokenizer.ggml.merges"]]
    reader = tokenizers.Tokenizer(tokenizers.models.BPE(tokens, merges))
    reader.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    for text in texts:
        if text == tokenizer.normalise(text):  # else tinylm cleans what llama.cpp does not
            assert reader.encode(text).ids == tokenizer.encode(text), f"GGUF: {text!r}"
