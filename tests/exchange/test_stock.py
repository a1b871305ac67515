"""The stock form of a model: the same logits, whatever the settings.

GPT-2 and OPT stand here in PyTorch's finished parts, as their papers and the library have them, so that the tests need
no transformers; where that is installed its own classes are asked as well.
"""

import itertools

import pytest
import torch
from torch.nn import functional as F

from tests.support.pairs import pairs
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
    (1, 1, None),
]
# A layer norm of one column is rounding noise over the root of epsilon.
CHOICES = [
    choice
    for choice in itertools.product(("pre", "post"), ("layer", "rms"), *[(True, False)] * 3, SHAPES)
    if choice[1] == "rms" or choice[-1][0] > 1
]
NAMES = ("norm", "norm_kind", "final_norm", "tied_output", "output_bias")


def settings_of(index):
    """The settings of a choice; the others take turns, each with another period, so that all their pairs occur."""
    *chosen, (width, heads, head_width) = CHOICES[index]
    turns = {
        "positions": ("sinusoids", "learned", "none"), "activation": ("gelu", "relu"),
        "norm_eps": (1e-5, 1e-8, 1e-3, 1e-12, 1.0), "qkv_bias": (True, False),
        "attention_bias": (True, True, False), "feed_forward_bias": (True, True, True, False, False),
        "layers": (2, 1, 3)
    }  # fmt: skip
    others = {name: values[(index // 7 + index) % len(values)] for name, values in turns.items()}
    return {
        **dict(zip(NAMES, chosen)),
        "width": width,
        "heads": heads,
        "head_width": head_width,
        **others,
    }


def preset(name):
    return parse_yaml(preset_text(name), name)


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


def opt(config, tensors, ids):
    """Zhang et al. 2022, the form of OPT-350M: post-norm (or pre-norm without a norm at the end), projections."""
    t = {name.removeprefix("model.decoder."): tensor for name, tensor in tensors.items()}
    pre = config["do_layer_norm_before"]
    assert config["_remove_final_layer_norm"] == pre

    def linear(x, name):
        return F.linear(x, t[f"{name}.weight"], t.get(f"{name}.bias"))

    def norm(x, name, now):
        return (
            F.layer_norm(x, x.shape[-1:], t[f"{name}.weight"], t[f"{name}.bias"], 1e-5)
            if now
            else x
        )

    projects = config["word_embed_proj_dim"] != config["hidden_size"]
    assert projects == ("project_in.weight" in t)
    x = t["embed_tokens.weight"][ids]
    x = (linear(x, "project_in") if projects else x) + t["embed_positions.weight"][
        2 : 2 + ids.shape[1]
    ]
    for layer in range(config["num_hidden_layers"]):
        a, n1, n2 = (
            f"layers.{layer}.{part}"
            for part in ("self_attn", "self_attn_layer_norm", "final_layer_norm")
        )
        h = norm(x, n1, pre)
        mixed = attend(
            *(linear(h, f"{a}.{part}_proj") for part in "qkv"), config["num_attention_heads"]
        )
        x = norm(x + linear(mixed, f"{a}.out_proj"), n1, not pre)
        inner = getattr(F, config["activation_function"])(
            linear(norm(x, n2, pre), f"layers.{layer}.fc1")
        )
        x = norm(x + linear(inner, f"layers.{layer}.fc2"), n2, not pre)
    x = linear(x, "project_out") if projects else x
    return x @ t["embed_tokens.weight" if config["tie_word_embeddings"] else "lm_head.weight"].T


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
    return {"GPT2LMHeadModel": gpt2, "OPTForCausalLM": opt, "GPTNeoXForCausalLM": neox}[
        form.architecture
    ](form.config, tensors, ids)


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
@pytest.mark.parametrize("kind", ["layer", "rms"])
@pytest.mark.parametrize("output", [{}, {"tied_output": False}, {"output_bias": True}])
@pytest.mark.parametrize("shape", [(12, 2, None), (19, 4, 2), (12, 3, 8), (19, 3, 4)])
def test_rotary_positions_are_those_of_gpt_neox(
    random_model, in_float64, ids, logits, kind, output, shape
):
    width, heads, head_width = shape
    model = random_model(
        width=width,
        heads=heads,
        head_width=head_width,
        positions="rotary",
        norm_kind=kind,
        qkv_bias=False,
        **output,
    )
    form = stock_form(model)
    assert form.architecture == "GPTNeoXForCausalLM"
    with torch.no_grad():
        assert torch.allclose(logits(form, torch.float32, ids), model(ids), rtol=1e-4, atol=1e-4)
        error = (logits(form, torch.float64, ids) - in_float64(model)(ids)).abs().max()
    assert error < (1e-5 if logits is of_the_library else 1e-6)  # angles in float32


@pytest.mark.parametrize("changes", [{"norm": "post"}, {"final_norm": False}])
def test_rotary_positions_elsewhere_are_refused(random_model, changes):
    with pytest.raises(InputError, match="GPT-NeoX has them, with norm 'pre' and a final norm"):
        stock_form(random_model(width=12, heads=2, positions="rotary", **changes))


@pytest.mark.parametrize(("logits", "step"), [(reference, 1), (of_the_library, 5)])
@pytest.mark.parametrize("norm", ["pre", "post"])
@pytest.mark.parametrize("kind", ["layer", "rms"])
def test_logits_are_the_same_whatever_the_settings(
    random_model, in_float64, ids, norm, kind, logits, step
):
    indices = [index for index, choice in enumerate(CHOICES) if choice[:2] == (norm, kind)]
    assert len(indices) == 8 * (len(SHAPES) - (kind == "layer"))
    for index in indices[::step]:
        settings = settings_of(index)
        model = random_model(**settings)
        form = stock_form(model)
        with torch.no_grad():
            assert torch.allclose(
                logits(form, torch.float32, ids), model(ids), rtol=1e-4, atol=1e-4
            ), settings
            expected = in_float64(model)(ids)
            error = (logits(form, torch.float64, ids) - expected).abs().max()
            assert error < 1e-10, (settings, float(error))


def test_settings_that_take_turns_meet():
    met = [settings_of(index) for index in range(len(CHOICES))]
    assert {(one["positions"], one["activation"], one["norm"]) for one in met} == set(
        itertools.product(("sinusoids", "learned", "none"), ("gelu", "relu"), ("pre", "post"))
    )
    assert {
        (one["norm_eps"], one["norm"], one["norm_kind"], one["final_norm"]) for one in met
    } == set(
        itertools.product(
            (1e-5, 1e-8, 1e-3, 1e-12, 1.0), ("pre", "post"), ("layer", "rms"), (True, False)
        )
    )


@pytest.mark.parametrize(
    ("norm_eps", "norm", "final_norm"), pairs([1e-20, 1.0], ["pre", "post"], [True, False])
)
def test_every_epsilon_is_met_in_float32(random_model, ids, norm, final_norm, norm_eps):
    model = random_model(norm=norm, final_norm=final_norm, norm_eps=norm_eps)
    with torch.no_grad():
        found, expected = reference(stock_form(model), torch.float32, ids), model(ids)
    assert torch.allclose(found, expected, rtol=1e-4, atol=1e-4)


def test_what_fits_as_it_is_keeps_its_shape(random_model):
    form = stock_form(random_model(width=12))
    assert (form.config["n_embd"], form.config["n_head"], form.config["tie_word_embeddings"]) == (
        12,
        3,
        True,
    )
    assert (
        form.parameters == sum(p.numel() for p in random_model(width=12).parameters()) + 17 * 12
    )  # positions
    form = stock_form(random_model(width=12, norm="post", final_norm=False))
    assert (form.config["hidden_size"], form.config["word_embed_proj_dim"]) == (12, 12)
    assert form.config["num_hidden_layers"] == 2


@pytest.mark.parametrize(
    ("settings", "wide", "heads"),
    [
        ({"width": 300, "heads": 8}, 304, 8),
        ({"width": 300, "heads": 6, "output_bias": True}, 306, 6),
        ({"width": 19, "heads": 3, "norm_kind": "rms"}, 39, 3),
        ({"width": 300, "heads": 8, "norm": "post", "final_norm": False}, 600, 8),
        ({"width": 19, "heads": 7, "norm": "post"}, 57, 19),  # 133 without empty heads
    ],
)
def test_the_stock_model_is_as_narrow_as_its_heads_allow(random_model, settings, wide, heads):
    config = stock_form(random_model(**settings)).config
    assert config.get("n_embd", config.get("hidden_size")) == wide
    assert config.get("n_head", config.get("num_attention_heads")) == heads


def test_vocabulary_matrices_of_opt_stay_narrow_and_tied(random_model):
    form = stock_form(random_model(norm="post", output_bias=True))
    shapes = {name: tuple(tensor.shape) for name, tensor in form.tensors.items()}
    assert shapes["model.decoder.embed_tokens.weight"] == (31, 20)
    assert shapes["model.decoder.project_out.weight"] == (20, 57)
    assert "lm_head.weight" not in shapes


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        (
            {"norm_kind": "std"},
            "model.norm_kind = 'std': .* allowed: layer | rms, or any with --format tinylm",
        ),
        (
            {"norm_eps": 1e-30},
            "model.norm_eps = 1e-30: .* allowed: 1e-20 to 1.0, or any with --format tinylm",
        ),
    ],
)
@pytest.mark.parametrize("norm", ["pre", "post"])
def test_what_no_architecture_computes_is_refused_with_the_nearest_setting(
    random_model, settings, reason, norm
):
    with pytest.raises(InputError, match=reason):
        stock_form(random_model(norm=norm, **settings))


def test_presets_and_their_architectures():
    """Which preset becomes what; word-10k alone cannot."""
    found = {}
    for name in names():
        settings = read_section(preset(name), "model", ModelSettings)
        pre = settings.norm == "pre" and settings.final_norm
        rotary = settings.positions == "rotary"
        kind = "GPT-NeoX" if rotary else "GPT-2" if pre else "OPT"
        found[name] = "refused" if stock_problem(settings) else kind
    assert found == {
        "storybook": "GPT-2", "tinystories-2m": "GPT-NeoX", "tinystories-bpe": "GPT-NeoX", "word-50k": "GPT-2",
        "shakespeare-bpe": "GPT-2", "assignment-baseline": "OPT", "gpt2-bpe": "OPT", "word-10k": "refused"
    }  # fmt: skip


@pytest.mark.parametrize(
    "name",
    [
        "assignment-baseline",
        "gpt2-bpe",
        "shakespeare-bpe",
        "storybook",
        "tinystories-2m",
        "word-50k",
    ],
)
def test_a_model_of_each_presets_shape_has_its_logits(random_model, in_float64, name):
    values = preset(name)
    width, ids = values["embedding"]["width"], torch.randint(0, 31, (2, 13))
    model = random_model(width=width, **values["model"] | {"layers": 2, "feed_forward": 101})
    form = stock_form(model)
    rotary = values["model"]["positions"] == "rotary"
    pre = "GPTNeoXForCausalLM" if rotary else "GPT2LMHeadModel"
    assert form.architecture == ("OPTForCausalLM" if values["model"]["norm"] == "post" else pre)
    with torch.no_grad():
        assert torch.allclose(reference(form, torch.float32, ids), model(ids), rtol=1e-4, atol=1e-4)
        expected = in_float64(model)(ids)
        error = (reference(form, torch.float64, ids) - expected).abs().max()
    assert error < (1e-5 if rotary else 1e-10)  # our angles are float32
