"""The GGUF file, read by the library gguf and computed as llama.cpp's gpt2 does."""

import gguf
import pytest
import torch
import torch.nn.functional as F

from tinylm.base.config import InputError
from tinylm.exchange.gguf_file import write_gguf
from tinylm.vocab.kinds import make_tokenizer
from tinylm.vocab.settings import VocabSettings

FORMS = {
    "plain": {},
    "tied": {"tied_output": True, "heads": 1},
    "tied, relu": {"tied_output": True, "heads": 1, "activation": "relu", "norm_eps": 1e-6},
    "relu, bias, learned": {"activation": "relu", "output_bias": True, "positions": "learned"},
}


class AsLlama:
    """The graph of llama.cpp's gpt2 over what a file holds, in float64; `gelu`: the activation."""

    def __init__(self, path, gelu=None):
        reader = gguf.GGUFReader(path)
        self.fields = {name: field.contents() for name, field in reader.fields.items()}
        self.tensors = {}
        for tensor in reader.tensors:
            values = gguf.dequantize(tensor.data, tensor.tensor_type)
            self.tensors[tensor.name] = torch.from_numpy(values.copy()).double()
        self.gelu = gelu or (lambda x: F.gelu(x, approximate="tanh"))

    def linear(self, name, x):
        return x @ self.tensors[f"{name}.weight"].T + self.tensors.get(f"{name}.bias", 0.0)

    def norm(self, name, x):
        gain, bias = (self.tensors[f"{name}.{part}"] for part in ("weight", "bias"))
        epsilon = self.fields["gpt2.attention.layer_norm_epsilon"]
        return F.layer_norm(x, x.shape[-1:], gain, bias, epsilon)

    def attention(self, block, x):
        projected = self.linear(f"{block}.attn_qkv", self.norm(f"{block}.attn_norm", x))
        heads = self.fields["gpt2.attention.head_count"]
        q, k, v = (part.unflatten(-1, (heads, -1)) for part in projected.chunk(3, -1))
        q, k, v = (part.transpose(0, 1) for part in (q, k, v))
        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.linear(f"{block}.attn_output", mixed.transpose(0, 1).flatten(1))

    def __call__(self, ids):
        embedding = self.tensors["token_embd.weight"]
        x = embedding[ids] + self.tensors["position_embd.weight"][: len(ids)]
        for layer in range(self.fields["gpt2.block_count"]):
            block = f"blk.{layer}"
            x = x + self.attention(block, x)
            inner = self.gelu(self.linear(f"{block}.ffn_up", self.norm(f"{block}.ffn_norm", x)))
            x = x + self.linear(f"{block}.ffn_down", inner)
        return self.norm("output_norm", x) @ self.tensors.get("output.weight", embedding).T


@pytest.mark.parametrize("name", FORMS)
def test_the_file_holds_the_function(tmp_path, random_model, words, name):
    model = random_model(vocab=len(words), context=29, **({"tied_output": False} | FORMS[name]))
    write_gguf(tmp_path / "model.gguf", model, words)
    is_relu = model.settings.activation == "relu"
    llama = AsLlama(tmp_path / "model.gguf", None if is_relu else F.gelu)
    ids = torch.randint(len(words), (29,), generator=torch.Generator().manual_seed(2))
    expected = model.double()(ids[None])[0].detach()
    assert (llama(ids) - expected).abs().max() / expected.std() < 1e-5
    if not is_relu:  # llama.cpp has the tanh form of gelu
        tanh = AsLlama(tmp_path / "model.gguf")(ids)
        assert 0 < (tanh - llama(ids)).abs().max() / expected.std() < 5e-3
    assert llama.fields["gpt2.context_length"] == 29
    assert llama.fields["gpt2.vocab_size"] == len(words)
    assert llama.fields["tokenizer.ggml.model"] == "no_vocab"
    assert ("output.weight" in llama.tensors) != ("tied" in name)


@pytest.mark.parametrize("kind", ["bpe", "lower-case bpe", "longest_match", "bytes alone, bpe"])
def test_byte_pairs_go_along_and_other_tokenizers_are_ids_only(tmp_path, random_model, kind):
    settings = VocabSettings(
        tokenizer=kind.split()[-1],
        lower_case="lower" in kind,
        max_size=259 if "bytes" in kind else 280,
    )
    texts = ["The cat sat on the mat, and the dog ran to the cat."] * 3
    tokenizer, _ = make_tokenizer(settings, lambda: texts)
    write_gguf(tmp_path / "model.gguf", random_model(vocab=len(tokenizer)), tokenizer)
    fields = AsLlama(tmp_path / "model.gguf").fields
    if kind != "bpe":
        assert fields["tokenizer.ggml.model"] == "no_vocab"
        assert "tokenizer.ggml.tokens" not in fields
        return
    assert (fields["tokenizer.ggml.model"], fields["tokenizer.ggml.pre"]) == ("gpt2", "gpt-2")
    assert fields["tokenizer.ggml.tokens"] == tokenizer.tokens
    types = fields["tokenizer.ggml.token_type"]
    control = {index for index, type in enumerate(types) if type == gguf.TokenType.CONTROL}
    assert control == tokenizer.specials
    merged = [pair.replace(" ", "") for pair in fields["tokenizer.ggml.merges"]]
    assert merged == tokenizer.tokens[259:]
    roles = {"bos": tokenizer.sos_id, "eos": tokenizer.eos_id, "padding": tokenizer.pad_id}
    for role, index in roles.items():
        assert fields[f"tokenizer.ggml.{role}_token_id"] == index


@pytest.mark.parametrize("settings", [{"norm": "post"}, {"positions": "rotary", "head_width": 4}])
def test_what_llama_cpp_lacks_is_refused_by_its_key(export_of, random_model, words, settings):
    key = next(iter(settings))
    with pytest.raises(InputError, match=rf"model\.{key}: "):
        export_of(random_model(vocab=len(words), **settings), "gguf")
