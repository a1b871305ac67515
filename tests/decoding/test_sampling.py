"""Sampling against its definition, by exact draws."""

import math

import hypothesis.strategies as st
import pytest
import torch
from hypothesis import given
from hypothesis import settings as drawn

from tests.decoding.conftest import BANNED, EOS, SOS, decoder_of
from tinylm.base.config import InputError
from tinylm.decoding import filters
from tinylm.decoding.sampling import Generation, Sampling, generate, uniforms
from tinylm.decoding.session import decoding_mode
from tinylm.decoding.settings import FALLBACK_TOP_P, DecodeSettings

WORDS = [[SOS, word] for word in range(4, 24)]


# Every combination of filters; temperature 0 is greedy.
FILTERS = st.builds(
    DecodeSettings,
    temperature=st.sampled_from([0.0, 0.4, 1.0, 3.0]),
    top_k=st.sampled_from([0, 1, 4, 9999]),
    top_p=st.sampled_from([0.2, 0.9, 1.0]),
    min_p=st.sampled_from([0.0, 0.1, 0.6, 1.0]),
    eta=st.sampled_from([0.0, 0.02, 0.3]),
    fallback_mass=st.sampled_from([0.0, 0.5, 0.9, 1.0]),
)


def distribution(logits: list[float], chosen: DecodeSettings) -> dict[int, float]:
    """Word -> its probability of being drawn, from the words of the docstrings alone."""
    words = [word for word in range(len(logits)) if word not in BANNED]
    order = sorted(words, key=lambda word: -logits[word])
    if chosen.temperature == 0.0:
        return {order[0]: 1.0}
    top = logits[order[0]]
    weights = {word: math.exp((logits[word] - top) / chosen.temperature) for word in words}
    whole = sum(weights.values())
    likeliest, least, ratio = order[: chosen.top_k or None], chosen.top_p, chosen.min_p
    epsilon = chosen.eta
    mass = sum(weights[word] for word in likeliest)
    if len(likeliest) < len(order) and mass < chosen.fallback_mass * whole:
        likeliest, least, ratio, epsilon = order, FALLBACK_TOP_P, 0.0, 0.0
    total = sum(weights[word] for word in likeliest)
    nucleus: dict[int, float] = {}
    for word in likeliest:
        is_inside = least == 1.0 or not nucleus or sum(nucleus.values()) / total < least
        if is_inside and weights[word] >= ratio * weights[likeliest[0]]:
            nucleus[word] = weights[word]
    return without_improbable(nucleus, epsilon)


def without_improbable(weights: dict[int, float], epsilon: float) -> dict[int, float]:
    """Probabilities of the words with at least eta = min(epsilon, sqrt(epsilon) * exp(-entropy))."""
    mass = sum(weights.values())
    probs = {word: weight / mass for word, weight in weights.items() if weight > 0}
    entropy = -sum(p * math.log(p) for p in probs.values())
    eta = min(epsilon, epsilon**0.5 * math.exp(-entropy))
    inside = {word: p for word, p in probs.items() if p >= eta * (1 - 1e-12)}
    return {word: p / sum(inside.values()) for word, p in inside.items()}


def by_definition(model, prompt, chosen, steps, stream):
    """One row, token by token: the word in which the cumulated probability passes the stream's number."""
    ids = list(prompt)
    numbers = uniforms(chosen.seed, [stream], steps)[0].tolist()
    for step in range(steps):
        with torch.no_grad():
            logits = model(torch.tensor([ids]))[0, -1].tolist()
        window = len(ids) if chosen.repetition_window is None else chosen.repetition_window
        for word in set(ids[-window:]):
            factor = chosen.repetition_penalty
            logits[word] = logits[word] / factor if logits[word] > 0 else logits[word] * factor
        weights = distribution(logits, chosen)
        passed = 0.0
        for word in sorted(weights):
            passed += weights[word]
            if passed > numbers[step]:
                break
        ids.append(word)
        if word == EOS:
            break
    return ids[len(prompt) :]


EXTRAS = [
    {"temperature": 0.01},  # greedy
    {"temperature": 2.0, "top_k": 9},
    {"top_p": 0.6},
    {"top_p": 0.9, "top_k": 7},
    {"min_p": 0.2},
    {"min_p": 0.05, "top_p": 0.8, "top_k": 7, "temperature": 2.0},
    {"eta": 0.05},
    {"eta": 0.05, "temperature": 0.2},  # of low entropy, where the threshold is eta itself
    {"eta": 0.3, "min_p": 0.01, "top_p": 0.95, "temperature": 1.5},
    {"top_k": 3, "fallback_mass": 0.7},
    {"top_k": 3, "fallback_mass": 0.7, "min_p": 0.9},
    {"top_k": 3, "fallback_mass": 0.95, "top_p": 0.6, "temperature": 3.0},
    {"top_k": 2, "fallback_mass": 1.0},
    {"repetition_penalty": 3.0, "repetition_window": 1},
    {"repetition_penalty": 3.0, "repetition_window": 3, "top_k": 4, "fallback_mass": 0.5, "temperature": 1.3},
    {"repetition_penalty": 3.0, "repetition_window": 1_000_000},
    {"repetition_penalty": 1.5},
]  # fmt: skip


@pytest.mark.parametrize("changes", EXTRAS, ids=str)
def test_sampling_is_what_its_definition_says(make_model, settings, changes):
    model = make_model(gain=1.5, end=0.0)
    chosen = settings(**changes)
    prompts = [[SOS, *range(4, 4 + size)] for size in (0, 1, 2, 4, 0, 3)]
    found = generate(decoder_of(model), prompts, chosen, max_new_tokens=8)
    expected = [by_definition(model, prompt, chosen, 8, row) for row, prompt in enumerate(prompts)]
    assert [one.ids for one in found] == expected
    plain = generate(decoder_of(model), prompts, settings(top_k=chosen.top_k), max_new_tokens=8)
    assert [one.ids for one in plain] != expected  # the setting changes something here


def streamed(model, prompt, chosen, count, stream):
    """New ids of a single prompt, sampled with the random stream of another row."""
    ids = []
    with decoding_mode(model):
        sampling = Sampling(decoder_of(model), [prompt], chosen, count, streams=[stream])
        while len(ids) < count and EOS not in ids:
            ids += sampling.step().tolist()
    return ids


@pytest.mark.parametrize("changes", [EXTRAS[at] for at in (1, 7, 10, 13)], ids=str)
def test_a_sample_does_not_depend_on_the_rest_of_the_batch(make_model, settings, changes):
    model = make_model(dtype=torch.float32, gain=1.5)
    chosen = settings(**changes)
    numbers = torch.Generator().manual_seed(1)
    sizes = torch.randint(0, 17, (40,), generator=numbers).tolist()
    prompts = [[SOS, *torch.randint(4, 31, (size,), generator=numbers).tolist()] for size in sizes]
    together = generate(decoder_of(model), prompts, chosen, max_new_tokens=15)
    assert len({len(one.ids) for one in together}) > 1
    for row, prompt in enumerate(prompts[:12]):
        assert streamed(model, prompt, chosen, 15, row) == together[row].ids


def test_a_streams_numbers_stay_what_they_were_and_depend_on_no_other_stream():
    """The seed of a published sample reproduces it."""
    wide = uniforms(1, [0, 7, 2], 50)
    assert wide[:2, :2].tolist() == [
        [0.8438851676600396, 0.07595732276477007],
        [0.6643144434427966, 0.6651490792428927],
    ]
    assert (uniforms(1, [2], 7)[0] == wide[2, :7]).all()
    assert len(set(wide.flatten().tolist())) == 150
    assert bool(((wide >= 0) & (wide < 1)).all())


@drawn(max_examples=50)
@given(chosen=FILTERS, seed=st.integers(0, 99))
def test_tokens_are_drawn_with_the_probabilities_that_are_graded(chosen, seed):
    logits = 2 * torch.randn(1, 12, generator=torch.Generator().manual_seed(seed))
    logits = filters.ban(logits, BANNED)
    wanted = distribution(logits[0].tolist(), chosen)
    count = 2000
    u = (torch.arange(count, dtype=torch.float64) + 0.5) / count
    drawn = filters.choose(logits.expand(count, -1), chosen, u)
    shares = torch.bincount(drawn, minlength=12) / count
    expected = [wanted.get(word, 0.0) for word in range(12)]
    assert filters.probabilities(logits, chosen)[0].tolist() == pytest.approx(expected, abs=1e-6)
    assert shares.tolist() == pytest.approx(expected, abs=1.5 / count)


def test_draw_is_the_inverse_of_the_cumulated_distribution():
    weights = torch.tensor([[0.0, 2.0, 0.0, 3.0, 5.0, 0.0]])
    logits = weights.log() - math.log(5)  # the largest score is 0
    u = torch.tensor([0.0, 0.1999, 0.2001, 0.4999, 0.5001, 1 - 2**-53], dtype=torch.float64)
    assert filters.sample_index(logits.expand(6, -1), u).tolist() == [1, 1, 3, 3, 4, 4]
    tiny = torch.cat([logits, torch.tensor([[-800.0]])], dim=1)  # too small to move the sum
    assert filters.sample_index(tiny, u[-1:]).tolist() == [4]


def test_log_probs_are_the_models_own_before_filters(model, prompts, settings):
    chosen = settings(temperature=1.4, top_k=5, repetition_penalty=1.5)
    short = [prompt for prompt in prompts if len(prompt) + 6 <= 13]
    found = generate(decoder_of(model), short, chosen, max_new_tokens=6, with_log_probs=True)
    for prompt, one in zip(short, found, strict=True):
        with torch.no_grad():
            table = model(torch.tensor([prompt + one.ids]))[0].log_softmax(-1)
        own = [float(table[len(prompt) - 1 + i, token]) for i, token in enumerate(one.ids)]
        assert one.log_probs == pytest.approx(own, abs=1e-9)


@pytest.mark.parametrize("window", [None, 2])
def test_the_end_is_never_a_repetition(make_model, settings, window):
    """<eos> in the prompt, as where the same id opens a text, costs it nothing, nor does one in the text."""
    model = make_model(end=60.0)
    prompts = [[EOS, word] for word in range(4, 12)]
    strong = settings(temperature=0.0, repetition_penalty=1000.0, repetition_window=window)
    found = generate(decoder_of(model), prompts, strong, max_new_tokens=1)
    assert [one.ids for one in found] == [[EOS]] * len(prompts)
    endless = generate(decoder_of(model), WORDS, strong, max_new_tokens=5, stop_at_eos=False)
    assert max(one.ids.count(EOS) for one in endless) > 1
    unknown = generate(decoder_of(model, eos_id=None), prompts, strong, max_new_tokens=1)
    assert [EOS] not in [one.ids for one in unknown]


def test_tokens_stream_step_by_step_and_finished_rows_fall_silent(model, settings):
    chosen = settings(temperature=1.5)
    found = generate(decoder_of(model), WORDS, chosen, max_new_tokens=12)
    assert len({len(one.ids) for one in found}) > 3
    steps = []
    with decoding_mode(model):
        sampling = Sampling(decoder_of(model), WORDS, chosen, 12)
        for _ in range(12):
            rows = sampling.alive.tolist()
            tokens = sampling.step()
            steps.append(dict(zip(rows, tokens.tolist(), strict=True)))
            if not sampling.keep_rows(tokens != EOS):
                break
    for number, step in enumerate(steps):
        rows = [row for row, one in enumerate(found) if number < len(one.ids)]
        assert step == {row: found[row].ids[number] for row in rows}
    for one in found:
        assert EOS not in one.ids[:-1]
        assert one.finished or len(one.ids) == 12
    endless = generate(decoder_of(model), WORDS, chosen, max_new_tokens=12, stop_at_eos=False)
    assert all(len(one.ids) == 12 and not one.finished for one in endless)
    assert any(EOS in one.ids[:-1] for one in endless)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize(
    "changes",
    [{"temperature": 1e-9}, {"temperature": 5e-324}, {"top_k": 31, "top_p": 1e-9}, {"top_k": 1}],
)
def test_extreme_settings_are_greedy(make_model, prompts, settings, dtype, changes):
    model = make_model(dtype=dtype)
    greedy = generate(decoder_of(model), prompts, settings(temperature=0.0), max_new_tokens=20)
    assert generate(decoder_of(model), prompts, settings(**changes), max_new_tokens=20) == greedy


@pytest.mark.parametrize("banned", [list(range(31)), [31], [-1]])
def test_banned_ids_that_leave_nothing_or_are_no_words_are_refused(model, banned):
    with pytest.raises(InputError, match="banned"):
        decoder_of(model, banned=banned)


def test_without_a_step_there_is_no_token_and_every_prompt_needs_a_stream(model, settings):
    for steps in (0, -1):
        found = generate(decoder_of(model), [[SOS], [SOS, 5]], settings(), max_new_tokens=steps)
        assert found == [Generation([], [], False)] * 2
    with pytest.raises(ValueError, match="streams"):
        Sampling(decoder_of(model), [[SOS]], settings(), 5, streams=[1, 2])


NEVER = float("-inf")
ROWS, VOCAB = 7, 31


@pytest.fixture
def logits() -> torch.Tensor:
    return torch.randn(ROWS, VOCAB, generator=torch.Generator().manual_seed(2)) * 3


def test_a_score_in_half_a_million_keeps_its_place():
    z = torch.tensor([[1e6, 1e6 - 0.0625]], dtype=torch.float32)
    assert filters.scale(z, 0.5).tolist() == [[0.0, -0.125]]


@pytest.mark.parametrize("k", [1, 5, 30, 31, 1000])
def test_the_k_largest_are_those_of_a_sort_with_ties_by_id(logits, k):
    coarse = logits.round()  # many equal scores
    coarse[0] = 0.0
    for scores in (logits, coarse):
        values, ids = filters.stable_topk(scores, k)
        by_id, ids_of_top = filters.top_k(scores, k)
        for row in range(ROWS):
            best = sorted(range(VOCAB), key=lambda word: (-float(scores[row, word]), word))[:k]
            assert ids[row].tolist() == best
            assert values[row].tolist() == scores[row, best].tolist()
            assert ids_of_top[row].tolist() == sorted(best)
            assert by_id[row].tolist() == scores[row, sorted(best)].tolist()


@pytest.mark.parametrize(
    ("p", "nucleus"),
    [(0.25, [0]), (0.2500001, [0, 1]), (0.5, [0, 1]), (0.75, [0, 1, 2]), (0.9, [0, 1, 2, 3])],
)
def test_a_sum_that_is_reached_is_enough_and_ties_go_to_the_lower_id(p, nucleus):
    assert (filters.top_p(torch.zeros(1, 4), p) > NEVER)[0].nonzero()[:, 0].tolist() == nucleus


def test_the_nucleus_of_many_equal_words_and_of_all():
    many = torch.zeros(3, 1000)  # enough for a sort that is not stable to show
    assert (filters.top_p(many, 0.1)[2] > NEVER).nonzero()[:, 0].tolist() == list(range(100))
    peaky = torch.tensor([[100.0, 0.0, -100.0]])  # 1 keeps even what is too small to move a sum
    assert torch.equal(filters.top_p(peaky, 1.0), peaky)
