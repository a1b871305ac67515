from unittest import mock

import numpy as np

from tinylm.evaluate import ngram


def bigram(text, discount):
    names = sorted(set(text))
    ids = {name: number for number, name in enumerate(names)}
    stream = np.array([ids[word] for word in text])
    # The project's model mixes its unigrams with 1/V; here they are pure counts of words before w.
    with mock.patch.object(ngram, "_discounts", return_value=(discount,) * 3):
        model = ngram.KneserNey([stream], 2, len(names))
    kinds = set(zip(text, text[1:]))

    def probability(w, h):
        before = sum(pair[1] == w for pair in kinds) / len(kinds)
        if h not in ids:
            return before
        level = model._levels[1]
        backoff = level.backoff[ids[h]]
        if w not in ids:
            return backoff * before
        own = np.exp(model.log_probs(np.array([ids[h], ids[w]]))[0])
        unigram = model._levels[0].probs[ids[w]]
        return float(own - backoff * unigram + backoff * before)

    return probability
