"""The compiled step against the model's own forward pass: logits, texts and beams in every architecture."""

import itertools

import pytest
import torch

from tests.support.small import DECODE, needs_compiler, random_model
from tinylm.base.config import InputError
from tinylm.decoding.beam_search import beam_search
from tinylm.decoding.sampling import generate
from tinylm.decoding.session import Session, Step
from tinylm.decoding.settings import DecodeSettings
from tinylm.kernels import library
from tinylm.kernels.decoding import step as compiled
from tinylm.kernels.decoding.graphed import GraphedStep
from tinylm.kernels.decoding.step import CompiledStep, decoding_step

VOCAB, WIDTH = 61, 37
PROMPTS = [[1], [2, 3, 4, 5, 6], [7, 8], list(range(9, 9 + 16)), list(range(5, 5 + 23))]
NO_BIAS = {"qkv_bias": False, "attention_bias": False}
ARCHITECTURES = {
    "pre": {},
    "post": {"norm": "post", "final_norm": False, "activation": "relu"},
    "rms, narrow heads": {"norm_kind": "rms", "head_width": 5, "tied_output": False, "output_bias": True},
    "std, no biases": {"norm_kind": "std", **NO_BIAS},
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
    fixed = {"max_new_tokens": 40, "eos_id": 2, "banned": [0]}
    fixed["slide"] = "one" if method == "sliding one" else "half"
    settings = DecodeSettings(
        **(DECODE | {"repetition_penalty": 1.3 if method == "repetition penalty" else 1.0})
    )
    for prompts in (PROMPTS[:1], PROMPTS * 4, PROMPTS[2:4]):
        if method == "beams":
            texts, expected = (
                beam_search(model, prompts, width=3, step=one, **fixed) for one in (step, None)
            )
            assert [best.ids for best, *_ in texts] == [best.ids for best, *_ in expected]
        else:
            texts, expected = (
                generate(model, prompts, settings, step=one, **fixed) for one in (step, None)
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


@needs_compiler
def test_a_row_does_not_depend_on_its_batch_or_on_the_number_of_threads(monkeypatch):
    model = random_model(700, WIDTH)
    step = CompiledStep(model)
    monkeypatch.setattr(compiled, "TWO_THREAD_WORK", 0)
    together = Session(model, PROMPTS, new_tokens=12, step=step)
    alone = [Session(model, [prompt], new_tokens=12, step=step) for prompt in PROMPTS]
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
