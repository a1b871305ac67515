"""The stock form of a model has its logits, whatever the settings: by transformers' classes."""

import pytest
import torch
import transformers

from tests.support.pairs import pairs
from tinylm.base.config import InputError
from tinylm.exchange.stock import stock_form

SETTINGS = {
    "shape": [(12, 4, None), (19, 1, None), (12, 3, 7), (19, 4, 2), (5, 2, 11)],  # width, heads, head_width
    "norm_eps": [1e-5, 1e-8, 1e-3, 1e-12, 1.0],
    "positions": ["sinusoids", "learned", "none"], "activation": ["gelu", "relu"], "layers": [1, 3],
    "tied_output": [True, False], "output_bias": [True, False], "qkv_bias": [True, False], "attention_bias": [True, False],
}  # fmt: skip


def stock_logits(form, dtype, ids):
    """Logits of the class of transformers, in `dtype`."""
    kind = getattr(transformers, form.architecture)
    roles = dict.fromkeys(("bos_token_id", "eos_token_id", "pad_token_id"))
    config = kind.config_class.from_dict(form.config | roles | {"dtype": None})
    model = kind(config).to(dtype).eval()
    tensors = {}
    for name, tensor in form.tensors.items():  # transformers 5 renames so when it reads a file
        tensors[name.replace("embed_out", "lm_head")] = tensor.to(dtype)
    keys = model.load_state_dict(tensors, strict=False)
    tied = ["lm_head.weight"] if form.config["tie_word_embeddings"] else []
    assert (keys.missing_keys, keys.unexpected_keys) == (tied, [])
    model.tie_weights()
    return model(ids).logits


def check_logits(model, ids, least=1e-10):
    form = stock_form(model)
    with torch.no_grad():
        single = stock_logits(form, torch.float32, ids)
        torch.testing.assert_close(single, model(ids), rtol=1e-4, atol=1e-4)
        double = stock_logits(form, torch.float64, ids)
        torch.testing.assert_close(double, model.double()(ids), rtol=0, atol=least)


@pytest.fixture
def ids():
    return torch.randint(0, 31, (5, 13), generator=torch.Generator().manual_seed(11))


@pytest.mark.parametrize("output", [{}, {"tied_output": False}, {"output_bias": True}])
@pytest.mark.parametrize("shape", [(12, 2, None), (12, 3, 8), (19, 3, 4)])
def test_rotary_positions_are_those_of_gpt_neox(random_model, ids, output, shape):
    width, heads, head_width = shape
    settings = {"width": width, "heads": heads, "head_width": head_width, **output}
    model = random_model(positions="rotary", qkv_bias=False, **settings)
    assert stock_form(model).architecture == "GPTNeoXForCausalLM"
    check_logits(model, ids, 1e-5)  # its angles are in float32


@pytest.mark.parametrize("values", pairs(*SETTINGS.values()), ids=str)
def test_logits_are_the_same_whatever_the_settings(random_model, ids, values):
    settings = dict(zip(SETTINGS, values, strict=True))
    width, heads, head_width = settings.pop("shape")
    check_logits(random_model(width=width, heads=heads, head_width=head_width, **settings), ids)


@pytest.mark.parametrize(
    ("settings", "wide"),
    [
        ({"heads": 6}, 300),
        ({"heads": 8, "head_width": 38}, 304),
        ({"heads": 6, "output_bias": True}, 306),
    ],
)
def test_the_stock_model_is_as_narrow_as_its_heads_allow(random_model, settings, wide):
    config = stock_form(random_model(width=300, **settings)).config
    assert (config["n_embd"], config["n_head"]) == (wide, settings["heads"])


@pytest.mark.parametrize(
    ("key", "value"),
    [("norm_kind", "rms"), ("norm", "post"), ("final_norm", False)],
)
def test_what_neither_architecture_computes_is_refused_by_its_key(random_model, key, value):
    with pytest.raises(InputError, match=rf"model\.{key}: .* --format tinylm"):
        stock_form(random_model(**{key: value}))
