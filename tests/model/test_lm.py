import math

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from tinylm.model.lm import Block, ModelSettings, TinyLM

VARIANTS = [
    {"norm": norm, "activation": activation, "bias": bias, "tied_output": tied}
    for norm, activation in [("pre", "gelu"), ("pre", "relu"), ("post", "relu"), ("post", "gelu")]
    for bias, tied in [(True, True), (False, False)]
]


def copy_block(block: Block, layer: nn.TransformerEncoderLayer) -> None:
    """Our weights into torch's layer; without a bias of ours torch's is zero."""
    attention, forward = block.attention, block.feed_forward
    pairs = [
        (layer.self_attn.in_proj_weight, attention.qkv.weight),
        (layer.self_attn.in_proj_bias, attention.qkv.bias),
        (layer.self_attn.out_proj.weight, attention.out.weight),
        (layer.self_attn.out_proj.bias, attention.out.bias),
        (layer.linear1.weight, forward.up.weight),
        (layer.linear1.bias, forward.up.bias),
        (layer.linear2.weight, forward.down.weight),
        (layer.linear2.bias, forward.down.bias),
        (layer.norm1.weight, block.norm1.gain),
        (layer.norm1.bias, block.norm1.bias),
        (layer.norm2.weight, block.norm2.gain),
        (layer.norm2.bias, block.norm2.bias),
    ]
    with torch.no_grad():
        for theirs, ours in pairs:
            theirs.zero_() if ours is None else theirs.copy_(ours)


def torch_layer(model: TinyLM) -> nn.TransformerEncoderLayer:
    settings = model.settings
    return nn.TransformerEncoderLayer(
        model.width,
        settings.heads,
        settings.feed_forward,
        dropout=0.0,
        activation=settings.activation,
        batch_first=True,
        norm_first=settings.norm == "pre",
        dtype=torch.float64,
    )


def torch_logits(
    model: TinyLM, ids: torch.Tensor
) -> tuple[torch.Tensor, list[nn.TransformerEncoderLayer], nn.LayerNorm]:
    """The model made of torch's finished parts, with the same weights."""
    mask = nn.Transformer.generate_square_subsequent_mask(ids.shape[1], dtype=torch.float64)
    x = F.embedding(ids, model.embedding * model.embedding_scale) + model.sinusoids[: ids.shape[1]]
    layers = [torch_layer(model) for _ in model.blocks]
    for block, layer in zip(model.blocks, layers, strict=True):
        copy_block(block, layer)
        x = layer(x, src_mask=mask)
    norm = nn.LayerNorm(model.width, dtype=torch.float64)
    if model.settings.norm == "pre":
        with torch.no_grad():
            norm.weight.copy_(model.final_norm.gain)
            norm.bias.copy_(model.final_norm.bias)
        x = norm(x)
    if model.output is not None:
        return F.linear(x, model.output.weight), layers, norm
    return x @ model.embedding.T * model.embedding_scale / model.width**0.5, layers, norm


@pytest.mark.parametrize("norm", ["pre", "post"])
@pytest.mark.parametrize("activation", ["relu", "gelu"])
def test_block_matches_torch(new_model, norm, activation):
    model = new_model(width=21, norm=norm, activation=activation)
    block, layer = model.blocks[0], torch_layer(model)
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


@pytest.mark.parametrize("settings", VARIANTS, ids=lambda s: "-".join(map(str, s.values())))
def test_model_matches_torch(new_model, ids, settings):
    model = new_model(width=21, **settings)
    ours, (theirs, layers, _) = model(ids), torch_logits(model, ids)
    torch.testing.assert_close(ours, theirs, rtol=1e-11, atol=1e-11)
    targets = torch.randint(0, 31, ids.shape)
    loss = model.loss(ids, targets)
    reference = F.cross_entropy(theirs.flatten(0, 1), targets.flatten(), ignore_index=model.pad_id, reduction="sum")
    torch.testing.assert_close(loss, reference, rtol=1e-12, atol=0)
    loss.backward()
    mine = [model.embedding.grad, *(block.attention.qkv.weight.grad for block in model.blocks)]
    wanted = torch.autograd.grad(reference, [model.embedding, *(layer.self_attn.in_proj_weight for layer in layers)])
    for one, other in zip(mine, wanted, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("settings", VARIANTS, ids=lambda s: "-".join(map(str, s.values())))
def test_future_tokens_do_not_change_past_logits(new_model, ids, settings):
    model = new_model(**settings)
    before = model(ids)
    for cut in (1, 6, 12):
        changed = ids.clone()
        changed[:, cut:] = (changed[:, cut:] + 5) % 31
        after = model(changed)
        torch.testing.assert_close(after[:, :cut], before[:, :cut], rtol=1e-12, atol=1e-12)
        assert not torch.allclose(after[:, cut:], before[:, cut:], atol=1e-3)


def test_the_gradient_of_a_position_reaches_no_later_token(new_model, ids):
    model = new_model(tied_output=False)
    model(ids)[0, 4].sum().backward()
    touched = model.embedding.grad.abs().sum(1).nonzero().flatten().tolist()
    assert set(touched) == set(ids[0, :5].tolist())


def test_padding_on_the_right_does_not_change_a_rows_logits(new_model, ids):
    model = new_model()
    alone = model(ids[:1, :6])
    padded = ids.clone()
    padded[0, 6:] = model.pad_id
    torch.testing.assert_close(model(padded)[:1, :6], alone, rtol=1e-12, atol=1e-12)


def test_padded_targets_add_nothing_to_loss_and_gradient(new_model, ids):
    model = new_model()
    targets = torch.randint(3, 31, ids.shape)
    short = ids[:2, :6], targets[:2, :6]
    wide = torch.full((2, 13), model.pad_id), torch.full((2, 13), model.pad_id)
    for part, filled in zip(short, wide, strict=True):
        filled[:, :6] = part
    losses = [model.loss(*short), model.loss(*wide)]
    torch.testing.assert_close(losses[0], losses[1], rtol=1e-12, atol=0)
    for one, other in zip(*(torch.autograd.grad(x, list(model.parameters())) for x in losses), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("norm", ["pre", "post"])
@pytest.mark.parametrize("tied", [True, False])
@pytest.mark.parametrize("spread", [1e-3, 1.0, 30.0])
def test_the_first_loss_is_close_to_that_of_guessing(norm, tied, spread):
    vocab, width = 997, 64
    settings = ModelSettings(3, 4, None, 128, 33, 0.0, norm, "gelu", True, tied, "tuned")
    model = TinyLM(settings, vocab, 2, torch.randn(vocab, width) * spread)
    ids, targets = torch.randint(3, vocab, (2, 7, 33))
    nats = model.loss(ids, targets).item() / targets.numel()
    assert math.log(vocab) - 0.3 < nats < math.log(vocab) + 1.0


def test_weights_start_at_the_stated_sizes():
    settings = ModelSettings(8, 4, None, 256, 33, 0.0, "pre", "gelu", True, False, "tuned")
    model = TinyLM(settings, 499, 2, torch.randn(499, 64))
    for name, parameter in model.named_parameters():
        if name.endswith("bias"):
            assert parameter.eq(0).all()
        elif name.endswith("gain"):
            assert parameter.eq(1).all()
        elif name != "embedding":
            wanted = parameter.shape[1] ** -0.5
            if name.endswith(("attention.out.weight", "down.weight")):
                wanted /= 4.0  # sqrt(2 N): the 16 branches that add to the residual stream keep its size
            assert parameter.std().item() == pytest.approx(wanted, rel=0.05), name


@pytest.mark.parametrize("spread", [1e-4, 1.0, 50.0])
def test_input_vectors_of_any_size_enter_at_unit_mean_square(new_model, ids, spread):
    model = TinyLM(new_model().settings, 31, 2, torch.randn(31, 19) * spread)
    entering = model.embedding * model.embedding_scale
    assert entering.square().mean().item() == pytest.approx(1.0, rel=1e-5)


def test_the_scale_of_the_input_vectors_is_saved_with_the_weights(new_model, ids):
    model = new_model()
    other = TinyLM(model.settings, 31, 2, torch.zeros(31, 19)).double().eval()
    other.load_state_dict(model.state_dict())
    torch.testing.assert_close(other(ids), model(ids), rtol=1e-6, atol=1e-6)


def test_a_frozen_embedding_stays_and_the_rest_learns(new_model, ids):
    for tied in (True, False):
        model = new_model(embedding="frozen", tied_output=tied)
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
    model = TinyLM(new_model().settings, 31, 2, matrix)
    with torch.no_grad():
        model.embedding.add_(1.0)
    assert not torch.allclose(model.embedding, matrix)


@pytest.mark.parametrize("norm", ["pre", "post"])
@pytest.mark.parametrize("bias", [True, False])
def test_parameters_counted_by_hand(new_model, norm, bias):
    vocab, width, inner, layers = 31, 19, 23, 2
    block = 4 * width * width + 2 * width * inner + 4 * width + bias * (4 * width + inner + width)
    tied = vocab * width + layers * block + (2 * width if norm == "pre" else 0)
    counts = {
        t: sum(p.numel() for p in new_model(norm=norm, bias=bias, tied_output=t).parameters()) for t in (True, False)
    }
    assert counts == {True: tied, False: tied + vocab * width}


def test_tied_vectors_learn_from_both_ends(new_model, ids):
    model = new_model(tied_output=True)
    model.loss(ids, ids).backward()
    unseen = sorted(set(range(31)) - set(ids.flatten().tolist()))
    assert unseen
    assert model.embedding.grad[unseen].abs().sum(1).gt(0).all()  # from the output only


def test_attention_maps_are_one_tensor_a_layer(new_model, ids):
    model = new_model(layers=3)
    model.use_recompute = True
    for context in (torch.no_grad(), torch.enable_grad()):
        maps: list[torch.Tensor] = []
        with context:
            hidden = model.hidden(ids, maps=maps)
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
    with pytest.raises(ValueError, match="embedding has 30 rows, the vocabulary 31 ids"):
        TinyLM(model.settings, 31, 2, torch.zeros(30, 19))


def test_more_heads_than_columns_want_a_head_width(new_model):
    settings = new_model().settings
    assert settings.problems_with_width(3) == []
    (problem,) = settings.problems_with_width(2)
    assert problem.startswith("model.heads = 3; allowed: at most the embedding's width 2")
