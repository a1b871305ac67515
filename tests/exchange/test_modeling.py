"""The code that --format tinylm carries: every setting, padding, the loss."""

import re

import pytest
import torch
import torch.nn.functional as F

from tinylm.exchange.configuration_tinylm import TinyLMConfig
from tinylm.exchange.export import tinylm_form
from tinylm.exchange.modeling_tinylm import TinyLMForCausalLM
from tinylm.exchange.remote_code import remote_code

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


@pytest.fixture
def ids():
    return torch.randint(0, 31, (5, 13), generator=torch.Generator().manual_seed(11))


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
