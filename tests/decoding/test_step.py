"""The compiled step against the model's own forward pass: logits, texts and beams in every architecture."""

import contextlib
import dataclasses
import itertools

import numpy as np
import pytest
import torch
from torch import nn

from tests.support.small import DECODE, needs_compiler, random_model
from tinylm.base.config import InputError
from tinylm.decoding.beam_search import beam_search
from tinylm.decoding.decoder import Decoder
from tinylm.decoding.sampling import generate
from tinylm.decoding.session import Session, Step, decoding_mode
from tinylm.decoding.settings import BeamSettings, DecodeSettings
from tinylm.kernels import library
from tinylm.kernels.decoding import step as compiled
from tinylm.kernels.decoding.graphed import GraphedStep
from tinylm.kernels.decoding.step import CompiledStep, decoding_step
from tinylm.model import transformer
from tinylm.model.ops import ACTIVATIONS, Ops
from tinylm.model.transformer import SelfAttention

VOCAB, WIDTH = 61, 37
PROMPTS = [[1], [2, 3, 4, 5, 6], [7, 8], list(range(9, 9 + 16)), list(range(5, 5 + 23))]
NO_BIAS = {"qkv_bias": False, "attention_bias": False}
ARCHITECTURES = {
    "pre": {},
    "post": {"norm": "post", "final_norm": False, "activation": "relu", "norm_eps": 0.1},
    "rms, narrow heads": {"norm_kind": "rms", "norm_eps": 0.2, "head_width": 5, "tied_output": False, "output_bias": True},
    "std, no biases": {"norm_kind": "std", "norm_eps": 0.3, **NO_BIAS},
    "rotary": {"positions": "rotary", "head_width": 6},
    "rotary, post, wide heads": {"positions": "rotary", "heads": 2, "head_width": 70, "norm": "post"},
    "wide heads": {"heads": 2, "head_width": 70, "positions": "none", "output_bias": True},
}  # fmt: skip
METHODS = ("greedy", "sliding one", "repetition penalty", "beams")


@needs_compiler
@pytest.mark.parametrize("name", ARCHITECTURES)
@pytest.mark.parametrize("slide", ["half", "one"])
def test_compiled_logits_equal_plain_ones_past_the_context(name, slide):
    model = random_model(VOCAB, WIDTH, **ARCHITECTURES[name])
    plain = Session(model, PROMPTS, slide=slide, new_tokens=40)
    fast = Session(model, PROMPTS, slide=slide, new_tokens=40, step=CompiledStep(model))
    for column in range(40):
        logits = plain.next_logits()
        torch.testing.assert_close(fast.next_logits(), logits, rtol=2e-4, atol=2e-4)
        for session in (plain, fast):
            session.append(logits.argmax(-1))
        if column in (7, 20):  # rows leave
            rows = torch.tensor([3, 0, 2] if column == 7 else [1, 2])
            plain.select(rows)
            fast.select(rows)
    assert [fast.ids(row) for row in range(2)] == [plain.ids(row) for row in range(2)]


@pytest.mark.parametrize(("name", "method"), zip(ARCHITECTURES, itertools.cycle(METHODS)))
def test_a_graphed_step_gives_the_texts_of_the_plain_one(name, method):
    """On a CPU, where nothing is recorded; three times 20 texts, so that its buffer grows and is shared."""
    model = random_model(VOCAB, WIDTH, **ARCHITECTURES[name])
    step = GraphedStep(model)
    slide = "one" if method == "sliding one" else "half"
    plain = Decoder(model=model, eos_id=2, banned=[0], slide=slide)
    decoders = (dataclasses.replace(plain, step=step), plain)
    settings = DecodeSettings(
        **(DECODE | {"repetition_penalty": 1.3 if method == "repetition penalty" else 1.0})
    )
    for prompts in (PROMPTS[:1], PROMPTS * 4, PROMPTS[2:4]):
        if method == "beams":
            beams = BeamSettings(width=3)
            texts, expected = (
                beam_search(decoder, prompts, beams, max_new_tokens=40) for decoder in decoders
            )
            assert [best.ids for best, *_ in texts] == [best.ids for best, *_ in expected]
        else:
            texts, expected = (
                generate(decoder, prompts, settings, max_new_tokens=40) for decoder in decoders
            )
            assert [row.ids for row in texts] == [row.ids for row in expected]


def test_two_sessions_take_turns_with_one_graphed_step():
    model = random_model(VOCAB, WIDTH)
    step = GraphedStep(model)
    sessions = [
        Session(model, prompts, new_tokens=30, step=step) for prompts in (PROMPTS[:2], PROMPTS[2:])
    ]
    alone = [Session(model, prompts, new_tokens=30) for prompts in (PROMPTS[:2], PROMPTS[2:])]
    for _ in range(30):
        for session, reference in zip(sessions, alone, strict=True):
            logits = reference.next_logits()
            torch.testing.assert_close(session.next_logits(), logits, rtol=2e-4, atol=2e-4)
            session.append(logits.argmax(-1))
            reference.append(logits.argmax(-1))


def test_a_graphed_step_follows_a_cache_that_left_its_buffer_for_more_rows():
    model = random_model(VOCAB, WIDTH)
    step = GraphedStep(model)
    larger = Session(model, PROMPTS * 2, new_tokens=2, step=step)
    for _ in range(2):  # the first logits come from all tokens at once, the second from the step
        larger.append(larger.next_logits().argmax(-1))
    fast = Session(model, PROMPTS[:2], new_tokens=9, step=step)
    plain = Session(model, PROMPTS[:2], new_tokens=9)
    for column in range(9):
        logits = plain.next_logits()
        torch.testing.assert_close(fast.next_logits(), logits, rtol=2e-4, atol=2e-4)
        for session in (fast, plain):
            session.append(logits.argmax(-1))
            if column == 4:
                session.select(torch.tensor([0, 1, 1, 0, 1]))


@needs_compiler
@pytest.mark.parametrize("positions", ["sinusoids", "rotary"])
def test_a_row_does_not_depend_on_its_batch_or_on_the_number_of_threads(positions, monkeypatch):
    model = random_model(700, WIDTH, positions=positions, head_width=6)
    step = CompiledStep(model)
    monkeypatch.setattr(compiled, "TWO_THREAD_WORK", 0)
    prompts = PROMPTS * 3  # so many that threads share the rows, not the products
    together = Session(model, prompts, new_tokens=12, step=step)
    alone = [Session(model, [prompt], new_tokens=12, step=step) for prompt in prompts]
    threads = torch.get_num_threads()
    for number in range(11):
        torch.set_num_threads(1 + number % 3)
        logits = together.next_logits()
        torch.set_num_threads(threads)
        assert torch.equal(logits, torch.cat([session.next_logits() for session in alone]))
        tokens = logits.argmax(-1)
        together.append(tokens)
        for session, token in zip(alone, tokens, strict=True):
            session.append(token[None])


@needs_compiler
def test_many_tokens_at_once_run_through_the_models_own_code(monkeypatch):
    model = random_model(VOCAB, WIDTH)
    monkeypatch.setattr(compiled, "MOST_TOKENS", 3)
    logits = Session(model, PROMPTS, step=CompiledStep(model)).next_logits()
    assert torch.equal(logits, Session(model, PROMPTS).next_logits())


@needs_compiler
@pytest.mark.parametrize(
    ("step", "kind"), [("auto", CompiledStep), ("compiled", CompiledStep), ("plain", Step)]
)
def test_auto_takes_the_compiled_step_and_plain_does_not(step, kind):
    model = random_model(VOCAB, WIDTH)
    assert type(decoding_step(model, step)) is kind


@contextlib.contextmanager
def defaults(dtype, device):
    """What another library may set for all new tensors."""
    torch.set_default_dtype(dtype)
    torch.set_default_device(device)
    try:
        yield
    finally:
        torch.set_default_device(None)
        torch.set_default_dtype(torch.float32)


@needs_compiler
@pytest.mark.parametrize("step", ["plain", "compiled"])
@pytest.mark.parametrize(
    ("dtype", "device"),
    [
        (torch.float64, "cpu"),
        (torch.bfloat16, "cpu"),
        (torch.float16, "cpu"),
        (torch.float32, "meta"),
    ],
)
def test_defaults_that_another_library_sets_change_nothing(dtype, device, step):
    model = random_model(VOCAB, WIDTH)
    session = Session(model, PROMPTS, new_tokens=2, step=decoding_step(model, step))
    expected = session.next_logits()
    with defaults(dtype, device):
        session = Session(model, PROMPTS, new_tokens=2, step=decoding_step(model, step))
        assert torch.equal(session.next_logits(), expected)
        session.append(torch.full((len(PROMPTS),), 3, device="cpu"))
        again = session.next_logits()
        decoder = Decoder(model=model, eos_id=2, banned=[0], step=session.step)
        generate(decoder, PROMPTS, DecodeSettings(**DECODE), max_new_tokens=3)
        beam_search(decoder, PROMPTS[:1], BeamSettings(width=2), max_new_tokens=3)
    assert again.dtype == torch.float32
    plain = Session(model, PROMPTS, new_tokens=2)
    plain.next_logits()
    plain.append(torch.full((len(PROMPTS),), 3))
    torch.testing.assert_close(again, plain.next_logits(), rtol=2e-4, atol=2e-4)


@needs_compiler
def test_the_compiled_step_refuses_a_cache_that_it_cannot_write():
    model = random_model(VOCAB, WIDTH)
    step = CompiledStep(model)
    cache = model.double().new_cache(1)
    with pytest.raises(TypeError, match="float32 cache"):
        step.advance(np.array([3]), np.array([0]), cache)


class Wrapped(nn.Module):
    """A layer with an addition, as LoRA makes them."""

    def __init__(self, layer):
        super().__init__()
        self.layer = layer

    def forward(self, x):
        return self.layer(x) + 1.0


class OtherOps(Ops):
    def attention(self, *args):
        return super().attention(*args) * 0


def zero(module, args, output):
    return output * 0


def replaced(module, name, value):
    setattr(module, name, value)


CHANGES = {
    "a hook": lambda m: m.blocks[1].attention.register_forward_hook(zero),
    "a hook of a linear layer": lambda m: m.blocks[0].feed_forward.up.register_forward_hook(zero),
    "a hook before": lambda m: m.blocks[0].register_forward_pre_hook(lambda b, a: (a[0] * 2, *a[1:])),
    "a hook of the output": lambda m: m.output.register_forward_hook(zero),
    "a forward pass": lambda m: replaced(m.blocks[0].feed_forward, "forward", torch.zeros_like),
    "a method": lambda m: replaced(m, "embed_tokens", lambda ids: torch.ones(*ids.shape, WIDTH)),
    "a wrapped layer": lambda m: replaced(m.blocks[0].attention, "qkv", Wrapped(m.blocks[0].attention.qkv)),
    "a wrapped output": lambda m: replaced(m, "output", Wrapped(m.output)),
    "another module": lambda m: replaced(m.blocks[0], "norm1", nn.Identity()),
    "fewer blocks": lambda m: replaced(m, "blocks", m.blocks[:1]),
    "a narrower layer": lambda m: [
        replaced(m.blocks[0].feed_forward, "up", nn.Linear(WIDTH, 9)),
        replaced(m.blocks[0].feed_forward, "down", nn.Linear(9, WIDTH)),
    ],
    "an attribute": lambda m: replaced(m.blocks[1].attention, "scale", 9.0),
    "an activation": lambda m: replaced(m.blocks[0].feed_forward, "activation", torch.sin),
}  # fmt: skip


@needs_compiler
@pytest.mark.parametrize("name", CHANGES)
def test_a_changed_model_is_decoded_by_its_own_modules(name):
    model = random_model(VOCAB, WIDTH, tied_output=False)
    unchanged = model(torch.tensor([PROMPTS[1]]))[0, -1]
    CHANGES[name](model)
    expected = model(torch.tensor([PROMPTS[1]]))[0, -1]
    assert not torch.allclose(expected, unchanged)
    logits = Session(model, [PROMPTS[1]], step=decoding_step(model)).next_logits()[0]
    torch.testing.assert_close(logits, expected, rtol=2e-4, atol=2e-4)
    targets = torch.arange(5)[None]
    loss = model.token_loss(torch.tensor([PROMPTS[1]]), targets)
    chosen = model(torch.tensor([PROMPTS[1]])).log_softmax(-1).gather(-1, targets[..., None])
    torch.testing.assert_close(loss, -chosen[..., 0], rtol=1e-4, atol=1e-4)
    with pytest.raises(InputError, match="compiled"):
        decoding_step(model, "compiled")


@needs_compiler
def test_operations_of_a_users_own_and_classes_that_were_replaced_are_noticed(monkeypatch):
    assert type(decoding_step(random_model(VOCAB, WIDTH, OtherOps()))) is Step
    monkeypatch.setattr(SelfAttention, "forward", lambda self, x, *_: x)
    assert type(decoding_step(random_model(VOCAB, WIDTH))) is Step


class OwnBlock(transformer.Block):
    """A block that a user derives."""


@needs_compiler
def test_parts_that_were_replaced_while_a_model_was_built_are_noticed():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(transformer, "Block", OwnBlock)
        assert type(decoding_step(random_model(VOCAB, WIDTH))) is Step
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(ACTIVATIONS, "gelu", torch.sin)
        own_activation = random_model(VOCAB, WIDTH, activation="gelu")
    assert type(decoding_step(own_activation)) is Step
    other_settings = random_model(VOCAB, WIDTH)
    assert type(decoding_step(other_settings)) is CompiledStep
    other_settings.settings = dataclasses.replace(other_settings.settings, norm_eps=0.5)
    assert type(decoding_step(other_settings)) is Step
    tensor_for_number = random_model(VOCAB, WIDTH)
    tensor_for_number.blocks[0].attention.scale = torch.ones(2)
    assert type(decoding_step(tensor_for_number)) is Step


def test_a_hook_on_the_model_itself_is_refused_since_nothing_calls_it():
    model = random_model(VOCAB, WIDTH)
    model.register_forward_hook(zero)
    with pytest.raises(InputError, match="hook"), decoding_mode(model):
        pass


@pytest.mark.parametrize("missing", ["compiler", "float32"])
def test_where_it_cannot_be_auto_is_plain_and_compiled_is_refused(monkeypatch, tmp_path, missing):
    model = random_model(VOCAB, WIDTH)
    if missing == "float32":
        model.double()
    else:
        monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
        monkeypatch.setattr(library, "compiler", lambda: None)
        monkeypatch.setattr(compiled, "library", compiled.library.__wrapped__)
    assert type(decoding_step(model)) is Step
    with pytest.raises(InputError, match="compiled"):
        decoding_step(model, "compiled")
