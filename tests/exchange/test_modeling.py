"""The modelling file that --format tinylm carries: every setting, cache, padding."""

import pytest
import torch

from tinylm.exchange.export import own_form

pytest.importorskip("transformers")

CASES = [
    {},
    {
        "norm_kind": "std",
        "norm": "post",
        "final_norm": False,
        "tied_output": False,
        "output_bias": True,
    },
    {"norm_kind": "std", "norm_eps": 1e-3, "positions": "learned", "output_bias": True},
    {"norm_kind": "rms", "norm": "post", "positions": "none", "activation": "relu", "layers": 3},
    {
        "norm_kind": "rms",
        "norm_eps": 1e-8,
        "head_width": 11,
        "qkv_bias": False,
        "tied_output": False,
    },
    {"positions": "rotary", "head_width": 6, "qkv_bias": False},
    {
        "heads": 7,
        "final_norm": False,
        "attention_bias": False,
        "feed_forward_bias": False,
        "width": 23,
    },
]


def loaded(model, dtype=torch.float32):
    from tinylm.exchange.modeling_tinylm import TinyLMConfig, TinyLMForCausalLM

    form = own_form(model)
    config = TinyLMConfig(**{name: form.config[name] for name in ("vocab_size", "width", "model")})
    theirs = TinyLMForCausalLM(config)
    theirs.load_state_dict(form.tensors)
    return theirs.to(dtype).eval()


@pytest.fixture
def ids():
    return torch.randint(0, 31, (5, 13), generator=torch.Generator().manual_seed(11))


@pytest.mark.parametrize("case", CASES)
def test_logits_are_ours(random_model, in_float64, ids, case):
    model = random_model(**case)
    with torch.no_grad():
        assert torch.allclose(loaded(model)(ids).logits, model(ids), rtol=1e-5, atol=1e-5)
        theirs = loaded(model, torch.float64)
        assert (theirs(ids).logits - in_float64(model)(ids)).abs().max() < 1e-10


@pytest.mark.parametrize("case", CASES)
def test_the_cache_changes_nothing(random_model, ids, case):
    theirs = loaded(random_model(**case), torch.float64)
    with torch.no_grad():
        whole = theirs(ids, use_cache=False)
        assert whole.past_key_values is None
        cache, steps = None, []
        for piece in ids.split([5, 1, 1, 6], 1):
            out = theirs(piece, past_key_values=cache)
            cache = out.past_key_values
            steps.append(out.logits)
    assert torch.allclose(torch.cat(steps, 1), whole.logits, rtol=0, atol=1e-12)
    assert cache.get_seq_length() == 13


def test_padding_on_the_left_changes_nothing(random_model, ids):
    theirs = loaded(random_model(heads=4), torch.float64)
    padded = torch.cat([torch.full((5, 3), 2), ids], 1)
    seen = torch.cat([torch.zeros(5, 3), torch.ones(5, 13)], 1).long()
    with torch.no_grad():
        expected = theirs(ids).logits
        assert torch.allclose(
            theirs(padded, attention_mask=seen).logits[:, 3:], expected, rtol=0, atol=1e-12
        )
        last = theirs(padded, attention_mask=seen, logits_to_keep=1).logits
    assert torch.allclose(last, expected[:, -1:], rtol=0, atol=1e-12)


def test_the_loss_is_ours(random_model, ids):
    model = random_model()
    with torch.no_grad():
        found = loaded(model)(ids, labels=ids).loss
        expected = model.loss(ids[:, :-1], ids[:, 1:]) / ids[:, 1:].numel()
    assert float(found) == pytest.approx(float(expected), rel=1e-6)


def test_past_the_context_is_an_error_not_another_text(random_model):
    theirs = loaded(random_model())
    assert theirs(torch.zeros(1, 17, dtype=torch.long)).logits.shape == (1, 17, 31)
    with pytest.raises(ValueError, match="18 tokens; the context is 17"):
        theirs(torch.zeros(1, 18, dtype=torch.long))


def test_dropout_is_on_in_training_only(random_model, ids):
    theirs = loaded(random_model())
    assert torch.equal(theirs(ids).logits, theirs(ids).logits)
    theirs.train()
    assert not torch.equal(theirs(ids).logits, theirs(ids).logits)


def test_generation_with_and_without_a_cache_is_the_same(random_model, ids):
    theirs = loaded(random_model(norm_kind="std"), torch.float64)
    options = {"max_length": 17, "do_sample": False, "pad_token_id": 2}
    for beams in (1, 5):
        found = [
            theirs.generate(ids[:, :4], num_beams=beams, use_cache=cache, **options)
            for cache in (True, False)
        ]
        assert torch.equal(*found)
        assert found[0].shape == (5, 17)
