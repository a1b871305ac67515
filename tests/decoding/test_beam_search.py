import functools
import itertools
import math

import numpy as np
import pytest
import torch

from tinylm.base.config import InputError
from tinylm.decoding import beam_search as beam
from tinylm.decoding import filters, sampling
from tinylm.decoding.beam_search import Hypothesis, expand

SOS, EOS, PAD, UNK = 0, 1, 2, 3
BANNED = [SOS, PAD, UNK]
beam_search = functools.partial(beam.beam_search, eos_id=EOS, banned=BANNED)
generate = functools.partial(sampling.generate, eos_id=EOS, banned=BANNED)
CONTEXT = 13


def next_log_probs(model, texts: list[list[int]]) -> list[list[float]]:
    """Of the next token of texts of one length."""
    start = 0
    while len(texts[0]) - start > CONTEXT:
        start += CONTEXT // 2
    with torch.no_grad():
        return model(torch.tensor(texts)[:, start:])[:, -1].log_softmax(-1).tolist()


def brute_beam(model, prompt, width, steps, alpha, banned, n_best, stop=True):
    """The rule of `beam_search` in plain words: one prompt, no cache, no early stop."""
    live = [((), 0.0)]
    found = []
    for length in range(1, steps + 1):
        candidates = []
        tables = next_log_probs(model, [prompt + list(ids) for ids, _ in live])
        for number, ((ids, total), table) in enumerate(zip(live, tables, strict=True)):
            for token, value in enumerate(table):
                if token not in banned:
                    candidates.append((-(total + value), number, token, (*ids, token)))
        candidates.sort()
        ends = [c for c in candidates[:width] if stop and c[2] == EOS]
        goes_on = [c for c in candidates if not (stop and c[2] == EOS)][:width]
        done = ends + (goes_on if length == steps else [])
        found += [(-negative / length**alpha, -negative, ids) for negative, _, _, ids in done]
        live = [(ids, -negative) for negative, _, _, ids in goes_on]
    return sorted(found, key=lambda one: -one[0])[:n_best]


def check(found, expected):
    assert [tuple(one.ids) for one in found] == [ids for _, _, ids in expected]
    assert [one.score for one in found] == pytest.approx(
        [score for score, _, _ in expected], abs=1e-9
    )
    assert [one.log_prob for one in found] == pytest.approx(
        [total for _, total, _ in expected], abs=1e-9
    )


@pytest.mark.parametrize("width", [1, 2, 5, 10, 31])
@pytest.mark.parametrize("alpha", [0.0, 0.6, 3.0])
def test_beam_equals_a_brute_force_beam(make_model, prompts, width, alpha):
    ends = set()
    steps, n_best = (4, 5) if width > 5 else (9, min(3, width))
    model = make_model(1)
    for prompt, found in zip(
        prompts,
        beam_search(
            model, prompts, width=width, max_new_tokens=steps, length_penalty=alpha, n_best=n_best
        ),
        strict=True,
    ):
        check(found, brute_beam(model, prompt, width, steps, alpha, BANNED, n_best))
        ends |= {(len(one.ids), one.ids[-1] == EOS) for one in found}
    assert len(ends) > 1 or alpha == 3.0  # prompts that end at different lengths


@pytest.mark.parametrize("use_cache", [True, False])
def test_beam_past_the_context(model, prompts, use_cache):
    found = beam_search(
        model,
        prompts,
        width=3,
        max_new_tokens=22,
        length_penalty=0.6,
        n_best=2,
        use_cache=use_cache,
        stop_at_eos=False,
    )
    for prompt, mine in zip(prompts, found, strict=True):
        assert all(len(one.ids) == 22 for one in mine)
        check(mine, brute_beam(model, prompt, 3, 22, 0.6, BANNED, 2, stop=False))


@pytest.mark.parametrize("slide", ["half", "one"])
def test_cached_beam_equals_uncached_past_the_context(model, prompts, slide):
    cached, uncached = (
        beam_search(
            model,
            prompts,
            width=4,
            max_new_tokens=25,
            length_penalty=1.0,
            n_best=3,
            slide=slide,
            use_cache=use,
            stop_at_eos=False,
        )
        for use in (True, False)
    )
    for mine, other in zip(cached, uncached, strict=True):
        assert [one.ids for one in mine] == [one.ids for one in other]
        assert [one.score for one in mine] == pytest.approx([one.score for one in other], abs=1e-9)


def test_beam_1_is_greedy(make_model, prompts, settings):
    for seed in range(6):
        model = make_model(seed)
        greedy = generate(
            model, prompts, settings(temperature=0.0), max_new_tokens=20, with_log_probs=True
        )
        for one, (best,) in zip(
            greedy, beam_search(model, prompts, width=1, max_new_tokens=20), strict=True
        ):
            assert best.ids == one.ids
            assert best.log_prob == pytest.approx(sum(one.log_probs), abs=1e-9)


def all_texts(words: list[int], steps: int):
    for length in range(1, steps + 1):
        last = [EOS] if length < steps else [EOS, *words]
        yield from itertools.product(*[words] * (length - 1), last)


@pytest.mark.parametrize("alpha", [0.0, 0.6, 2.0])
@pytest.mark.parametrize(
    ("words", "steps"), [([7, 20], 5), ([5, 9, 17], 3), (list(range(3, 31)), 2)]
)
def test_a_width_that_covers_everything_finds_the_optimum(make_model, alpha, words, steps):
    """Enough width for every text of the allowed words: the answer is the best of them all, and so are the next."""
    banned = [word for word in range(31) if word not in words and word != EOS]
    for seed in range(4):
        model = make_model(seed, gain=1.0)
        prompt = [SOS, 4 + seed]
        texts = []
        for length in range(1, steps + 1):
            ids = torch.tensor([text for text in all_texts(words, steps) if len(text) == length])
            with torch.no_grad():
                table = model(
                    torch.cat([torch.tensor([prompt] * len(ids)), ids], dim=1)
                ).log_softmax(-1)
            totals = table[:, len(prompt) - 1 : -1].gather(2, ids[:, :, None]).sum((1, 2)).tolist()
            texts += [
                (total / length**alpha, total, tuple(text))
                for total, text in zip(totals, ids.tolist())
            ]
        texts.sort(key=lambda one: -one[0])
        (found,) = beam_search(
            model,
            [prompt],
            width=31,
            max_new_tokens=steps,
            length_penalty=alpha,
            banned=banned,
            n_best=6,
        )
        check(found, texts[:6])


def test_a_prompts_beam_does_not_depend_on_the_batch(model, prompts):
    together = beam_search(model, prompts, width=4, max_new_tokens=15, length_penalty=0.6, n_best=2)
    for prompt, mine in zip(prompts, together, strict=True):
        (alone,) = beam_search(
            model, [prompt], width=4, max_new_tokens=15, length_penalty=0.6, n_best=2
        )
        assert [one.ids for one in alone] == [one.ids for one in mine]


def test_ties_go_to_the_first_beam_then_the_lower_id():
    logits = torch.zeros(2 * 3, 31)
    best, ids = filters.candidates(logits, 6, [0, 2])
    sums, beams, tokens = expand(best.numpy(), ids.numpy(), np.zeros((2, 3)), 5)
    assert beams[0].tolist() == beams[1].tolist() == [0] * 6 + [1] * 4
    assert tokens[0].tolist() == [1, 3, 4, 5, 6, 7, 1, 3, 4, 5]
    assert sums == pytest.approx(np.full((2, 10), -math.log(31)))


def test_it_stops_as_soon_as_nothing_can_enter(make_model, prompts, monkeypatch):
    """Stopping early saves steps; that it changes no result is seen against the brute-force beam."""
    steps: list[int] = []
    model = make_model(5, end=2.0)
    hidden = model.hidden_states
    monkeypatch.setattr(
        model, "hidden_states", lambda *arguments: steps.append(1) or hidden(*arguments)
    )
    short = beam_search(model, prompts[:3], width=3, max_new_tokens=8)
    assert all(best.ids[-1] == EOS for (best,) in short)
    early = len(steps)
    steps.clear()
    beam_search(model, prompts[:3], width=3, max_new_tokens=8, stop_at_eos=False)
    assert early < len(steps) == 8


def test_hostile_arguments(model):
    with pytest.raises(InputError, match="width = 32; allowed: 1 to the vocabulary's 31"):
        beam_search(model, [[SOS]], width=32, max_new_tokens=5, length_penalty=0.6)
    with pytest.raises(InputError, match="width = 0"):
        beam_search(model, [[SOS]], width=0, max_new_tokens=5, length_penalty=0.6)
    with pytest.raises(InputError, match="n_best = 3"):
        beam_search(model, [[SOS]], width=2, max_new_tokens=5, length_penalty=0.6, n_best=3)
    for alpha in (-1.0, math.nan, math.inf):
        with pytest.raises(InputError, match="length_penalty"):
            beam_search(model, [[SOS]], width=2, max_new_tokens=5, length_penalty=alpha)
    with pytest.raises(InputError, match="banned"):
        beam_search(
            model, [[SOS]], width=2, max_new_tokens=5, length_penalty=0.6, banned=list(range(31))
        )
    assert beam_search(model, [], width=2, max_new_tokens=5, length_penalty=0.6) == []
    ((nothing,),) = beam_search(model, [[SOS]], width=2, max_new_tokens=0, length_penalty=0.6)
    assert nothing.ids == []
    only_end = [word for word in range(31) if word != EOS]
    ((end,),) = beam_search(
        model, [[SOS]], width=31, max_new_tokens=5, length_penalty=0.6, banned=only_end
    )
    assert end.ids == [EOS]


@pytest.mark.parametrize("steps", [0, -2])
def test_no_step_gives_one_empty_hypothesis_each(model, steps):
    assert (
        beam_search(model, [[SOS], [SOS, 4]], width=2, max_new_tokens=steps, length_penalty=0.6)
        == [[Hypothesis([], 0.0, 0.0)]] * 2
    )


def test_without_an_end_every_hypothesis_has_its_full_length(model, prompts):
    endless = beam_search(
        model, prompts, width=3, max_new_tokens=6, length_penalty=0.6, eos_id=None, n_best=3
    )
    assert {len(one.ids) for found in endless for one in found} == {6}
    assert endless == beam_search(
        model, prompts, width=3, max_new_tokens=6, length_penalty=0.6, n_best=3, stop_at_eos=False
    )


def test_hypotheses_of_equal_score_come_as_they_were_found(make_model):
    """Every word equally likely: the first beam's lowest ids win, at every length."""
    model = make_model()
    with torch.no_grad():
        model.output.weight.zero_()
    (found,) = beam_search(model, [[SOS]], width=3, max_new_tokens=2, length_penalty=1.0, n_best=3)
    assert [one.ids for one in found] == [[1], [4, 1], [4, 4]]
    assert [one.score for one in found] == pytest.approx([-math.log(31)] * 3)
