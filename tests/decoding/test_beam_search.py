import math

import pytest
import torch

from tests.decoding.conftest import BANNED, CONTEXT, EOS, SOS, decoder_of
from tinylm.base.config import InputError
from tinylm.decoding.beam_search import Hypothesis, beam_search
from tinylm.decoding.settings import BeamSettings


def next_log_probs(model, texts: list[list[int]], drop: int) -> list[list[float]]:
    """Of the next token of texts of one length; past the context the oldest `drop` tokens leave."""
    start = 0
    while len(texts[0]) - start > CONTEXT:
        start += drop
    with torch.no_grad():
        return model(torch.tensor(texts)[:, start:])[:, -1].log_softmax(-1).tolist()


def brute_beam(model, prompt, width, steps, alpha, n_best, stop=True, drop=CONTEXT // 2):
    """The rule of `beam_search` in plain words: one prompt, no cache, no early stop."""
    live = [((), 0.0)]
    found = []
    for length in range(1, steps + 1):
        candidates = []
        tables = next_log_probs(model, [prompt + list(ids) for ids, _ in live], drop)
        for number, ((ids, total), table) in enumerate(zip(live, tables, strict=True)):
            for token, value in enumerate(table):
                if token not in BANNED:
                    candidates.append((-(total + value), number, token, (*ids, token)))
        candidates.sort()
        ends = [c for c in candidates[:width] if stop and c[2] == EOS]
        goes_on = [c for c in candidates if not (stop and c[2] == EOS)][:width]
        done = ends + (goes_on if length == steps else [])
        found += [(-negative / length**alpha, -negative, ids) for negative, _, _, ids in done]
        live = [(ids, -negative) for negative, _, _, ids in goes_on]
    return sorted(found, key=lambda one: -one[0])[:n_best]


def check(hypotheses, expected):
    scores, totals, texts = zip(*expected, strict=True)
    assert [tuple(one.ids) for one in hypotheses] == list(texts)
    assert [one.score for one in hypotheses] == pytest.approx(scores, abs=1e-9)
    assert [one.log_prob for one in hypotheses] == pytest.approx(totals, abs=1e-9)


@pytest.mark.parametrize("width", [1, 2, 5, 10, 31])
@pytest.mark.parametrize("alpha", [0.0, 0.6, 3.0])
def test_beam_equals_a_brute_force_beam(make_model, prompts, width, alpha):
    ends = set()
    steps, n_best = (4, 5) if width > 5 else (9, min(3, width))
    model = make_model(1, end=3.0)
    beams = BeamSettings(width=width, length_penalty=alpha, n_best=n_best)
    found = beam_search(decoder_of(model), prompts, beams, max_new_tokens=steps)
    for prompt, hypotheses in zip(prompts, found, strict=True):
        check(hypotheses, brute_beam(model, prompt, width, steps, alpha, n_best))
        ends |= {(len(one.ids), one.ids[-1] == EOS) for one in hypotheses}
    assert len(ends) > 1 or alpha == 3.0  # prompts that end at different lengths


@pytest.mark.parametrize("use_cache", [True, False])
@pytest.mark.parametrize(("slide", "drop"), [("half", CONTEXT // 2), ("one", 1)])
def test_beam_past_the_context(model, prompts, use_cache, slide, drop):
    decoder = decoder_of(model, slide=slide, use_cache=use_cache)
    beams = BeamSettings(width=3, length_penalty=0.6, n_best=2)
    found = beam_search(decoder, prompts, beams, max_new_tokens=22, stop_at_eos=False)
    for prompt, hypotheses in zip(prompts, found, strict=True):
        check(hypotheses, brute_beam(model, prompt, 3, 22, 0.6, 2, stop=False, drop=drop))


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"width": 32}, "got 32"),
        ({"width": 0}, "got 0"),
        ({"n_best": 3}, "n_best"),
        ({"length_penalty": -1.0}, "length_penalty"),
        ({"length_penalty": math.nan}, "length_penalty"),
    ],
)
def test_settings_out_of_range_are_refused(model, changes, named):
    beams = BeamSettings(**{"width": 2} | changes)
    with pytest.raises(InputError, match=named):
        beam_search(decoder_of(model), [[SOS]], beams, max_new_tokens=5)


def test_without_prompts_steps_or_words_there_is_little_to_find(model):
    decoder, beams = decoder_of(model), BeamSettings(width=2)
    assert beam_search(decoder, [], beams, max_new_tokens=5) == []
    for steps in (0, -2):
        nothing = beam_search(decoder, [[SOS], [SOS, 4]], beams, max_new_tokens=steps)
        assert nothing == [[Hypothesis([], 0.0, 0.0)]] * 2
    only_end = [word for word in range(31) if word != EOS]
    decoder, beams = decoder_of(model, banned=only_end), BeamSettings(width=31)
    ((end,),) = beam_search(decoder, [[SOS]], beams, max_new_tokens=5)
    assert end.ids == [EOS]


def test_hypotheses_of_equal_score_come_as_they_were_found(make_model):
    """Every word equally likely: the first beam's lowest ids win, at every length."""
    model = make_model()
    with torch.no_grad():
        model.output.weight.zero_()
    beams = BeamSettings(width=3, length_penalty=1.0, n_best=3)
    (found,) = beam_search(decoder_of(model), [[SOS]], beams, max_new_tokens=2)
    assert [one.ids for one in found] == [[1], [4, 1], [4, 4]]
    assert [one.score for one in found] == pytest.approx([-math.log(31)] * 3)
