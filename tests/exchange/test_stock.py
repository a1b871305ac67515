"""The logits of exports, whatever the settings: by transformers' classes, and by the code of --format tinylm."""

import re

import pytest
import torch
import torch.nn.functional as F
import transformers

from tests.support.small import pairs
from tinylm.base.config import InputError
from tinylm.exchange.configuration_tinylm import TinyLMConfig
from tinylm.exchange.export import tinylm_form
from tinylm.exchange.modeling_tinylm import TinyLMForCausalLM
from tinylm.exchange.remote_code import WRAPPER, remote_code
from tinylm.exchange.stock import rotary_share, stock_form

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


def test_readers_rotate_the_channels_that_we_rotate():
    for head_width in range(1, 513):
        for rotated in range(1, head_width + 1):
            assert int(head_width * rotary_share(rotated, head_width)) == rotated


@pytest.mark.parametrize("output", [{}, {"tied_output": False}, {"output_bias": True}])
@pytest.mark.parametrize("shape", [(12, 2, None), (12, 3, 8), (19, 3, 4), (88, 2, 30)])
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
    ("key", "value"), [("norm_kind", "rms"), ("norm", "post"), ("final_norm", False)]
)
def test_what_neither_architecture_computes_is_refused_by_its_key(random_model, key, value):
    with pytest.raises(InputError, match=rf"model\.{key}: .* --format tinylm"):
        stock_form(random_model(**{key: value}))


CASES = [
    {},
    {"norm_kind": "std", "norm": "post", "final_norm": False, "tied_output": False},
    {"norm_kind": "std", "norm_eps": 1e-3, "positions": "learned", "output_bias": True},
    {"norm_kind": "rms", "norm": "post", "positions": "none", "activation": "relu", "layers": 3},
    {"norm_kind": "rms", "head_width": 11, "qkv_bias": False, "tied_output": False},
    {"positions": "rotary", "head_width": 6, "qkv_bias": False},
]


def loaded(model):
    """The model from what an export holds: config and tensors."""
    form = tinylm_form(model)
    exported = TinyLMForCausalLM(TinyLMConfig(**form.config))
    exported.load_state_dict(form.tensors)
    return exported.eval().double()


@pytest.mark.parametrize("case", CASES)
def test_logits_and_loss_are_ours(random_model, ids, case):
    model = random_model(**case)
    exported = loaded(model)
    with torch.no_grad():
        out = exported(ids, labels=ids)
        torch.testing.assert_close(out.logits, model.double()(ids), rtol=0, atol=1e-10)
    expected = F.cross_entropy(out.logits[:, :-1].flatten(0, 1), ids[:, 1:].flatten())
    assert float(out.loss) == pytest.approx(float(expected), rel=1e-6)


@pytest.mark.parametrize("case", CASES)
def test_padding_at_either_end_changes_nothing(random_model, ids, case):
    exported = loaded(random_model(**case))
    padded = torch.full((5, 17), 2)
    mask = torch.zeros(5, 17, dtype=torch.long)
    for row, (first, length) in enumerate([(4, 13), (0, 13), (9, 8), (2, 5), (16, 1)]):
        padded[row, first : first + length] = ids[row, :length]
        mask[row, first : first + length] = 1
    with torch.no_grad():
        logits = exported(padded, attention_mask=mask).logits
        last = exported(padded, attention_mask=mask, logits_to_keep=1).logits
        for row in range(5):
            alone = exported(padded[row, mask[row] == 1][None]).logits[0]
            torch.testing.assert_close(logits[row, mask[row] == 1], alone, rtol=0, atol=1e-12)
    torch.testing.assert_close(last, logits[:, -1:], rtol=0, atol=1e-12)


def padded_rows(ids, first):
    """(rows, mask, labels) of texts of 13, 9, 5, 1 and 3 tokens; `first`: the column where each text begins."""
    rows, mask = torch.full((5, 17), 2), torch.zeros(5, 17, dtype=torch.long)
    for row, length in enumerate((13, 9, 5, 1, 3)):
        begin = first(length)
        rows[row, begin : begin + length] = ids[row, :length]
        mask[row, begin : begin + length] = 1
    return rows, mask, rows.masked_fill(mask == 0, -100)


def nats(exported, ids):
    """Loss summed over all predictions, each text computed alone."""
    total = 0.0
    for row, length in enumerate((13, 9, 5, 1, 3)):
        logits = exported(ids[row : row + 1, :length]).logits[0, :-1]
        total += float(F.cross_entropy(logits, ids[row, 1:length], reduction="sum"))
    return total


@pytest.mark.parametrize("case", CASES)
def test_padding_is_not_scored_on_either_side(random_model, ids, case):
    """The mean is over the 26 predictions in texts, also if padding has labels, or over Trainer's count."""
    exported = loaded(random_model(**case))
    with torch.no_grad():
        expected = nats(exported, ids)
        for first in (lambda length: 0, lambda length: 17 - length, lambda length: 2):
            rows, mask, labels = padded_rows(ids, first)
            for given in (labels, rows):
                found = exported(rows, attention_mask=mask, labels=given).loss
                assert float(found) == pytest.approx(expected / 26, rel=1e-6)
            options = {"attention_mask": mask, "labels": labels, "num_items_in_batch": 104}
            assert float(exported(rows, **options).loss) == pytest.approx(expected / 104, rel=1e-6)


@pytest.mark.parametrize("case", CASES)
def test_packed_texts_do_not_see_each_other(random_model, ids, case):
    """Two texts in a row, told apart by position_ids; padding may have any position."""
    exported = loaded(random_model(**case))
    positions = torch.tensor([[0, 1, 2, 3, 4, 5, 6, 0, 1, 2, 3, 4, 5]])
    with torch.no_grad():
        packed = exported(ids[:1], position_ids=positions).logits[0]
        alone = [exported(part).logits[0] for part in (ids[:1, :7], ids[:1, 7:])]
        torch.testing.assert_close(packed, torch.cat(alone), rtol=0, atol=1e-12)
        both = exported(ids[:2], position_ids=positions).logits[0]  # one row of positions for all
        torch.testing.assert_close(both, packed, rtol=0, atol=1e-12)
        targets = torch.cat([ids[0, 1:7], ids[0, 8:]])
        scores = torch.cat([alone[0][:-1], alone[1][:-1]])
        loss = exported(ids[:1], position_ids=positions, labels=ids[:1]).loss
        assert float(loss) == pytest.approx(float(F.cross_entropy(scores, targets)), rel=1e-6)
        rows, mask, _ = padded_rows(ids, lambda length: 17 - length)
        expected = exported(rows, attention_mask=mask).logits
        for padding in (0, 1):
            counted = (mask.cumsum(-1) - 1).masked_fill(mask == 0, padding)
            found = exported(rows, attention_mask=mask, position_ids=counted).logits
            torch.testing.assert_close(found, expected, rtol=0, atol=1e-12)
    with pytest.raises(ValueError, match=r"expected 1, .* got 5"):
        exported(ids[:1], position_ids=positions[:, :1] + torch.tensor([[0, 5, *range(2, 13)]]))


def test_past_the_context_is_an_error_not_another_text(random_model):
    exported = loaded(random_model())
    with pytest.raises(ValueError, match="17"):
        exported(torch.zeros(1, 18, dtype=torch.long))


def test_an_export_carries_the_reference_and_all_that_it_imports():
    files = remote_code()
    for name, text in files.items():
        assert not re.search(r"^ *(import|from) tinylm\b", text, re.MULTILINE), name
        imported = re.findall(r"^ *from \.(\w+) import", text, re.MULTILINE)
        assert {f"{module}.py" for module in imported} <= set(files), name
    # transformers 4 copies only the files that the wrapper imports itself.
    of_wrapper = re.findall(r"^ *from \.(\w+) import", files[f"{WRAPPER}.py"], re.MULTILINE)
    assert {f"{module}.py" for module in [WRAPPER, *of_wrapper]} == set(files)
