"""The stock form of a model has its logits, whatever the settings: by transformers' classes."""

import itertools

import pytest
import torch
import transformers

from tests.support.small import in_float64
from tinylm.base.config import InputError
from tinylm.exchange.stock import stock_form

SHAPES = [  # width, heads, head_width
    (12, 4, None),
    (19, 1, None),
    (19, 3, 7),
    (19, 7, 3),
    (12, 3, 7),  # wider than 12 / 3
    (19, 4, 2),
    (5, 2, 11),
]
CHOICES = list(itertools.product([True, False], [True, False], SHAPES))


def settings_of(index):
    """The settings of a choice; the others take turns, each with another period."""
    tied, output_bias, (width, heads, head_width) = CHOICES[index]
    turns = {
        "positions": ("sinusoids", "learned", "none"),
        "activation": ("gelu", "relu"),
        "norm_eps": (1e-5, 1e-8, 1e-3, 1e-12, 1.0),
        "qkv_bias": (True, False),
        "attention_bias": (True, True, False),
        "feed_forward_bias": (True, True, True, False),
        "layers": (2, 1, 3),
    }
    others = {name: values[(index // 7 + index) % len(values)] for name, values in turns.items()}
    shape = {"width": width, "heads": heads, "head_width": head_width}
    return {"tied_output": tied, "output_bias": output_bias, **shape, **others}


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
        torch.testing.assert_close(double, in_float64(model)(ids), rtol=0, atol=least)


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


@pytest.mark.parametrize("index", range(len(CHOICES)))
def test_logits_are_the_same_whatever_the_settings(random_model, ids, index):
    check_logits(random_model(**settings_of(index)), ids)


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
