import functools
import math

import pytest
import torch

from tinylm.base.config import InputError
from tinylm.decoding import filters, sampling
from tinylm.decoding.sampling import Generation, choose, uniforms

SOS, EOS, PAD, UNK = 0, 1, 2, 3
BANNED = [SOS, PAD, UNK]
generate = functools.partial(sampling.generate, eos_id=EOS, banned=BANNED)


def greedy_text(
    model, prompt: list[int], new_tokens: int, drop: int = 0, banned: list[int] = BANNED
) -> list[int]:
    """One prompt, token by token, no cache; past the context the oldest `drop` tokens leave the window."""
    ids, start = list(prompt), 0
    for _ in range(new_tokens):
        if len(ids) - start > model.settings.context:
            start += drop
        with torch.no_grad():
            logits = model(torch.tensor([ids[start:]]))[0, -1]
        logits[banned] = -math.inf
        ids.append(int(logits.argmax()))
        if ids[-1] == EOS:
            break
    return ids[len(prompt) :]


def test_greedy_takes_the_likeliest_until_the_end(make_model, settings):
    ended = 0
    for seed in range(5):
        model = make_model(seed)
        prompts = [[SOS, word] for word in range(4, 12)]
        for found, prompt in zip(
            generate(model, prompts, settings(temperature=0.0), max_new_tokens=9),
            prompts,
            strict=True,
        ):
            assert found.ids == greedy_text(model, prompt, 9)
            assert found.finished == (found.ids[-1] == EOS)
            ended += found.finished
    assert 0 < ended < 40  # both ends occur


def test_past_the_context_the_window_slides_as_it_is_told(make_model, settings):
    model, banned, texts = make_model(2), [*BANNED, EOS], {}
    for slide, drop in (("half", model.settings.context // 2), ("one", 1)):
        (found,) = generate(
            model,
            [[SOS, 5]],
            settings(temperature=0.0, slide=slide),
            max_new_tokens=30,
            eos_id=None,
            banned=banned,
        )
        texts[slide] = found.ids
        assert found.ids == greedy_text(model, [SOS, 5], 30, drop, banned)
    assert texts["half"] != texts["one"]


@pytest.mark.parametrize("slide", ["half", "one"])
@pytest.mark.parametrize("stop", [True, False])
def test_cached_equals_uncached_past_the_context(model, prompts, settings, slide, stop):
    for temperature in (0.0, 1.0):
        chosen = settings(slide=slide, temperature=temperature, top_k=9, repetition_penalty=1.2)
        cached, uncached = (
            generate(
                model,
                prompts * 2,
                chosen,
                max_new_tokens=30,
                use_cache=use,
                with_log_probs=True,
                stop_at_eos=stop,
            )
            for use in (True, False)
        )
        assert [one.ids for one in cached] == [one.ids for one in uncached]
        assert len({len(one.ids) for one in cached}) > 1 if stop else len(cached[0].ids) == 30
        for one, other in zip(cached, uncached, strict=True):
            assert one.log_probs == pytest.approx(other.log_probs, abs=1e-9)


def by_definition(model, prompt, chosen, steps, stream):
    """One row, token by token, from the words of the docstrings alone."""
    ids = list(prompt)
    numbers = uniforms(chosen.seed, [stream], steps)[0].tolist()
    for step in range(steps):
        with torch.no_grad():
            logits = model(torch.tensor([ids]))[0, -1].tolist()
        window = len(ids) if chosen.repetition_window is None else chosen.repetition_window
        for word in set(ids[-window:]):
            factor = chosen.repetition_penalty
            logits[word] = logits[word] / factor if logits[word] > 0 else logits[word] * factor
        words = [word for word in range(len(logits)) if word not in BANNED]
        temperature = chosen.temperature
        if chosen.temperature_end is not None and steps > 1:
            temperature += (chosen.temperature_end - chosen.temperature) * step / (steps - 1)
        weights = {word: math.exp((logits[word] - max(logits)) / temperature) for word in words}
        weights = {word: weight / sum(weights.values()) for word, weight in weights.items()}
        order = sorted(words, key=lambda word: -weights[word])
        kept, least = order[: chosen.top_k or None], chosen.top_p
        if sum(weights[word] for word in kept) < chosen.fallback_mass:
            kept, least = order, chosen.fallback_top_p
        total, nucleus = sum(weights[word] for word in kept), []
        for word in kept:
            if least == 1.0 or not nucleus or sum(weights[one] for one in nucleus) / total < least:
                nucleus.append(word)
        goal, passed = numbers[step] * sum(weights[word] for word in nucleus), 0.0
        for word in sorted(nucleus):
            passed += weights[word]
            if passed > goal:
                break
        ids.append(word)
        if word == EOS:
            break
    return ids[len(prompt) :]


EXTRAS = [
    {"temperature_end": 2.5},
    {"temperature": 2.0, "temperature_end": 0.1, "top_k": 9},
    {"top_k": 3, "fallback_mass": 0.7, "fallback_top_p": 0.8},
    {"top_k": 3, "fallback_mass": 0.95, "top_p": 0.6, "temperature_end": 3.0},
    {"top_k": 2, "fallback_mass": 1.0, "fallback_top_p": 1.0},
    {"repetition_penalty": 3.0, "repetition_window": 1},
    {
        "repetition_penalty": 3.0,
        "repetition_window": 3,
        "top_k": 4,
        "fallback_mass": 0.5,
        "temperature_end": 1.3,
    },
    {"repetition_penalty": 3.0, "repetition_window": 1_000_000},
    {"repetition_penalty": 1.5},
]


@pytest.mark.parametrize("changes", EXTRAS)
def test_sampling_is_what_its_definition_says(make_model, settings, changes):
    model, chosen = make_model(gain=1.5, end=0.0), settings(**changes)
    prompts = [[SOS, *range(4, 4 + size)] for size in (0, 1, 2, 4, 0, 3)]
    found = generate(model, prompts, chosen, max_new_tokens=8)
    expected = [
        by_definition(model, prompt, chosen, 8, stream) for stream, prompt in enumerate(prompts)
    ]
    assert [one.ids for one in found] == expected
    plain = generate(model, prompts, settings(top_k=chosen.top_k), max_new_tokens=8)
    assert [one.ids for one in plain] != expected  # the setting changes something here


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("changes", EXTRAS)
def test_no_setting_lets_a_sample_depend_on_the_rest_of_the_batch(
    make_model, settings, dtype, changes
):
    model, chosen = make_model(dtype=dtype, gain=1.5), settings(**changes)
    numbers = torch.Generator().manual_seed(1)
    sizes = torch.randint(0, 17, (40,), generator=numbers).tolist()
    prompts = [[SOS, *torch.randint(4, 31, (size,), generator=numbers).tolist()] for size in sizes]
    together = generate(model, prompts, chosen, max_new_tokens=15)
    alone = [
        generate(model, [prompt], chosen, max_new_tokens=15, streams=[number])[0]
        for number, prompt in enumerate(prompts[:12])
    ]
    assert [one.ids for one in alone] == [one.ids for one in together[:12]]
    assert len({len(one.ids) for one in together}) > 1


def test_a_temperature_that_ends_at_0_ends_greedily(model, settings):
    prompts = [[SOS, word] for word in range(4, 12)]
    found = generate(
        model, prompts, settings(temperature=9.0, temperature_end=0.0), max_new_tokens=4
    )
    whole = [
        (prompt, one.ids) for prompt, one in zip(prompts, found, strict=True) if len(one.ids) == 4
    ]
    assert len(whole) > 3
    for prompt, ids in whole:
        assert ids[3:] == greedy_text(model, prompt + ids[:3], 1)


def test_equal_prompts_get_samples_of_their_own_and_seeds_differ(model, settings):
    prompts = [[SOS, 5]] * 6
    first = generate(model, prompts, settings(), max_new_tokens=12)
    assert len({tuple(one.ids) for one in first}) > 3
    assert first == generate(model, prompts, settings(), max_new_tokens=12)
    assert first != generate(model, prompts, settings(seed=12), max_new_tokens=12)
    assert generate(model, prompts[:1], settings(), max_new_tokens=12, streams=[4]) == [first[4]]


def test_uniforms_of_a_stream_do_not_depend_on_count_or_neighbours():
    wide = uniforms(1, [0, 1, 2], 50)
    assert (uniforms(1, [2], 7)[0] == wide[2, :7]).all()
    assert len(set(wide.flatten().tolist())) == 150
    assert bool(((wide >= 0) & (wide < 1)).all())


def test_draw_is_the_inverse_of_the_cumulated_distribution():
    logits = torch.tensor(
        [[-math.inf, math.log(2), -math.inf, math.log(3), math.log(5), -math.inf]]
    )
    u = torch.tensor([0.0, 0.1999, 0.2001, 0.4999, 0.5001, 1 - 2**-53], dtype=torch.float64)
    logits = logits - math.log(5)  # the largest score is 0
    assert filters.draw(logits.expand(6, -1), u).tolist() == [1, 1, 3, 3, 4, 4]
    tiny = torch.cat([logits, torch.tensor([[-800.0]])], dim=1)  # too small to move the sum
    assert filters.draw(tiny, u[-1:]).tolist() == [4]


def test_log_probs_are_the_models_own_before_filters(model, prompts, settings):
    chosen = settings(temperature=1.4, top_k=5, repetition_penalty=1.5)
    for prompt, one in zip(
        prompts,
        generate(model, prompts, chosen, max_new_tokens=6, with_log_probs=True),
        strict=True,
    ):
        if len(prompt) + len(one.ids) > 13:
            continue
        with torch.no_grad():
            table = model(torch.tensor([prompt + one.ids]))[0].log_softmax(-1)
        own = [float(table[len(prompt) - 1 + i, token]) for i, token in enumerate(one.ids)]
        assert one.log_probs == pytest.approx(own, abs=1e-9)
        assert len(own) == len(one.ids)


@pytest.mark.parametrize("window", [None, 2])
def test_the_end_is_never_a_repetition(make_model, settings, window):
    """<eos> in the prompt, as where the same id opens a text, costs it nothing, nor does one in the text."""
    model, words = make_model(end=60.0), range(4, 12)
    strong = settings(temperature=0.0, repetition_penalty=1000.0, repetition_window=window)
    found = generate(model, [[EOS, word] for word in words], strong, max_new_tokens=1)
    assert [one.ids for one in found] == [[EOS]] * len(words)
    on = generate(
        model, [[SOS, word] for word in words], strong, max_new_tokens=5, stop_at_eos=False
    )
    assert max(one.ids.count(EOS) for one in on) > 1
    unknown = generate(
        model, [[EOS, word] for word in words], strong, max_new_tokens=1, eos_id=None
    )
    assert [EOS] not in [one.ids for one in unknown]


def test_tokens_stream_step_by_step_and_finished_rows_fall_silent(model, settings):
    prompts = [[SOS, word] for word in range(4, 24)]
    calls: list[tuple[int, int]] = []
    found = generate(
        model,
        prompts,
        settings(temperature=1.5),
        max_new_tokens=12,
        on_token=lambda row, token: calls.append((row, token)),
    )
    lengths = [len(one.ids) for one in found]
    assert len(set(lengths)) > 3
    assert any(one.finished for one in found)
    steps = [
        [(row, one.ids[step]) for row, one in enumerate(found) if step < len(one.ids)]
        for step in range(12)
    ]
    assert calls == [call for step in steps for call in step]
    for one in found:
        assert EOS not in one.ids[:-1]
        assert one.finished or len(one.ids) == 12


def test_without_stop_the_end_is_a_token_like_any_other(model, settings):
    prompts = [[SOS, word] for word in range(4, 24)]
    found = generate(
        model, prompts, settings(temperature=1.5), max_new_tokens=12, stop_at_eos=False
    )
    assert all(len(one.ids) == 12 and not one.finished for one in found)
    assert any(EOS in one.ids[:-1] for one in found)


@pytest.mark.parametrize(
    "changes",
    [
        {"temperature": 1e-9},
        {"temperature": 5e-324},
        {"temperature": 1e6, "top_k": 10**9, "repetition_penalty": 1000.0},
        {"top_k": 31, "top_p": 1e-9},
        {"top_k": 1},
    ],
)
def test_hostile_settings_are_defined(make_model, prompts, settings, changes):
    for dtype in (torch.float32, torch.float64):
        model = make_model(dtype=dtype)
        found = generate(
            model, prompts, settings(**changes), max_new_tokens=20, with_log_probs=True
        )
        for one in found:
            assert 1 <= len(one.ids) <= 20
            assert not set(BANNED) & set(one.ids)
            assert all(math.isfinite(value) and value <= 0 for value in one.log_probs)
        if "repetition_penalty" not in changes:
            greedy = generate(model, prompts, settings(temperature=0.0), max_new_tokens=20)
            assert [one.ids for one in found] == [one.ids for one in greedy]


def test_bad_arguments_are_refused(model, settings):
    for banned in (range(31), [31], [-1]):
        with pytest.raises(InputError, match="banned"):
            generate(model, [[SOS]], settings(), max_new_tokens=5, banned=list(banned))
    with pytest.raises(ValueError, match="2 streams for 1 prompts"):
        generate(model, [[SOS]], settings(), max_new_tokens=5, streams=[1, 2])


def test_a_training_model_decodes_without_dropout_and_trains_on(make_model, settings):
    model = make_model()
    expected = generate(model, [[SOS, 5]], settings(), max_new_tokens=8)
    model.train()
    assert generate(model, [[SOS, 5]], settings(), max_new_tokens=8) == expected
    assert model.training


def test_a_streams_numbers_stay_what_they_were():
    """Whoever has the seed of a published sample has the sample."""
    found = uniforms(1, [0, 7], 2)
    assert found.tolist() == [
        [0.8438851676600396, 0.07595732276477007],
        [0.6643144434427966, 0.6651490792428927],
    ]


@pytest.mark.parametrize("steps", [0, -1])
def test_no_step_gives_an_empty_continuation_each(model, settings, steps):
    found = generate(
        model, [[SOS], [SOS, 5]], settings(), max_new_tokens=steps, with_log_probs=True
    )
    assert found == [Generation([], [], False)] * 2


def test_a_text_stops_at_its_end_unless_told_otherwise_and_uses_its_cache(
    model, settings, monkeypatch
):
    calls = []
    made = type(model).new_cache
    monkeypatch.setattr(
        type(model), "new_cache", lambda *arguments: calls.append(1) or made(*arguments)
    )
    prompts = [[SOS, word] for word in range(4, 24)]
    found = generate(model, prompts, settings(), max_new_tokens=12)
    assert any(one.finished and len(one.ids) < 12 for one in found)
    assert len(calls) >= 1
    calls.clear()
    assert generate(model, prompts, settings(), max_new_tokens=12, use_cache=False) == found
    assert calls == []


def test_a_row_falls_back_only_where_its_likeliest_hold_too_little(model, settings):
    """Row 0 is flat, row 1 peaky; each at the mass that its two likeliest hold, and just above."""
    logits = torch.tensor([[0.0, 0.0, 0.0, 0.0], [4.0, 0.0, 0.0, 0.0]], dtype=torch.float64)
    late = torch.full((2,), 0.999, dtype=torch.float64)
    for mass, expected in [(0.5, [1, 1]), (0.5000001, [3, 1]), (0.99, [3, 3]), (0.0, [1, 1])]:
        chosen = settings(top_k=2, fallback_mass=mass, fallback_top_p=1.0)
        assert choose(logits, chosen, late, 1.0).tolist() == expected
    assert choose(
        logits, settings(top_k=4, fallback_mass=1.0, fallback_top_p=0.1), late, 1.0
    ).tolist() == [
        3,
        3,
    ]
    assert choose(logits, settings(top_k=2), late, 0.0).tolist() == [0, 0]
