import pytest
import torch
from torch import nn
from torch.nn import functional as F

from tinylm.model.settings import ModelSettings
from tinylm.model.transformer import Block, TinyLM, sinusoids

PAD = 2  # any id: what fills a row after its end
VARIANTS = [
    *(
        {
            "norm": norm,
            "activation": activation,
            "qkv_bias": bias,
            "attention_bias": bias,
            "feed_forward_bias": bias,
        }
        for norm, activation, bias in [
            ("pre", "gelu", True),
            ("pre", "relu", False),
            ("post", "relu", True),
            ("post", "gelu", False),
        ]
    ),
    {"final_norm": False},
    {"norm": "post", "final_norm": False, "tied_output": False},
    {"norm_kind": "rms", "norm_eps": 1e-8, "positions": "none", "heads": 1, "tied_output": False},
    {
        "norm_kind": "std",
        "norm_eps": 1e-6,
        "norm": "post",
        "positions": "learned",
        "output_bias": True,
    },
    {"tied_output": False, "output_bias": True, "qkv_bias": False},
    {"positions": "learned", "attention_bias": False},
    {"positions": "none", "feed_forward_bias": False, "embedding": "frozen", "output_bias": True},
]


def name(settings: dict) -> str:
    return "-".join(f"{key}={value}" for key, value in settings.items())


def copy_block(block: Block, layer: nn.TransformerEncoderLayer) -> None:
    """Our weights into torch's layer."""
    attention, forward = block.attention, block.feed_forward
    pairs = [
        (layer.self_attn.in_proj_weight, attention.qkv.weight), (layer.self_attn.in_proj_bias, attention.qkv.bias),
        (layer.self_attn.out_proj.weight, attention.out.weight),
        (layer.self_attn.out_proj.bias, attention.out.bias), (layer.linear1.weight, forward.up.weight),
        (layer.linear1.bias, forward.up.bias), (layer.linear2.weight, forward.down.weight),
        (layer.linear2.bias, forward.down.bias), (layer.norm1.weight, block.norm1.gain),
        (layer.norm1.bias, block.norm1.bias), (layer.norm2.weight, block.norm2.gain),
        (layer.norm2.bias, block.norm2.bias)
    ]  # fmt: skip
    with torch.no_grad():
        for theirs, ours in pairs:
            theirs.copy_(ours)


def torch_layer(settings: ModelSettings, width: int) -> nn.TransformerEncoderLayer:
    return nn.TransformerEncoderLayer(
        width,
        settings.heads,
        settings.feed_forward,
        dropout=0.0,
        activation=settings.activation,
        batch_first=True,
        norm_first=settings.norm == "pre",
        dtype=torch.float64,
    )


def torch_norm(norm: nn.Module, x: torch.Tensor, settings: ModelSettings) -> torch.Tensor:
    if isinstance(norm, nn.Identity):
        return x
    if settings.norm_kind == "layer":
        return F.layer_norm(x, x.shape[-1:], norm.gain, norm.bias, settings.norm_eps)
    if settings.norm_kind == "rms":
        return F.rms_norm(x, x.shape[-1:], norm.gain, settings.norm_eps)
    return (x - x.mean(-1, keepdim=True)) / (
        x.std(-1, keepdim=True) + settings.norm_eps
    ) * norm.gain + norm.bias


def torch_block(block: Block, x: torch.Tensor, settings: ModelSettings) -> torch.Tensor:
    """The block by torch's finished functions, on our parameters."""
    attention, forward = block.attention, block.feed_forward
    mask = nn.Transformer.generate_square_subsequent_mask(x.shape[1], dtype=torch.float64)

    def attend(x: torch.Tensor) -> torch.Tensor:
        x = x.transpose(0, 1)  # (T, B, D)
        no_bias = None, None, False, 0.0
        weights = (
            attention.qkv.weight,
            attention.qkv.bias,
            *no_bias,
            attention.out.weight,
            attention.out.bias,
        )
        return F.multi_head_attention_forward(
            x, x, x, x.shape[-1], settings.heads, *weights, attn_mask=mask, need_weights=False
        )[0].transpose(0, 1)

    def feed(x: torch.Tensor) -> torch.Tensor:
        inner = getattr(F, settings.activation)(F.linear(x, forward.up.weight, forward.up.bias))
        return F.linear(inner, forward.down.weight, forward.down.bias)

    if settings.norm == "pre":
        x = x + attend(torch_norm(block.norm1, x, settings))
        return x + feed(torch_norm(block.norm2, x, settings))
    x = torch_norm(block.norm1, x + attend(x), settings)
    return torch_norm(block.norm2, x + feed(x), settings)


def torch_logits(model: TinyLM, ids: torch.Tensor) -> torch.Tensor:
    """The model made of torch's finished functions, on our parameters."""
    x = F.embedding(ids, model.embedding * model.embedding_scale)
    if model.settings.positions == "learned":
        x = x + model.positions[: ids.shape[1]]
    elif model.settings.positions == "sinusoids":
        x = x + sinusoids(ids.shape[1], model.width)
    for block in model.blocks:
        x = torch_block(block, x, model.settings)
    x = torch_norm(model.final_norm, x, model.settings)
    if model.output is not None:
        return F.linear(x, model.output.weight, model.output.bias)
    logits = x @ model.embedding.T * model.embedding_scale / model.width**0.5
    return logits if model.output_bias is None else logits + model.output_bias


@pytest.mark.parametrize("norm", ["pre", "post"])
@pytest.mark.parametrize("activation", ["relu", "gelu"])
def test_block_matches_torch(new_model, norm, activation):
    model = new_model(width=21, norm=norm, activation=activation)
    block, layer = model.blocks[0], torch_layer(model.settings, 21)
    copy_block(block, layer)
    mask = nn.Transformer.generate_square_subsequent_mask(13, dtype=torch.float64)
    x = torch.randn(5, 13, 21, dtype=torch.float64, requires_grad=True)
    z = x.detach().clone().requires_grad_()
    one, other = block(x, mask), layer(z, src_mask=mask)
    torch.testing.assert_close(one, other, rtol=1e-12, atol=1e-12)
    one.square().sum().backward()
    other.square().sum().backward()
    torch.testing.assert_close(x.grad, z.grad, rtol=1e-10, atol=1e-10)
    for mine, theirs in [
        (block.norm1.gain, layer.norm1.weight),
        (block.norm2.bias, layer.norm2.bias),
        (block.feed_forward.up.weight, layer.linear1.weight),
        (block.feed_forward.down.bias, layer.linear2.bias),
        (block.attention.qkv.weight, layer.self_attn.in_proj_weight),
    ]:
        torch.testing.assert_close(mine.grad, theirs.grad, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("settings", VARIANTS, ids=name)
def test_model_matches_torch(new_model, ids, settings):
    model = new_model(width=21, **settings)
    ours, theirs = model(ids), torch_logits(model, ids)
    torch.testing.assert_close(ours, theirs, rtol=1e-11, atol=1e-11)
    targets = torch.randint(0, 31, ids.shape)
    targets[1, 3:] = -1
    loss = model.loss(ids, targets)
    reference = F.cross_entropy(
        theirs.flatten(0, 1), targets.flatten(), ignore_index=-1, reduction="sum"
    )
    torch.testing.assert_close(loss, reference, rtol=1e-12, atol=0)
    torch.testing.assert_close(model.token_loss(ids, targets).sum(), reference, rtol=1e-12, atol=0)
    loss.backward()
    learned = {key: p for key, p in model.named_parameters() if p.requires_grad}
    for (key, mine), wanted in zip(
        learned.items(), torch.autograd.grad(reference, list(learned.values())), strict=True
    ):
        torch.testing.assert_close(
            mine.grad, wanted, rtol=1e-9, atol=1e-9, msg=lambda text, key=key: f"{key}: {text}"
        )


@pytest.mark.parametrize("settings", VARIANTS, ids=name)
def test_future_tokens_do_not_change_past_logits(new_model, ids, settings):
    model = new_model(**settings)
    before = model(ids)
    for cut in (1, 6, 12):
        changed = ids.clone()
        changed[:, cut:] = (changed[:, cut:] + 5) % 31
        after = model(changed)
        torch.testing.assert_close(after[:, :cut], before[:, :cut], rtol=1e-12, atol=1e-12)
        assert not torch.allclose(after[:, cut:], before[:, cut:], atol=1e-3)


@pytest.mark.parametrize(
    ("positions", "differs"), [("sinusoids", True), ("learned", True), ("none", False)]
)
def test_order_is_seen_where_there_are_positions(new_model, positions, differs):
    model = new_model(layers=1, positions=positions)
    one, other = model(torch.tensor([[5, 9, 7, 11], [9, 7, 5, 11]]))[:, -1]
    assert torch.allclose(one, other, atol=1e-6) == (not differs)


def test_the_gradient_of_a_position_reaches_no_later_token(new_model, ids):
    model = new_model(tied_output=False)
    model(ids)[0, 4].sum().backward()
    touched = model.embedding.grad.abs().sum(1).nonzero().flatten().tolist()
    assert set(touched) == set(ids[0, :5].tolist())


def test_padding_on_the_right_does_not_change_a_rows_logits(new_model, ids):
    model = new_model()
    alone = model(ids[:1, :6])
    padded = ids.clone()
    padded[0, 6:] = PAD
    torch.testing.assert_close(model(padded)[:1, :6], alone, rtol=1e-12, atol=1e-12)


def test_padded_targets_add_nothing_to_loss_and_gradient(new_model, ids):
    model = new_model()
    targets = torch.randint(3, 31, ids.shape)
    short = ids[:2, :6], targets[:2, :6]
    wide = torch.full((2, 13), PAD), torch.full((2, 13), -1)
    for part, filled in zip(short, wide, strict=True):
        filled[:, :6] = part
    losses = [model.loss(*short), model.loss(*wide)]
    torch.testing.assert_close(losses[0], losses[1], rtol=1e-12, atol=0)
    for one, other in zip(
        *(torch.autograd.grad(x, list(model.parameters())) for x in losses), strict=True
    ):
        torch.testing.assert_close(one, other, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("spread", [1e-4, 1.0, 50.0])
def test_input_vectors_of_any_size_enter_at_unit_mean_square(new_model, ids, spread):
    model = TinyLM(new_model().settings, torch.randn(31, 19) * spread)
    entering = model.embedding * model.embedding_scale
    assert entering.square().mean().item() == pytest.approx(1.0, rel=1e-5)


def test_the_scale_of_the_input_vectors_is_saved_with_the_weights(new_model, ids):
    model = new_model()
    other = TinyLM(model.settings, torch.zeros(31, 19)).double().eval()
    other.load_state_dict(model.state_dict())
    torch.testing.assert_close(other(ids), model(ids), rtol=1e-6, atol=1e-6)


def test_a_frozen_embedding_stays_and_the_rest_learns(new_model, ids):
    for tied in (True, False):
        model = new_model(
            embedding="frozen", tied_output=tied, output_bias=True, positions="learned"
        )
        before = {name: p.detach().clone() for name, p in model.named_parameters()}
        model.loss(ids, ids).backward()
        assert model.embedding.grad is None
        with torch.no_grad():
            for parameter in model.parameters():
                if parameter.grad is not None:
                    parameter -= 0.1 * parameter.grad
        same = {name for name, p in model.named_parameters() if torch.equal(p, before[name])}
        assert same == {"embedding"}


def test_the_given_matrix_is_copied(new_model):
    matrix = torch.randn(31, 19)
    model = TinyLM(new_model().settings, matrix)
    with torch.no_grad():
        model.embedding.add_(1.0)
    assert not torch.allclose(model.embedding, matrix)


def test_tied_vectors_learn_from_both_ends(new_model, ids):
    model = new_model(tied_output=True)
    model.loss(ids, ids).backward()
    unseen = sorted(set(range(31)) - set(ids.flatten().tolist()))
    assert unseen
    assert model.embedding.grad[unseen].abs().sum(1).gt(0).all()  # from the output only


def test_attention_maps_are_one_tensor_a_layer(new_model, ids):
    model = new_model(layers=3)
    model.recompute = "blocks"
    for context in (torch.no_grad(), torch.enable_grad()):
        maps: list[torch.Tensor] = []
        with context:
            hidden = model.hidden_states(ids, attention_weights_out=maps)
        assert [m.shape for m in maps] == [(5, 3, 13, 13)] * 3
        torch.testing.assert_close(maps[2].sum(-1), torch.ones(5, 3, 13, dtype=torch.float64))
        torch.testing.assert_close(model.logits(hidden), model(ids))


def test_dropout_is_drawn_in_training_only(new_model, ids):
    model = new_model(dropout=0.5)
    assert torch.equal(model(ids), model(ids))
    model.train()
    assert not torch.equal(model(ids), model(ids))


def test_a_sequence_past_the_context_is_refused(new_model):
    model = new_model(context=7)
    model(torch.zeros(1, 7, dtype=torch.long))
    with pytest.raises(ValueError, match="8 positions; the context holds 7"):
        model(torch.zeros(1, 8, dtype=torch.long))


def test_more_heads_than_columns_want_a_head_width(new_settings):
    settings = new_settings()
    assert settings.problems_with_width(3) == []
    (problem,) = settings.problems_with_width(2)
    assert problem.startswith("model.heads = 3; allowed: at most the embedding's width 2")


def test_an_unbiased_deviation_wants_two_columns(new_settings):
    settings = new_settings(heads=1, norm_kind="std")
    assert settings.problems_with_width(2) == []
    assert settings.problems_with_width(1) == [
        "model.norm_kind = 'std'; allowed: with an embedding at least 2 wide"
    ]


@pytest.mark.parametrize("settings", VARIANTS, ids=name)
def test_the_state_of_a_model_is_its_parameters_and_the_scale_of_its_vectors(new_model, settings):
    """What saved models hold: no table that follows from the settings."""
    model = new_model(**settings)
    assert set(model.state_dict()) == {key for key, _ in model.named_parameters()} | {
        "embedding_scale"
    }
