"""How likely given tokens are by a model, their perplexity, and values with their interval."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch.nn.utils.rnn import pad_sequence

from tinylm.decoding.session import window_start
from tinylm.evaluate.intervals import Statistic, bootstrap_interval
from tinylm.evaluate.settings import RESAMPLES, SEED
from tinylm.model.transformer import TinyLM
from tinylm.run.interval import Interval
from tinylm.train.cores import cores, map_on_cores
from tinylm.vocab.rows import UNSCORED


def perplexity(nats: float, tokens: int) -> float:
    """exp(nats / tokens); infinity if it is too large for a float. Raises ValueError without a token."""
    if tokens < 1:
        raise ValueError("perplexity of no token is not defined")
    try:
        return math.exp(nats / tokens)
    except OverflowError:
        return math.inf


def value_and_interval(values: Any, statistic: Statistic, value: float | None = None) -> Interval:
    """A statistic of samples (samples,) or (samples, K), with its 95 % bootstrap interval.

    value: the statistic, if it is computed elsewhere.
    """
    table = np.asarray(values, dtype=float)
    low, high = bootstrap_interval(table, statistic, RESAMPLES, SEED)
    if value is None:
        means = table.reshape(len(table), -1).mean(axis=0)
        value = float(statistic(means))
    return Interval(value, low, high)


@torch.no_grad()
def token_log_probs(
    model: TinyLM, ids: Sequence[int] | np.ndarray, first: int, slide: str
) -> np.ndarray:
    """ln P of ids[first:], each given all tokens before it within the context.

    Past the context the windows are those of decoding (`window_start`).
    Returns (len(ids) - first,) float64.
    """
    context = model.settings.context
    device = model.embedding.device
    parts = [np.empty(0)]
    n = first  # number of tokens before the one to score
    while n < len(ids):
        start = window_start(n, context, slide)
        end = n
        while end < len(ids) and window_start(end, context, slide) == start:
            end += 1
        window = torch.tensor(ids[start:end], device=device)
        hidden = model.hidden_states(window[None, :-1])
        logits = model.logits(hidden[0, n - 1 - start :])  # of ids[n:end]
        losses = F.cross_entropy(logits.double(), window[n - start :], reduction="none")
        parts.append(-losses.cpu().numpy())
        n = end
    return np.concatenate(parts)


def sequence_nats(
    model: TinyLM, sequences: Sequence[Sequence[int] | np.ndarray], batch_rows: int
) -> np.ndarray:
    """Nats of each sequence, summed over its tokens except the first.  -> (sequences,) float64

    Sequences of similar length share a batch; none may be longer than the context plus one.
    The model should be in evaluation mode.
    """
    device = model.embedding.device
    lengths = [len(sequence) for sequence in sequences]
    order = np.argsort(lengths, kind="stable")
    batches = [order[start : start + batch_rows] for start in range(0, len(order), batch_rows)]

    @torch.no_grad()
    def nats_of(indices: np.ndarray) -> np.ndarray:
        rows = [torch.as_tensor(np.asarray(sequences[i], dtype=np.int64)) for i in indices]
        inputs = pad_sequence([row[:-1] for row in rows], batch_first=True)
        targets = pad_sequence([row[1:] for row in rows], batch_first=True, padding_value=UNSCORED)
        losses = model.token_loss(inputs.to(device), targets.to(device))  # (rows, T)
        return losses.double().sum(dim=1).cpu().numpy()

    nats = np.zeros(len(sequences))
    of_batches = map_on_cores(nats_of, batches, cores(device))
    for indices, of_batch in zip(batches, of_batches, strict=True):
        nats[indices] = of_batch
    return nats
