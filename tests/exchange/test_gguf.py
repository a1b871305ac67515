"""The GGUF file: read back by the library gguf and computed as llama.cpp's gpt2 does; and by llama.cpp where it is."""

import math
import sys

import gguf
import pytest
import torch
import torch.nn.functional as F

from tests.support.small import in_float64
from tinylm.base.config import InputError
from tinylm.cli import main
from tinylm.decoding.sampling import generate
from tinylm.decoding.texts import banned_ids, encode_prompt
from tinylm.exchange.gguf_file import write_gguf
from tinylm.vocab.settings import VocabSettings
from tinylm.vocab.tokenizer import make_tokenizer

FORMS = {
    "plain": {},
    "tied": {"tied_output": True, "heads": 1},
    "tied, relu": {"tied_output": True, "heads": 1, "activation": "relu", "norm_eps": 1e-6},
    "relu, bias, learned": {"activation": "relu", "output_bias": True, "positions": "learned"},
    "relu, no positions": {"norm_eps": 1e-3, "activation": "relu", "positions": "none"},
}
PROMPTS = [
    "the cat",
    "",
    "rain came down on two big dogs",
    "home",
    "a mat",
    "dogs run",
    "on",
    "fast",
    "saw",
    "big cat",
]
NEW = 12


class AsLlama:
    """The graph of llama.cpp's gpt2 over what a file holds, in float64; `gelu`: the activation."""

    def __init__(self, path, gelu=None):
        reader = gguf.GGUFReader(path)
        self.fields = {name: field.contents() for name, field in reader.fields.items()}
        self.kinds = {tensor.name: tensor.tensor_type.name for tensor in reader.tensors}
        self.tensors = {
            tensor.name: torch.from_numpy(
                gguf.dequantize(tensor.data, tensor.tensor_type).copy()
            ).double()
            for tensor in reader.tensors
        }
        self.gelu = gelu or (lambda x: F.gelu(x, approximate="tanh"))

    def __call__(self, ids):
        at, heads = self.tensors, self.fields["gpt2.attention.head_count"]
        wide, eps = (
            self.fields["gpt2.embedding_length"],
            self.fields["gpt2.attention.layer_norm_epsilon"],
        )

        def linear(name, x):
            return x @ at[f"{name}.weight"].T + at.get(f"{name}.bias", 0.0)

        def norm(name, x):
            return F.layer_norm(x, (wide,), at[f"{name}.weight"], at[f"{name}.bias"], eps)

        x = at["token_embd.weight"][ids] + at["position_embd.weight"][: len(ids)]
        for layer in range(self.fields["gpt2.block_count"]):
            block = f"blk.{layer}"
            parts = linear(f"{block}.attn_qkv", norm(f"{block}.attn_norm", x)).split(wide, -1)
            queries, keys, values = (
                part.view(len(ids), heads, -1).transpose(0, 1) for part in parts
            )
            seen = F.scaled_dot_product_attention(queries, keys, values, is_causal=True)
            x = x + linear(f"{block}.attn_output", seen.transpose(0, 1).reshape(len(ids), wide))
            x = x + linear(
                f"{block}.ffn_down",
                self.gelu(linear(f"{block}.ffn_up", norm(f"{block}.ffn_norm", x))),
            )
        return norm("output_norm", x) @ at.get("output.weight", at["token_embd.weight"]).T


@pytest.mark.parametrize("weights", ["f32", "f16", "q8_0"])
@pytest.mark.parametrize("name", FORMS)
def test_the_file_holds_the_function(tmp_path, random_model, words, name, weights):
    model = random_model(vocab=len(words), context=29, **({"tied_output": False} | FORMS[name]))
    write_gguf(tmp_path / "model.gguf", model, words, weights)
    relu = model.settings.activation == "relu"
    found = AsLlama(
        tmp_path / "model.gguf", None if relu else F.gelu
    )  # exact gelu: its own is tested below
    ids = torch.randint(len(words), (29,), generator=torch.Generator().manual_seed(2))
    expected = in_float64(model)(ids[None])[0].detach()
    error = (found(ids) - expected).abs().max() / expected.std()
    assert error < {"f32": 1e-5, "f16": 0.02, "q8_0": 0.1}[weights]
    assert found.fields["gpt2.context_length"] == 29
    assert found.fields["gpt2.vocab_size"] == len(words)
    assert found.fields["tokenizer.ggml.model"] == "no_vocab"
    matrices = {kind for tensor, kind in found.kinds.items() if found.tensors[tensor].dim() == 2}
    assert matrices == {weights.upper(), "F32"}  # positions stay
    tied = "tied" in name and weights != "q8_0"  # whose spare channels part the two
    assert ("output.weight" in found.tensors) != tied


def test_the_tanh_form_of_gelu_changes_logits_little(tmp_path, random_model, words):
    write_gguf(tmp_path / "model.gguf", random_model(vocab=len(words)), words, "f32")
    ids = torch.arange(9)
    exact, tanh = (
        AsLlama(tmp_path / "model.gguf", F.gelu)(ids),
        AsLlama(tmp_path / "model.gguf")(ids),
    )
    assert 0 < (exact - tanh).abs().max() / exact.std() < 5e-3


@pytest.mark.parametrize("kind", ["bpe", "lower-case bpe", "longest_match"])
def test_byte_pairs_go_along_and_other_tokenizers_are_ids_only(tmp_path, random_model, kind):
    settings = VocabSettings(tokenizer=kind.split()[-1], lower_case=" " in kind, max_size=280)
    tokenizer, _ = make_tokenizer(
        settings, lambda: ["The cat sat on the mat, and the dog ran to the cat."] * 3
    )
    write_gguf(tmp_path / "model.gguf", random_model(vocab=len(tokenizer)), tokenizer, "f32")
    fields = AsLlama(tmp_path / "model.gguf").fields
    if kind != "bpe":
        assert fields["tokenizer.ggml.model"] == "no_vocab"
        assert "tokenizer.ggml.tokens" not in fields
        return
    assert (fields["tokenizer.ggml.model"], fields["tokenizer.ggml.pre"]) == ("gpt2", "gpt-2")
    assert fields["tokenizer.ggml.tokens"] == tokenizer.tokens
    types = fields["tokenizer.ggml.token_type"]
    assert {
        index for index, kind in enumerate(types) if kind == gguf.TokenType.CONTROL
    } == tokenizer.specials
    merged = [pair.replace(" ", "") for pair in fields["tokenizer.ggml.merges"]]
    assert merged == tokenizer.tokens[259:]
    ends = [fields[f"tokenizer.ggml.{role}_token_id"] for role in ("bos", "eos", "padding")]
    assert ends == [tokenizer.sos_id, tokenizer.eos_id, tokenizer.pad_id]


@pytest.mark.parametrize(
    "settings",
    [
        {"norm": "post"},
        {"final_norm": False},
        {"norm_kind": "std"},
        {"positions": "rotary", "head_width": 4},
    ],
)
def test_what_llama_cpp_lacks_is_refused_by_its_key(
    tmp_path, export_of, random_model, words, settings
):
    key = next(iter(settings))
    with pytest.raises(InputError, match=rf"model\.{key} "):
        export_of(random_model(vocab=len(words), **settings), "gguf")


def test_weights_beyond_sixteen_bits_are_refused(tmp_path, random_model, words):
    model = random_model(vocab=len(words))
    with torch.no_grad():
        model.embedding.mul_(1e6)
    with pytest.raises(InputError, match="allowed in f16: up to 65504; use f32"):
        write_gguf(tmp_path / "model.gguf", model, words, "f16")
    assert not (tmp_path / "model.gguf").exists()


def test_the_command_says_what_llama_cpp_gets_and_an_export_is_exported_again(
    tmp_path, export_of, random_model, words, monkeypatch, capsys
):
    monkeypatch.chdir(tmp_path)
    before = export_of(random_model(vocab=len(words)))  # leaves models/ and tokenizer.json
    assert before.exists()
    places = ["--models", "models", "--vocab", "tokenizer.json"]
    monkeypatch.setattr(
        sys, "argv", ["tinylm", "export", "out", "--format", "gguf", "--weights", "q8_0", *places]
    )
    assert main() == 0
    said = capsys.readouterr().out
    assert "out/model.gguf: gpt2 of llama.cpp" in said
    assert "ids go in and come out" in said
    assert 'Llama("out/model.gguf", n_ctx=' in said
    monkeypatch.setattr(sys, "argv", ["tinylm", "export", "again", "--models", "out"])
    assert main() == 0
    assert (tmp_path / "again/tinylm/config.json").read_bytes() == (
        tmp_path / "out/tinylm/config.json"
    ).read_bytes()
    monkeypatch.setattr(sys, "argv", ["tinylm", "export", "other", "--weights", "f16", *places])
    assert main() == 2
    assert "--weights f16 goes only with --format gguf" in capsys.readouterr().err


@pytest.mark.parametrize("name", FORMS)
@pytest.mark.parametrize("weights", ["f32", "f16", "q8_0"])
def test_llama_cpp_decodes_the_same_greedy_ids(
    tmp_path, speaking_model, words, decode_settings, name, weights
):
    llama_cpp = pytest.importorskip("llama_cpp")
    model = speaking_model(
        **{
            key: value
            for key, value in FORMS[name].items()
            if key not in ("tied_output", "output_bias")
        }
    )
    write_gguf(tmp_path / "model.gguf", model, words, weights)
    there = llama_cpp.Llama(
        str(tmp_path / "model.gguf"),
        n_ctx=29,
        n_threads=1,
        n_threads_batch=1,
        logits_all=True,
        verbose=False,
    )
    prompts, banned = [encode_prompt(words, text, "prompt") for text in PROMPTS], banned_ids(words)
    ours = generate(
        model,
        prompts,
        decode_settings().greedy(),
        max_new_tokens=NEW,
        eos_id=words.eos_id,
        banned=banned,
    )
    same = total = 0
    for prompt, expected in zip(prompts, ours, strict=True):
        there.reset()
        there.eval(prompt)
        ids = []
        while len(ids) < NEW and words.eos_id not in ids:
            logits = there.scores[there.n_tokens - 1].copy()
            logits[banned] = -math.inf
            ids.append(int(logits.argmax()))
            there.eval(ids[-1:])
        same += ids == expected.ids
        total += 1
    assert same == total if weights == "f32" else same >= total - 2
