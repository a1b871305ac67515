"""The GGUF file, read by the library gguf and computed as llama.cpp's gpt2 does."""

import gguf
import pytest
import torch

from tests.drawn.exports import AsLlama, check_gguf
from tinylm.base.config import InputError
from tinylm.exchange.gguf_file import write_gguf
from tinylm.vocab.make_tokenizer import make_tokenizer
from tinylm.vocab.settings import VocabSettings

FORMS = {
    "plain": {},
    "tied": {"tied_output": True, "heads": 1},
    "tied, relu": {"tied_output": True, "heads": 1, "activation": "relu", "norm_eps": 1e-6},
    "relu, bias, learned": {"activation": "relu", "output_bias": True, "positions": "learned"},
}


@pytest.mark.parametrize("name", FORMS)
def test_the_file_holds_the_function(tmp_path, random_model, words, name):
    model = random_model(vocab=len(words), context=29, **({"tied_output": False} | FORMS[name]))
    write_gguf(tmp_path / "model.gguf", model, words)
    ids = torch.randint(len(words), (29,), generator=torch.Generator().manual_seed(2))
    check_gguf(tmp_path / "model.gguf", model, ids, "")
    llama = AsLlama(tmp_path / "model.gguf")
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


@pytest.mark.parametrize("activation", ["gelu", "relu"])
@pytest.mark.parametrize(
    ("kind", "least"),
    [
        ("F16", 0.9999),
        ("Q8_0", 0.999),
        ("Q5_1", 0.99),
        ("Q5_0", 0.99),
        ("Q4_1", 0.98),
        ("Q4_0", 0.98),
    ],
)
def test_quantising_keeps_the_logits(tmp_path, random_model, words, activation, kind, least):
    """In each type that the library gguf can write; a steep relu once gave logits of 0 in all of them."""
    model = random_model(
        vocab=len(words),
        width=64,
        heads=2,
        feed_forward=128,
        activation=activation,
        positions="learned",
    )
    path = tmp_path / "model.gguf"
    write_gguf(path, model, words)
    ids = torch.tensor([1, 5, 9, 4, 7, 3, 8])
    with torch.no_grad():
        exact = model.double()(ids[None])[0]
        logits = AsLlama(path, gguf.GGMLQuantizationType[kind])(ids)
    together = torch.stack([exact.flatten(), logits.flatten()])
    assert torch.corrcoef(together)[0, 1] > least
