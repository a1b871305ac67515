"""The stock form of a model: the same logits, whatever the settings.

GPT-2 and GPT-NeoX stand here in PyTorch's finished parts, as their papers and the library have them, so that the tests
need no transformers; where that is installed, its own classes are compared as well.
"""

import itertools

import pytest
import torch
from torch.nn import functional as F

from tinylm.base.config import InputError, parse_yaml, read_section
from tinylm.exchange.stock import stock_form, stock_problem
from tinylm.model.settings import ModelSettings
from tinylm.presets.write import names, preset_text

SHAPES = [  # width, heads, head_width
    (12, 4, None),
    (19, 1, None),
    (19, 3, None),  # widths 7, 6, 6
    (19, 7, None),  # widths 3 and 2
    (12, 3, 7),  # wider than 12 / 3
    (19, 4, 2),
    (5, 2, 11),
]
CHOICES = list(itertools.product([True, False], [True, False], SHAPES))


def settings_of(index):
    """The settings of a choice; the others take turns, each with another period."""
    tied, output_bias, (width, heads, head_width) = CHOICES[index]
    turns = {
        "positions": ("sinusoids", "learned", "none"), "activation": ("gelu", "relu"),
        "norm_eps": (1e-5, 1e-8, 1e-3, 1e-12, 1.0), "qkv_bias": (True, False),
        "attention_bias": (True, True, False), "feed_forward_bias": (True, True, True, False),
        "layers": (2, 1, 3)
    }  # fmt: skip
    others = {name: values[(index // 7 + index) % len(values)] for name, values in turns.items()}
    shape = {"width": width, "heads": heads, "head_width": head_width}
    return {"tied_output": tied, "output_bias": output_bias, **shape, **others}


def attend(q, k, v, heads):
    q, k, v = (x.unflatten(-1, (heads, -1)).transpose(1, 2) for x in (q, k, v))
    return F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).flatten(2)


def gpt2(config, tensors, ids):
    """Radford et al. 2019: pre-norm, a norm at the end; weights lie (in, out)."""
    t = {name.removeprefix("transformer."): tensor for name, tensor in tensors.items()}

    def norm(x, name):
        return F.layer_norm(
            x, x.shape[-1:], t[f"{name}.weight"], t[f"{name}.bias"], config["layer_norm_epsilon"]
        )

    x = t["wte.weight"][ids] + t["wpe.weight"][: ids.shape[1]]
    for layer in range(config["n_layer"]):
        h = f"h.{layer}"
        q, k, v = (
            norm(x, f"{h}.ln_1") @ t[f"{h}.attn.c_attn.weight"] + t[f"{h}.attn.c_attn.bias"]
        ).chunk(3, -1)
        x = (
            x
            + attend(q, k, v, config["n_head"]) @ t[f"{h}.attn.c_proj.weight"]
            + t[f"{h}.attn.c_proj.bias"]
        )
        inner = norm(x, f"{h}.ln_2") @ t[f"{h}.mlp.c_fc.weight"] + t[f"{h}.mlp.c_fc.bias"]
        inner = getattr(F, config["activation_function"])(inner)
        x = x + inner @ t[f"{h}.mlp.c_proj.weight"] + t[f"{h}.mlp.c_proj.bias"]
    return (
        norm(x, "ln_f") @ t["wte.weight" if config["tie_word_embeddings"] else "lm_head.weight"].T
    )


def neox(config, tensors, ids):
    """Black et al. 2022 without its parallel residual: pre-norm, the first columns of each head turned in pairs."""
    t = {name.removeprefix("gpt_neox."): tensor for name, tensor in tensors.items()}
    heads = config["num_attention_heads"]
    width = config["hidden_size"] // heads
    half = round(width * config["rotary_pct"]) // 2
    angle = torch.arange(ids.shape[1])[:, None] * 10000.0 ** -(
        torch.arange(half, dtype=torch.float64) / half
    )
    cos, sin = (
        table[:, None].to(t["embed_in.weight"].dtype) for table in (angle.cos(), angle.sin())
    )

    def linear(x, name):
        return F.linear(x, t[f"{name}.weight"], t[f"{name}.bias"])

    def norm(x, name):
        return F.layer_norm(
            x, x.shape[-1:], t[f"{name}.weight"], t[f"{name}.bias"], config["layer_norm_eps"]
        )

    def turn(x):
        first, second, rest = x.split([half, half, width - 2 * half], -1)
        return torch.cat(
            [first * cos - second * sin, second * cos + first * sin, rest], -1
        ).flatten(2)

    x = t["embed_in.weight"][ids]
    for layer in range(config["num_hidden_layers"]):
        h = f"layers.{layer}"
        joined = linear(norm(x, f"{h}.input_layernorm"), f"{h}.attention.query_key_value")
        q, k, v = joined.unflatten(-1, (heads, 3, width)).unbind(-2)
        x = x + linear(attend(turn(q), turn(k), v.flatten(2), heads), f"{h}.attention.dense")
        inner = linear(norm(x, f"{h}.post_attention_layernorm"), f"{h}.mlp.dense_h_to_4h")
        x = x + linear(getattr(F, config["hidden_act"])(inner), f"{h}.mlp.dense_4h_to_h")
    output = "embed_in.weight" if config["tie_word_embeddings"] else "embed_out.weight"
    return norm(x, "final_layer_norm") @ t[output].T


def reference(form, dtype, ids):
    tensors = {name: tensor.to(dtype) for name, tensor in form.tensors.items()}
    compute = {"GPT2LMHeadModel": gpt2, "GPTNeoXForCausalLM": neox}[form.architecture]
    return compute(form.config, tensors, ids)


def of_the_library(form, dtype, ids):
    transformers = pytest.importorskip("transformers")
    roles = dict.fromkeys(("bos_token_id", "eos_token_id", "pad_token_id"))
    kind = getattr(transformers, form.architecture)
    model = (
        kind(kind.config_class.from_dict(form.config | roles | {"dtype": None})).to(dtype).eval()
    )
    renamed = {
        name.replace("embed_out", "lm_head"): tensor.to(dtype)
        for name, tensor in form.tensors.items()
    }
    odd = model.load_state_dict(
        renamed, strict=False
    )  # transformers 5 renames so when it reads a file
    assert odd.missing_keys == (["lm_head.weight"] if form.config["tie_word_embeddings"] else [])
    assert odd.unexpected_keys == []
    model.tie_weights()
    return model(ids).logits


@pytest.fixture
def ids():
    return torch.randint(0, 31, (5, 13), generator=torch.Generator().manual_seed(11))


@pytest.mark.parametrize("logits", [reference, of_the_library])
@pytest.mark.parametrize("output", [{}, {"tied_output": False}, {"output_bias": True}])
@pytest.mark.parametrize("shape", [(12, 2, None), (19, 4, 2), (12, 3, 8), (19, 3, 4)])
def test_rotary_positions_are_those_of_gpt_neox(
    random_model, in_float64, ids, logits, output, shape
):
    width, heads, head_width = shape
    chosen = {"width": width, "heads": heads, "head_width": head_width, **output}
    model = random_model(positions="rotary", qkv_bias=False, **chosen)
    form = stock_form(model)
    assert form.architecture == "GPTNeoXForCausalLM"
    with torch.no_grad():
        assert torch.allclose(logits(form, torch.float32, ids), model(ids), rtol=1e-4, atol=1e-4)
        error = (logits(form, torch.float64, ids) - in_float64(model)(ids)).abs().max()
    assert error < (1e-5 if logits is of_the_library else 1e-6)  # angles in float32


@pytest.mark.parametrize("index", range(len(CHOICES)))
def test_logits_are_the_same_whatever_the_settings(random_model, in_float64, ids, index):
    model = random_model(**settings_of(index))
    form = stock_form(model)
    with torch.no_grad():
        assert torch.allclose(reference(form, torch.float32, ids), model(ids), rtol=1e-4, atol=1e-4)
        expected = in_float64(model)(ids)
        assert (reference(form, torch.float64, ids) - expected).abs().max() < 1e-10
        if index % 5 == 0:
            assert (of_the_library(form, torch.float64, ids) - expected).abs().max() < 1e-10


@pytest.mark.parametrize("norm_eps", [1e-20, 1.0])
def test_every_epsilon_is_met_in_float32(random_model, ids, norm_eps):
    model = random_model(norm_eps=norm_eps)
    with torch.no_grad():
        logits = reference(stock_form(model), torch.float32, ids)
        assert torch.allclose(logits, model(ids), rtol=1e-4, atol=1e-4)


def test_what_fits_as_it_is_keeps_its_shape(random_model):
    model = random_model(width=12)
    form = stock_form(model)
    assert (form.config["n_embd"], form.config["n_head"]) == (12, 3)
    assert form.config["tie_word_embeddings"]
    positions = 17 * 12
    assert form.parameters == sum(p.numel() for p in model.parameters()) + positions


@pytest.mark.parametrize(
    ("settings", "multiple", "wide", "heads"),
    [
        ({"width": 300, "heads": 8}, 1, 304, 8),
        ({"width": 300, "heads": 6, "output_bias": True}, 1, 306, 6),
        ({"width": 300, "heads": 6}, 32, 384, 6),
    ],
)
def test_the_stock_model_is_as_narrow_as_its_heads_allow(
    random_model, settings, multiple, wide, heads
):
    config = stock_form(random_model(**settings), multiple).config
    assert (config["n_embd"], config["n_head"]) == (wide, heads)


@pytest.mark.parametrize(
    "settings",
    [
        {"norm_kind": "std"},
        {"norm_kind": "rms"},
        {"norm": "post"},
        {"final_norm": False},
        {"norm_eps": 1e-30},
    ],
)
def test_what_neither_architecture_computes_is_refused_by_its_key(random_model, settings):
    (key,) = settings
    with pytest.raises(InputError, match=rf"model\.{key} = .* --format tinylm"):
        stock_form(random_model(**settings))


@pytest.mark.parametrize("name", names())
def test_a_model_of_each_presets_shape_has_its_logits_or_is_refused(random_model, in_float64, name):
    values = parse_yaml(preset_text(name), name)
    settings = read_section(values, "model", ModelSettings)
    stock = ("storybook", "word-50k", "tinystories-2m", "tinystories-bpe")
    assert (stock_problem(settings) == "") == (name in stock)
    if name not in stock:
        return
    ids = torch.randint(0, 31, (2, 13))
    width = values["embedding"]["width"]
    model = random_model(width=width, **values["model"] | {"layers": 2, "feed_forward": 101})
    form = stock_form(model)
    with torch.no_grad():
        expected = in_float64(model)(ids)
        error = (reference(form, torch.float64, ids) - expected).abs().max()
    assert error < (1e-5 if settings.positions == "rotary" else 1e-10)  # our angles are float32
