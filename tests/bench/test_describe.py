import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from tinylm.host.tables import WIDTH, format_description
from tinylm.kernels.train.ops import ByHand
from tinylm.model.describe import describe, summary
from tinylm.model.recompute import RunRecomputing
from tinylm.model.transformer import TinyLM
from tinylm.train.optimizers import Adam

VARIANTS = [
    {},
    {"heads": 5, "layers": 3},
    {
        "heads": 3,
        "head_width": 11,
        "qkv_bias": False,
        "attention_bias": False,
        "feed_forward_bias": False,
    },
    {"norm": "post", "tied_output": False},
    {"norm": "post", "final_norm": False, "norm_kind": "rms"},
    {"norm_kind": "std", "positions": "learned", "output_bias": True},
    {"positions": "none", "tied_output": False, "output_bias": True, "qkv_bias": False},
    {"embedding": "frozen"},
    {"embedding": "frozen", "output_bias": True},
    {"embedding": "frozen", "norm": "post"},
    {"embedding": "frozen", "norm": "post", "positions": "learned"},
    {"embedding": "frozen", "norm": "post", "tied_output": False, "layers": 1},
]


def full_batch(model: TinyLM) -> torch.Tensor:
    return torch.randint(3, model.vocab_size, (4, model.settings.context))


@pytest.mark.parametrize("settings", VARIANTS, ids=str)
@pytest.mark.parametrize("on", ["none", "blocks", "blocks+loss", "sqrt"])
def test_operations_are_those_that_torch_counts(new_model, settings, on):
    ops = ByHand(loss="twice" if on == "blocks+loss" else "chunked")
    layers = {"layers": 4} if on == "sqrt" else {}
    model = new_model(ops=ops, run_blocks=RunRecomputing(on), **layers | settings).train()
    ids = full_batch(model)
    with FlopCounterMode(display=False) as forward, torch.no_grad():
        model(ids)
    with FlopCounterMode(display=False) as training:
        model.loss(ids, ids).backward()
    totals = summary(model)
    assert totals["forward_flop_per_token"] * ids.numel() == forward.get_total_flops()
    assert totals["training_flop_per_token"] * ids.numel() == training.get_total_flops()


def test_attention_is_the_part_that_grows_with_the_context(new_model):
    short, long = (summary(new_model(context=context)) for context in (17, 34))
    assert long["attention_flop_per_token"] == 2 * short["attention_flop_per_token"]
    growth = long["forward_flop_per_token"] - short["forward_flop_per_token"]
    assert (
        growth == short["attention_flop_per_token"] == 2 * 2 * 2 * 21 * 17
    )  # layers, products, 2, columns, slots


@pytest.mark.parametrize("settings", VARIANTS, ids=str)
def test_parameters_are_those_of_the_model(new_model, settings):
    model = new_model(**settings)
    totals, parts = summary(model), describe(model)
    count = sum(p.numel() for p in model.parameters())
    assert (
        totals["parameters"]
        == sum(p.parameters for p in parts)
        == sum(totals["parameters_by_part"].values())
        == count
    )
    trainable = sum(p.numel() for p in model.parameters() if p.requires_grad)
    assert (
        totals["parameters_trainable"]
        == sum(p.parameters for p in parts if p.trainable)
        == trainable
    )
    learned = 17 * 19 if model.settings.positions == "learned" else 0
    assert totals["parameters_by_part"]["embedding"] == 31 * 19 + learned
    output = (0 if model.settings.tied_output else 31 * 19) + (
        31 if model.settings.output_bias else 0
    )
    assert totals["parameters_by_part"]["output"] == output
    norms = sum(p.numel() for name, p in model.named_parameters() if "norm" in name)
    assert totals["parameters_by_part"]["norms"] == norms


@pytest.mark.parametrize("settings", VARIANTS, ids=str)
def test_bytes_are_those_of_the_tensors(new_model, settings):
    model = new_model(**settings).float()
    ids = full_batch(model)
    model.loss(ids, ids).backward()
    totals = summary(model)
    parameters = list(model.parameters())
    assert totals["weight_bytes"] == sum(p.nbytes for p in parameters)
    assert totals["gradient_bytes"] == sum(p.grad.nbytes for p in parameters if p.grad is not None)
    adam = Adam([([p for p in parameters if p.requires_grad], 0.0)], (0.9, 0.99), 1e-8, True)
    assert totals["optimizer_bytes"] == sum(t.nbytes for t in adam.first + adam.second)
    assert totals["kv_cache_bytes_per_row"] == model.new_cache(1).nbytes


def test_muon_keeps_one_number_for_each_of_the_blocks_weights(new_model):
    model = new_model()
    weights = sum(
        p.nbytes
        for name, p in model.named_parameters()
        if name.startswith("blocks") and p.dim() == 2
    )
    assert summary(model)["optimizer_bytes"] - summary(model, "muon")["optimizer_bytes"] == weights


def test_the_table_is_aligned_and_joins_equal_blocks(new_settings):
    settings = new_settings(layers=4, heads=8, feed_forward=512, context=192)
    lines = format_description(describe(TinyLM(settings, torch.randn(1000, 300)))).splitlines()
    assert lines[3] == "block 1-4, each:"
    assert [line[:14].strip() for line in lines[4:8]] == ["norms", "attention", "", "feed-forward"]
    assert "300 -> 3 x 300 + bias (8 x 37-38)  " in lines[5]
    assert lines[6].split() == ["->", "300", "+", "bias"]
    assert lines[-1].split() == ["all", "2,982,248", "5,976,000", "933,888", "20,729,664"]
    assert (
        len({len(line) for line in lines if line[-1].isdecimal() or line[-1] == "-"}) == 1
    )  # every line ends with a number of the last column
    ends = [
        [i for i in range(1, len(line)) if line[i] == " " != line[i - 1]]
        for line in (lines[1], lines[-1])
    ]
    assert lines[0].endswith("training")
    assert ends


def test_blocks_that_differ_stand_apart(new_model):
    text = format_description(describe(new_model(norm="post", embedding="frozen", layers=3)))
    lines = [line.split("   ")[0].strip() for line in text.splitlines()]
    assert [line for line in lines if line.startswith(("block", "attention", "feed"))] == [
        "block 1-3, each:", "block 1:", "attention", "block 1-3, each:", "feed-forward", "block 2-3, each:",
        "attention"
    ]  # fmt: skip
    assert "embedding, frozen  " in text


def test_no_line_is_wider_than_a_page(new_settings):
    """With numbers of nine digits a long shape goes on in the next line."""
    settings = new_settings(layers=12, heads=16, feed_forward=16000, context=2048)
    lines = format_description(
        describe(TinyLM(settings, torch.empty(90000, 2000, device="meta")))
    ).splitlines()
    assert max(map(len, lines)) <= WIDTH
    assert "".join(" ".join(lines).split()).count("2000->3x2000+bias") == 1


def test_the_table_names_what_a_variant_is_made_of(new_model):
    settings = {
        "norm": "post",
        "norm_kind": "rms",
        "positions": "learned",
        "qkv_bias": False,
        "output_bias": True,
    }
    lines = format_description(describe(new_model(layers=1, **settings))).splitlines()
    places = {line[:15].strip(): " ".join(line[15:].split()) for line in lines}
    assert places["positions"].startswith("17 x 19, learned 323 -")
    assert places["norms"].startswith("2 x 19, rms, post 38 -")
    assert places["attention"].startswith("19 -> 3 x 19 (3 x 6-7) -> 19 + bias 1,463 3,192")
    assert places["feed-forward"].startswith("19 -> 23 + bias gelu -> 19 + bias 916 1,748")
    assert places["final norm"].startswith("19, rms 19 -")
    assert places["output (tied)"].startswith("31 x 19 + bias 31 1,178")
    assert "positions" in format_description(describe(new_model(positions="none", layers=1)))
