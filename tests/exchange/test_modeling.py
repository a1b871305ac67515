"""The modelling file that --format tinylm carries: every setting, cache, padding."""

import dataclasses

import pytest
import torch
import torch.nn.functional as F

from tests.support.small import MODEL, in_float64
from tinylm.exchange.export import own_form
from tinylm.exchange.modeling_tinylm import TinyLMConfig, TinyLMForCausalLM
from tinylm.model.settings import ModelSettings

CASES = [
    {},
    {"norm_kind": "std", "norm": "post", "final_norm": False, "tied_output": False},
    {"norm_kind": "std", "norm_eps": 1e-3, "positions": "learned", "output_bias": True},
    {"norm_kind": "rms", "norm": "post", "positions": "none", "activation": "relu", "layers": 3},
    {"norm_kind": "rms", "head_width": 11, "qkv_bias": False, "tied_output": False},
    {"positions": "rotary", "head_width": 6, "qkv_bias": False},
    {"heads": 7, "attention_bias": False, "feed_forward_bias": False, "width": 23},
]


def loaded(model, dtype=torch.float32):
    form = own_form(model)
    config = TinyLMConfig(**{name: form.config[name] for name in ("vocab_size", "width", "model")})
    exported = TinyLMForCausalLM(config)
    exported.load_state_dict(form.tensors)
    return exported.to(dtype).eval()


@pytest.fixture
def ids():
    return torch.randint(0, 31, (5, 13), generator=torch.Generator().manual_seed(11))


@pytest.mark.parametrize("case", CASES)
def test_logits_are_ours_with_and_without_a_cache(random_model, ids, case):
    model = random_model(**case)
    exported = loaded(model, torch.float64)
    cache = None
    steps = []
    with torch.no_grad():
        whole = exported(ids, use_cache=False)
        assert whole.past_key_values is None
        torch.testing.assert_close(whole.logits, in_float64(model)(ids), rtol=0, atol=1e-10)
        loss = float(exported(ids, labels=ids).loss)
        expected = F.cross_entropy(whole.logits[:, :-1].flatten(0, 1), ids[:, 1:].flatten())
        assert loss == pytest.approx(float(expected), rel=1e-6)
        for piece in ids.split([5, 1, 1, 6], 1):
            out = exported(piece, past_key_values=cache)
            cache = out.past_key_values
            steps.append(out.logits)
    torch.testing.assert_close(torch.cat(steps, 1), whole.logits, rtol=0, atol=1e-12)


def test_padding_on_the_left_changes_nothing(random_model, ids):
    exported = loaded(random_model(heads=4), torch.float64)
    padded = torch.cat([torch.full((5, 3), 2), ids], 1)
    mask = torch.cat([torch.zeros(5, 3), torch.ones(5, 13)], 1).long()
    with torch.no_grad():
        expected = exported(ids).logits
        logits = exported(padded, attention_mask=mask).logits
        last = exported(padded, attention_mask=mask, logits_to_keep=1).logits
    torch.testing.assert_close(logits[:, 3:], expected, rtol=0, atol=1e-12)
    torch.testing.assert_close(last, expected[:, -1:], rtol=0, atol=1e-12)


def test_the_cases_have_every_choice_of_the_settings():
    for field in dataclasses.fields(ModelSettings):
        if field.name in ("norm", "norm_kind", "positions", "activation"):
            values = {case.get(field.name, MODEL[field.name]) for case in CASES}
            assert values == set(field.metadata["allowed"].choices)


def test_past_the_context_is_an_error_not_another_text(random_model):
    exported = loaded(random_model())
    assert exported(torch.zeros(1, 17, dtype=torch.long)).logits.shape == (1, 17, 31)
    with pytest.raises(ValueError, match="17"):
        exported(torch.zeros(1, 18, dtype=torch.long))
