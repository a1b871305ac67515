import dataclasses

import pytest
import torch

from tests.support.small import EVALUATE
from tinylm.base.config import InputError
from tinylm.decoding.settings import DecodeSettings
from tinylm.evaluate.continuations import continue_prompts, evaluation_prompts, measure_samples
from tinylm.vocab.token_store import TokenStore

DECODE = DecodeSettings(seed=5)
SETTINGS = EVALUATE


def prompts_of(corpus, **changes):
    folder, tokenizer = corpus
    settings = dataclasses.replace(SETTINGS, **changes)
    return evaluation_prompts(TokenStore(folder / "tokens", "evaluation"), tokenizer, settings)


def test_prompts_are_those_of_the_settings(corpus):
    folder, tokenizer = corpus
    stream = TokenStore(folder / "tokens", "evaluation").ids.tolist()
    _, starts, _ = prompts_of(corpus)
    _, across, _ = prompts_of(corpus, stop_at_eos=False)
    following = [tokenizer.sos_id, *tokenizer.encode("the zebra sang to the")]
    assert across.reference == [*starts.reference, *following]
    assert across.ids == starts.ids
    _, whole, _ = prompts_of(corpus, stop_at_eos=False, reference="whole")
    assert whole.reference == starts.reference
    cuts = prompts_of(corpus, prompts="stream", stories=10)
    for cut in cuts:
        piece = cut.ids + cut.reference
        assert any(stream[at : at + 11] == piece for at in range(len(stream)))
    assert len(cuts) == 10


@pytest.mark.parametrize("kind", ["starts", "stream"])
def test_prompts_longer_than_the_split_are_refused(corpus, kind):
    with pytest.raises(InputError, match=r"evaluate\.prompt_tokens: .* got 500"):
        prompts_of(corpus, prompts=kind, prompt_tokens=500)


def test_past_the_end_the_next_story_may_begin(corpus, model):
    _, tokenizer = corpus
    with torch.no_grad():
        model.output.weight.zero_()  # every id is as likely
    settings = dataclasses.replace(SETTINGS, stop_at_eos=False, new_tokens=60)
    prompts = prompts_of(corpus, stop_at_eos=False)
    samples = continue_prompts(model, tokenizer, prompts, settings, DECODE)
    assert set(samples["tokens"]) == {60}
    assert not samples["finished"].any()
    for ids in samples["ids"]:
        assert {tokenizer.eos_id, tokenizer.sos_id} < set(ids)
    metrics, _ = measure_samples(samples, settings, DECODE)
    perplexity = metrics["continuation_perplexity"]["value"]
    assert perplexity == pytest.approx(len(tokenizer), rel=1e-5)
