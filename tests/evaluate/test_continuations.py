import dataclasses

import pytest

from tests.support.small import EVALUATE
from tinylm.base.config import InputError
from tinylm.decoding.settings import DecodeSettings
from tinylm.evaluate.continuations import evaluation_prompts
from tinylm.vocab.token_store import TokenStore

DECODE = DecodeSettings(seed=5)
SETTINGS = EVALUATE


def prompts_of(corpus, **changes):
    folder, tokenizer = corpus
    settings = dataclasses.replace(SETTINGS, **changes)
    return evaluation_prompts(TokenStore(folder / "tokens", "evaluation"), tokenizer, settings)


def test_prompts_are_those_of_the_settings(corpus):
    folder, _ = corpus
    stream = TokenStore(folder / "tokens", "evaluation").ids.tolist()
    _, starts, _ = prompts_of(corpus)
    _, whole, _ = prompts_of(corpus, reference="whole")
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
