"""The compiled step against plain torch: logits, texts, beams, in every architecture and precision."""

import dataclasses
import math
import shutil

import pytest
import torch

from tests.support.pairs import pairs
from tests.support.small import random_model
from tinylm.base.config import InputError
from tinylm.decoding import filters
from tinylm.decoding.beam_search import beam_search
from tinylm.decoding.sampling import generate
from tinylm.decoding.session import Session
from tinylm.kernels.decoding import build, session
from tinylm.kernels.decoding.choosing import draw, largest
from tinylm.kernels.decoding.decoder import prepare
from tinylm.kernels.decoding.graphs import GraphSession
from tinylm.kernels.decoding.rounding import LowerPrecision, quantise, quantised_inputs

CONTEXT, VOCAB, WIDTH = 17, 61, 37
PROMPTS = [[1], [2, 3, 4, 5, 6], [7, 8], list(range(9, 9 + 16)), list(range(5, 5 + 23))]
ARCHITECTURES = {
    "pre": {},
    "post": {"norm": "post", "final_norm": False, "activation": "relu"},
    "rms, narrow heads": {
        "norm_kind": "rms",
        "head_width": 5,
        "tied_output": False,
        "output_bias": True,
    },
    "std, no biases": {
        "norm_kind": "std",
        "qkv_bias": False,
        "attention_bias": False,
        "feed_forward_bias": False,
    },
    "rotary": {"positions": "rotary", "head_width": 6},
    "rotary, post, wide heads": {
        "positions": "rotary",
        "heads": 2,
        "head_width": 70,
        "norm": "post",
    },
    "wide heads": {"heads": 2, "head_width": 70, "positions": "none", "output_bias": True},
}
needs_compiler = pytest.mark.skipif(build.compiler() is None, reason="no C++ compiler")


@pytest.fixture(scope="module", autouse=True)
def own_cache(tmp_path_factory):
    """Compiled once for these tests, from this source."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
        build.library.cache_clear()
        yield
    build.library.cache_clear()


@needs_compiler
@pytest.mark.parametrize("name", ARCHITECTURES)
@pytest.mark.parametrize("slide", ["half", "one"])
def test_compiled_logits_equal_plain_ones_past_the_context(name, slide):
    model = random_model(VOCAB, WIDTH, **ARCHITECTURES[name])
    plain, fast = (
        Session(model, PROMPTS, slide=slide),
        prepare(model, "fp32", "compiled").session(PROMPTS, slide=slide),
    )
    for step in range(40):
        logits = plain.next_logits()
        torch.testing.assert_close(fast.next_logits(), logits, rtol=2e-4, atol=2e-4)
        for each in (plain, fast):
            each.append(logits.argmax(-1))
        if step in (7, 20):  # rows leave
            rows = torch.tensor([3, 0, 2] if step == 7 else [1, 2])
            plain.select(rows)
            fast.select(rows)
    assert [fast.ids(row) for row in range(2)] == [plain.ids(row) for row in range(2)]


@needs_compiler
@pytest.mark.parametrize("use_cache", [True, False])
@pytest.mark.parametrize("prompt", PROMPTS)
def test_the_first_step_of_a_text_is_the_plain_one_and_waits_for_no_weights(
    prompt, use_cache, monkeypatch
):
    model = random_model(VOCAB, WIDTH)
    build.library()
    packed, late = prepare(model, "fp32", "compiled"), prepare(model, "fp32", "auto", wait=False)
    options = {"use_cache": use_cache, "new_tokens": 30}
    plain, fast, session = (
        Session(model, [prompt], use_cache=use_cache),
        *(decoder.session([prompt], **options) for decoder in (packed, late)),
    )
    with monkeypatch.context() as patch:
        patch.setattr("tinylm.kernels.decoding.decoder.PackedModel", None)
        assert torch.equal(session.next_logits(), plain.next_logits())
        assert torch.equal(session.greedy([3]), plain.greedy([3]))
        assert torch.equal(session.candidates(4, [3])[1], plain.candidates(4, [3])[1])
    token = fast.greedy([])
    for step in range(25):
        for each in (fast, session):
            each.append(token)
        logits = fast.next_logits()
        assert torch.equal(session.next_logits(), logits), step
        assert torch.equal(session.greedy([3]), fast.greedy([3]))
        token = logits.argmax(-1)
    assert session.ids(0) == fast.ids(0)
    assert late.said == packed.said


@needs_compiler
@pytest.mark.parametrize("precision", ["fp32", "bf16", "int8"])
def test_a_row_does_not_depend_on_its_batch_its_cache_or_its_pieces(precision, monkeypatch):
    model = random_model(VOCAB, WIDTH)
    decoder = prepare(model, precision, "compiled")
    together = decoder.session(PROMPTS, new_tokens=30)
    monkeypatch.setattr(session, "AT_ONCE", 3)
    alone = [
        decoder.session([prompt], use_cache=number % 2 == 0, new_tokens=30)
        for number, prompt in enumerate(PROMPTS)
    ]
    for _ in range(24):
        logits = together.next_logits().clone()
        assert torch.equal(logits, torch.cat([each.next_logits() for each in alone]))
        together.append(logits.argmax(-1))
        for each, token in zip(alone, logits.argmax(-1), strict=True):
            each.append(token[None])


@needs_compiler
@pytest.mark.parametrize("precision", ["fp32", "int8"])
def test_threads_change_no_bit_and_what_is_asked_is_what_the_logits_say(precision, monkeypatch):
    """Steps in which threads share outputs, and such in which they share rows; logits of several pieces.

    Among the banned words are the likeliest of the first step.
    """
    vocab, banned = 700, [0, 3, 255, 256, 699]
    monkeypatch.setattr(session, "ALONE", 0)
    decoder = prepare(random_model(vocab, WIDTH), precision, "compiled")
    prompts = [[1 + row * 17 % vocab, *range(2, 2 + row % 5)] for row in range(25)]
    banned = sorted({*banned, *decoder.session(prompts).next_logits().argmax(-1).tolist()})
    before = torch.get_num_threads()
    texts = []
    try:
        for threads in (1, 2, 3):
            torch.set_num_threads(threads)
            under_way, seen = decoder.session(prompts, new_tokens=30), []
            for _ in range(20):
                logits = under_way.next_logits().clone()
                best, ids = under_way.candidates(6, banned)
                expected = filters.candidates(logits, 6, banned)
                assert torch.equal(ids, expected[1])
                torch.testing.assert_close(best, expected[0], rtol=1e-5, atol=1e-5)
                tokens = under_way.greedy(banned)
                assert torch.equal(tokens, ids[:, 0])
                under_way.append(tokens)
                seen += [logits, best]
            texts.append(torch.cat([each.flatten() for each in seen]))
    finally:
        torch.set_num_threads(before)
    assert torch.equal(texts[0], texts[1])
    assert torch.equal(texts[0], texts[2])


@needs_compiler
@pytest.mark.parametrize("name", ARCHITECTURES)
@pytest.mark.parametrize("precision", ["bf16", "int8"])
def test_lower_precisions_compute_what_their_reference_does(name, precision):
    """A value on the edge of rounding may fall to the other side: most logits agree closely, none lies far off."""
    model = random_model(VOCAB, WIDTH, **ARCHITECTURES[name])
    compiled, plain = prepare(model, precision, "compiled"), prepare(model, precision, "plain")
    errors, roundings = [], []
    for ids in PROMPTS[:4]:  # a pass takes what fits into the context
        with torch.no_grad():
            exact = model(torch.tensor([ids]))[0]
        errors.append((compiled.logits(ids) - plain.logits(ids)).abs())
        roundings.append((plain.logits(ids) - exact).abs())
        assert errors[-1].max() < roundings[-1].max()
    error, rounding = torch.cat(errors), torch.cat(roundings)
    assert error.mean() < 0.3 * rounding.mean()
    assert error.mean(1).median() < 1e-5  # until a value falls to the other side they are equal


def test_bf16_and_int8_lose_little_and_something():
    model = random_model(VOCAB, WIDTH)
    exact, bf16, int8 = (
        prepare(model, p, "plain").logits(PROMPTS[3]) for p in ("fp32", "bf16", "int8")
    )
    assert 0 < (bf16 - exact).std() < (int8 - exact).std() < 0.1 * exact.std()


def test_quantised_rows_are_whole_and_near():
    rows = torch.tensor([[0.5, -2.0, 1.0], [0.0, 0.0, 0.0], [3e-5, 1e-5, -1e-5]])
    whole, unit = quantise(rows)
    assert torch.equal(whole, whole.round())
    assert whole.abs().amax(1).tolist() == [127, 0, 127]
    assert bool(((whole * unit - rows).abs() <= unit / 2 * 1.001).all())


@needs_compiler
@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf"), 1e30])
def test_an_overflow_stays_visible_in_int8(value):
    model = random_model(VOCAB, WIDTH)
    with torch.no_grad():
        if math.isfinite(value):
            for parameter in model.parameters():
                parameter.mul_(value)
        else:
            model.embedding[PROMPTS[3][-1], 0] = value
    logits = prepare(model, "int8", "compiled").logits(PROMPTS[3])[-1]
    assert not logits.isfinite().all()


def test_inputs_have_all_256_steps_on_both_sides_of_zero():
    rows = torch.tensor(
        [[0.0, 510.0, 101.0], [-0.5, 2.0, 0.0], [-3.0, -1.0, -2.0], [0.0, 0.0, 0.0]]
    )
    whole, unit = quantised_inputs(rows)
    assert torch.equal(whole, whole.round())
    assert (whole.amax(1).clamp(min=0) - whole.amin(1).clamp(max=0)).tolist() == [255, 255, 255, 0]
    assert bool(((whole * unit - rows).abs() <= unit * 0.501).all())
    assert whole[0, 0] == whole[1, 2] == 0  # zero stays zero


def test_a_row_whose_ends_both_round_up_keeps_to_a_byte():
    rows = torch.tensor([[-101.5, 153.5]])  # -102 to 154 would be 257 numbers
    whole, unit = quantised_inputs(rows)
    assert unit.item() == 1
    assert whole.tolist() == [[-102, 153]]


def test_rounded_products_of_representable_numbers_are_exact():
    x, weight = (
        torch.tensor([[252.0, -3.0, 0.0]]),
        torch.tensor([[1.0, 2.0, -127.0], [127.0, 0.0, 5.0]]),
    )
    for precision in ("fp32", "bf16", "int8"):
        with LowerPrecision(precision):
            y = torch.nn.functional.linear(x, weight, torch.tensor([1.0, -1.0]))
        torch.testing.assert_close(y, torch.tensor([[247.0, 32003.0]]))


def test_int8_leaves_the_two_largest_logits_and_what_makes_queries_more_exact():
    model = random_model(VOCAB, WIDTH)
    x, (output, _, _) = torch.randn(5, WIDTH), model.output_layer()
    mode, plain = LowerPrecision("int8", model), torch.nn.functional.linear(x, output)
    logits = mode.linear(x, output)
    two = logits.topk(2).indices
    assert torch.equal(logits.gather(1, two), plain.gather(1, two))
    assert (logits == plain).sum() == 2 * len(x)  # no other one
    block = model.blocks[0]
    for weight, precision in (
        (block.attention.qkv.weight, "bf16"),
        (block.feed_forward.up.weight, "int8"),
    ):
        assert torch.equal(mode.linear(x, weight), LowerPrecision(precision).linear(x, weight))


@needs_compiler
@pytest.mark.parametrize(
    ("use_cache", "width", "slide"), pairs([True, False], [1, 2, 7], ["half", "one"])
)
def test_compiled_beams_find_the_same(width, slide, use_cache):
    """Beams that reorder, prompts that end before others, windows that move on the way."""
    model = random_model(VOCAB, WIDTH)
    decoder = prepare(model, "fp32", "compiled")
    options = {"width": width, "n_best": min(width, 3), "slide": slide, "use_cache": use_cache}
    options |= {"max_new_tokens": 30, "length_penalty": 0.5, "eos_id": 4, "banned": [0]}
    for expected, found in zip(
        beam_search(model, PROMPTS, **options),
        beam_search(model, PROMPTS, **options, decoder=decoder),
        strict=True,
    ):
        assert [h.ids for h in found] == [h.ids for h in expected]
        assert [h.log_prob for h in found] == pytest.approx(
            [h.log_prob for h in expected], rel=1e-4
        )


def recorder(made):
    """Stands in for a CUDA graph: runs once to record; what it repeats is the same function on the same buffers."""

    def record(run):
        run()
        made.append(run)
        return run

    return record


@pytest.mark.parametrize("slide", ["half", "one"])
def test_replayed_steps_equal_plain_ones(slide):
    """Rows leave without a new recording, beams that become more take a new one."""
    model, made = random_model(VOCAB, WIDTH), []
    plain, replayed = (
        Session(model, PROMPTS, slide=slide),
        GraphSession(model, PROMPTS, slide, True, None, record=recorder(made)),
    )
    choices = {7: [3, 0, 2], 11: [1, 0, 0], 20: [1, 2], 25: [0, 0, 1, 1, 1, 0, 0, 1]}
    for step in range(40):
        logits = plain.next_logits()
        torch.testing.assert_close(replayed.next_logits(), logits, rtol=1e-4, atol=1e-4)
        for each in (plain, replayed):
            each.append(logits.argmax(-1))
            if step in choices:
                each.select(torch.tensor(choices[step]))
    assert len(made) == (2 if slide == "half" else 1)


def test_a_recorded_step_reads_nothing_from_the_host(monkeypatch):
    """What a CUDA graph cannot hold: sizes that change, numbers asked of the device."""
    model, made = random_model(VOCAB, WIDTH), []
    session = GraphSession(model, PROMPTS, "half", True, None, record=recorder(made))
    session.append(session.next_logits().argmax(-1))
    session.next_logits()
    (run,) = made
    for name in ("item", "tolist", "__int__", "__float__", "__bool__", "nonzero"):
        monkeypatch.setattr(torch.Tensor, name, None)
    with torch.inference_mode():
        run()


@needs_compiler
def test_compiled_samples_are_the_same(settings):
    model = random_model(VOCAB, WIDTH)
    for chosen in (
        settings(),
        settings(top_k=5),
        settings(temperature=0.0),
        settings(repetition_penalty=1.3, top_p=0.8),
    ):
        options = {"max_new_tokens": 40, "eos_id": 4, "banned": [0, 3], "with_log_probs": True}
        expected = generate(model, PROMPTS, chosen, **options)
        found = generate(
            model, PROMPTS, chosen, decoder=prepare(model, "fp32", "compiled"), **options
        )
        assert [row.ids for row in found] == [row.ids for row in expected]
        for one, other in zip(found, expected, strict=True):
            assert one.log_probs == pytest.approx(other.log_probs, abs=1e-4)


@needs_compiler
@pytest.mark.parametrize("k", [1, 5, 40, 300, 400])
def test_compiled_largest_equals_plain_with_ties_and_bans(k):
    numbers = torch.Generator().manual_seed(1)
    logits = (torch.randn(9, 300, generator=numbers) * 3).round()
    kept = logits.clone()
    banned = [0, 7, 299]
    values, ids, log_sums, finite = largest(logits, k, banned)
    expected = filters.largest(filters.ban(logits, banned), k)
    open_ = expected[0] > filters.NEVER
    assert torch.equal(values, expected[0])
    assert torch.equal(ids[open_], expected[1][open_])
    torch.testing.assert_close(log_sums, logits.logsumexp(-1))
    assert finite
    assert torch.equal(logits, kept)


@needs_compiler
@pytest.mark.parametrize("temperature", [0.01, 1.0, 30.0])
def test_compiled_draws_equal_plain_ones(temperature):
    numbers = torch.Generator().manual_seed(1)
    logits = torch.randn(300, 77, generator=numbers).index_fill(
        1, torch.tensor([0, 5, 76]), filters.NEVER
    )
    u = torch.rand(300, generator=numbers, dtype=torch.float64)
    expected = filters.draw(filters.scale(logits, temperature), u)
    assert torch.equal(draw(logits, u, temperature), expected)
    first, last = draw(
        logits[:2], torch.tensor([0.0, 1 - 2**-53], dtype=torch.float64), 30.0
    ).tolist()
    assert (first, last) == (1, 75)


@needs_compiler
def test_a_cache_that_nobody_uses_is_taken_again():
    decoder = prepare(random_model(VOCAB, WIDTH), "fp32", "compiled")
    one, other = (decoder.session(PROMPTS, new_tokens=3) for _ in range(2))
    places = {each._slots.buffers.data_ptr() for each in (one, other)}
    assert len(places) == 2
    expected = one.next_logits().clone()
    del one, other
    third = decoder.session(PROMPTS, new_tokens=3)
    assert third._slots.buffers.data_ptr() in places
    assert torch.equal(third.next_logits(), expected)


@needs_compiler
@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_diverged_weights_are_refused(value):
    model = random_model(VOCAB, WIDTH)
    with torch.no_grad():
        model.final_norm.gain[0] = value
    session = prepare(model, "fp32", "compiled").session(PROMPTS)
    with pytest.raises(InputError, match="not finite"):
        session.next_logits()
    with pytest.raises(InputError, match="not finite"):
        session.candidates(2, [])


def test_without_a_compiler_auto_goes_on_and_true_is_refused(monkeypatch):
    monkeypatch.setenv("CXX", "no-such-compiler")
    build.library.cache_clear()
    model = random_model(VOCAB, WIDTH)
    decoder = prepare(model)
    assert decoder.packed is None
    assert "no C++ compiler" in decoder.said
    with pytest.raises(InputError, match=r"decode\.step"):
        prepare(model, step="compiled")


def test_a_compiler_that_fails_is_named_in_one_line(monkeypatch):
    monkeypatch.setenv("CXX", shutil.which("false") or "")
    build.library.cache_clear()
    said = prepare(random_model(VOCAB, WIDTH)).said
    assert "false" in said
    assert "\n" not in said
    assert not build.is_compiled()


@needs_compiler
def test_a_damaged_library_is_compiled_anew_and_never_loaded():
    path = build.compile_library()
    whole = path.read_bytes()
    for damaged in (whole[:4096], whole[:20000] + bytes(1000) + whole[21000:], b""):
        path.unlink()  # this process runs code of the file that lay there
        path.write_bytes(damaged)
        assert not build.is_compiled()
    assert build.compile_library() == path
    assert build.is_compiled()


def test_a_float64_model_is_left_to_torch(model):
    assert prepare(model).packed is None


def test_without_waiting_it_is_compiled_for_the_next_time(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    started = []
    monkeypatch.setattr(build, "compile_in_background", lambda: started.append(1))
    if build.compiler():
        assert "for the next" in prepare(random_model(VOCAB, WIDTH), wait=False).said
        assert started == [1]


def test_what_compiling_in_the_background_met_is_told(monkeypatch, tmp_path):
    monkeypatch.setenv("CXX", shutil.which("true") or "")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    library = build.library_path()
    library.parent.mkdir(parents=True)
    library.with_suffix(".txt").write_text("true: exit 1", "utf-8")
    monkeypatch.setattr(build.subprocess, "Popen", lambda *_, **__: None)
    assert "true: exit 1: it is being" in prepare(random_model(VOCAB, WIDTH), wait=False).said
    for cache in (tmp_path / "file", tmp_path / ("long" * 100)):
        (tmp_path / "file").touch()
        monkeypatch.setenv("XDG_CACHE_HOME", str(cache))
        assert str(cache) in prepare(random_model(VOCAB, WIDTH), wait=False).said


@pytest.mark.parametrize(("name", "value"), [("norm_kind", "new"), ("activation", "tanh")])
def test_a_model_that_the_compiled_step_does_not_know_is_decoded_in_plain_torch(name, value):
    model = random_model(VOCAB, WIDTH)
    model.settings = dataclasses.replace(model.settings, **{name: value})
    assert prepare(model).said == f"fp32, plain step (it has no {name} = '{value}')"
    with pytest.raises(InputError, match=f"it has no {name} = '{value}'"):
        prepare(model, step="compiled")
