"""Two small models, trained alike: one on the stories, one on stories whose places were shuffled."""

import random
import re

import numpy as np

from tests.support.plots import story_of_plot
from tests.support.twins import trained_on
from tinylm.evaluate.truth import compare, log_probabilities, read_words, true_tokens
from tinylm.model.transformer import TinyLM
from tinylm.storybook.corpus import Sampler, normalise
from tinylm.storybook.lexicon import KINDS
from tinylm.storybook.truth import END, MEANING, vocabulary
from tinylm.vocab.settings import VocabSettings
from tinylm.vocab.words import build_tokenizer, count_words

PLOT = 19  # names many places, and one plot is learnt in a minute
WORD = re.compile("[a-z]+")
PLACES = [
    normalise(entry[""]) for kind in ("village", "outside", "inside") for entry in KINDS[kind].options
]  # fmt: skip


def with_shuffled_places(text: str, rng: random.Random) -> str:
    """Another place for each mention of a place."""
    places = set(PLACES)
    return WORD.sub(lambda word: rng.choice(PLACES) if word[0] in places else word[0], text)


def divergence_by_kind(model: TinyLM, tokenizer, texts) -> dict[str, float]:
    """The sum of the divergences at all words of each kind, in nats per word of the texts."""
    sums = dict.fromkeys(MEANING, 0.0)
    words = 0
    for text in texts:
        positions = read_words([*text.split(), END])[:-1]
        ids = np.array(tokenizer.encode_story(text))
        found = compare(
            true_tokens(tokenizer, positions), log_probabilities(model, ids[:-1]), ids[1:]
        )
        for position, nats in zip(positions, found["kl"], strict=True):
            sums[position.following.kind] += nats
        words += len(positions)
    return {kind: nats / words for kind, nats in sums.items()}


def test_a_model_trained_on_shuffled_places_is_far_from_the_generator_at_places(tmp_path):
    sampler = Sampler("twins")
    texts = [" ".join(story_of_plot(sampler, PLOT)) for _ in range(2_700)]
    unseen = texts[:20]
    del texts[:20]
    settings = VocabSettings(tokenizer="words")
    tokenizer = build_tokenizer(count_words([" ".join(vocabulary())], settings), settings)
    rng = random.Random(1)
    shuffled = [with_shuffled_places(text, rng) for text in texts]
    by_twin = []
    for name, stories in (("healthy", texts), ("broken", shuffled)):
        folder = tmp_path / name
        folder.mkdir()
        model = trained_on(stories, tokenizer, folder, width=64, tokens=360_000)
        by_twin.append(divergence_by_kind(model, tokenizer, unseen))
    healthy, broken = by_twin
    grown = {kind: broken[kind] - healthy[kind] for kind in MEANING}
    at_places = grown.pop("place")
    assert at_places > 5 * max(map(abs, grown.values()))
