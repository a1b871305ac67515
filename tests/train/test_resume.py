"""Further runs that are cut off and taken up: several settings at once, and every way of sampling on the way."""

import dataclasses
import json

import pytest
import torch

from tests.support.cut_off import CutOff, Dying
from tests.support.small import DECODE
from tinylm.decoding.beam_search import beam_search
from tinylm.decoding.sampling import generate
from tinylm.decoding.settings import DecodeSettings
from tinylm.train.loop import train
from tinylm.train.snapshot import Snapshots

SOS, EOS, PAD = 0, 1, 2
TOGETHER = {
    "muon, bf16, accumulation, stream": {
        "optimizer": "muon", "precision": "bf16", "accumulation": 2, "layout": "stream", "tokens": 5000,
    },
    "adam, windows, accumulation, early stopping": {
        "optimizer": "adam", "layout": "windows", "accumulation": 2, "patience": 2, "lr": 0.3, "validate_every": 3,
        "schedule": "constant", "tokens": 8000,
    },
    "bf16, early stopping, best put back": {
        "precision": "bf16", "patience": 1, "lr": 0.5, "schedule": "constant", "validate_every": 4, "tokens": 6000,
    },
    "one story a batch, epochs": {"batch_size": 1, "tokens": None, "epochs": 0.2, "validate_every": 9},
}  # fmt: skip
SAMPLERS = {
    "plain": {}, "greedy": {"temperature": 0.0}, "top k": {"top_k": 3}, "nucleus": {"top_p": 0.5},
    "cooling": {"temperature": 2.0, "temperature_end": 0.1}, "fallback": {"top_k": 2, "fallback_mass": 0.9},
    "penalty": {"repetition_penalty": 2.0, "repetition_window": 3}, "sliding by one": {"slide": "one"}
}  # fmt: skip


def every_sample(model) -> str:
    """What each sampler, with the cache and without, and a beam search write behind <sos>, as one text."""
    texts = {}
    for name, changes in SAMPLERS.items():
        chosen = DecodeSettings(**(DECODE | changes))
        for cache in (True, False):
            rows = generate(
                model,
                [[SOS, 5]],
                chosen,
                max_new_tokens=18,
                eos_id=EOS,
                banned=[SOS, PAD],
                use_cache=cache,
                stop_at_eos=False,
            )
            texts[f"{name}, {cache}"] = rows[0].ids
    ((best, *_),) = beam_search(
        model,
        [[SOS, 5]],
        width=3,
        max_new_tokens=6,
        length_penalty=0.6,
        eos_id=EOS,
        banned=[SOS, PAD],
    )
    return json.dumps(texts | {"beam": best.ids})


@pytest.mark.parametrize("changes", TOGETHER.values(), ids=TOGETHER)
@pytest.mark.parametrize("dies", [1, 3])
def test_fault_01_a_resumed_run_is_bit_identical_with_all_that_samples(
    tmp_path, new_model, new_batches, held_out, new_settings, changes, dies
):
    settings = new_settings(**{"tokens": 2500, "validate_every": 5, "sample_every": 6, **changes})

    def run(snapshots):
        torch.manual_seed(11)
        model = new_model(settings, dropout=0.2)

        def sample(*_):
            model.eval()
            return every_sample(model)

        batches = new_batches(batch_size=settings.batch_size, layout=settings.layout)
        result = train(
            model,
            batches,
            lambda: held_out(settings.layout),
            settings,
            on_sample=sample,
            snapshots=snapshots,
        )
        return model.state_dict(), result

    whole, expected = run(None)
    with pytest.raises(CutOff):
        run(Dying(tmp_path, {"x": 1}, 1.0, every=3, dies=dies))
    torch.rand(5)
    weights, result = run(Snapshots(tmp_path, {"x": 1}, 1e9, "require"))
    assert all(torch.equal(tensor, weights[name]) for name, tensor in whole.items())
    found, wanted = (
        json.loads(json.dumps(dataclasses.asdict(one.curves))) for one in (result, expected)
    )
    assert found == wanted
    assert len(wanted["samples"]) > 1
    assert (result.best_update, result.stopped_early) == (
        expected.best_update,
        expected.stopped_early,
    )


def test_sampling_on_the_way_moves_no_weight(new_model, new_batches, held_out, new_settings):
    """The samplers draw from numbers of their own: with and without them the weights are the same to the bit."""

    def run(sample_every):
        torch.manual_seed(11)
        settings = new_settings(tokens=1500, sample_every=sample_every)
        model = new_model(settings, dropout=0.2)
        train(model, new_batches(), held_out, settings, on_sample=lambda *_: every_sample(model))
        return model.state_dict()

    often, never = run(3), run(10**6)
    assert all(torch.equal(tensor, often[name]) for name, tensor in never.items())
