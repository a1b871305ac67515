"""From logits to the next token: filters on scores (B, N), and `choose`, which applies them.

Filters are pure functions that set scores to -inf. A row with a finite score keeps at least one, so
no softmax after a filter gives NaN.
"""

import math
from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from tinylm.decoding.settings import FALLBACK_TOP_P, DecodeSettings

NEG_INF = float("-inf")
MIN_TEMPERATURE = 1e-30  # a smaller one could be 0 in float32, and gives the same result


def running_sum(weights: Tensor) -> Tensor:
    """Cumulative sums of each row in float64, on the CPU: CUDA's are not deterministic."""
    sums = weights.cpu().cumsum(dim=-1, dtype=torch.float64)
    return sums.to(weights.device)


def sample_index(scores: Tensor, u: Tensor) -> Tensor:
    """Inverse-CDF sampling: the first index whose cumulative probability exceeds u.

    (B, N), (B,) -> (B,). scores: the result of `scale`; the largest of a row is 0. u is multiplied
    by the sum of the exponentials, in float64. A u below 1 is at most 1 - 2^-53, so the product is
    below the sum: the index is never past the end, and its probability is never zero.
    """
    cumulated = running_sum(scores.exp())
    threshold = u[:, None] * cumulated[:, -1:]
    return torch.searchsorted(cumulated, threshold, right=True)[:, 0]


def ban(logits: Tensor, ids: Sequence[int] | Tensor) -> Tensor:
    """Exclude the given ids.  (B, V) -> (B, V)"""
    if not len(ids):
        return logits
    return logits.index_fill(-1, torch.as_tensor(ids, device=logits.device), NEG_INF)


def penalise_repeats(logits: Tensor, seen: Tensor, penalty: float) -> Tensor:
    """Make tokens that are already in the row less likely (Keskar et al. 2019, section 4.1).

    For the ids marked in `seen` (B, V): z / penalty where z > 0, z * penalty elsewhere.
    """
    penalised = torch.where(logits > 0, logits / penalty, logits * penalty)
    return torch.where(seen, penalised, logits)


def scale(logits: Tensor, temperature: float) -> Tensor:
    """(z - max z) / temperature, for any finite temperature > 0; temperature 0 is argmax.

    The maximum is subtracted before the division, so a tiny temperature gives 0 and -inf, but
    never infinity minus infinity.
    """
    differences = logits - logits.amax(dim=-1, keepdim=True)
    return differences / max(temperature, MIN_TEMPERATURE)


def stable_topk(logits: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """The k largest scores of each row, best first, and their ids.  (B, N) -> (B, k), (B, k)

    Ties go to the lower id. torch.topk does not order equal scores, so rows with ties are sorted.
    """
    size = logits.shape[-1]
    k = min(k, size)
    values, ids = logits.topk(min(k + 1, size), dim=-1)  # one more, to see a tie at the border
    tied = values[:, 1:] == values[:, :-1]
    if tied.any():
        rows = tied.any(dim=-1)
        in_order = logits[rows].sort(dim=-1, descending=True, stable=True).indices
        ids[rows] = in_order[:, : ids.shape[-1]]
    return values[:, :k], ids[:, :k]


def candidates(logits: Tensor, k: int, banned: Sequence[int] | Tensor) -> tuple[Tensor, Tensor]:
    """The k likeliest tokens that are not banned, best first.

    (B, V) -> log-probabilities (B, k) float64, ids (B, k)
    """
    log_probs = logits.log_softmax(dim=-1)
    values, ids = stable_topk(ban(log_probs, banned), k)
    return values.double(), ids


def top_k(logits: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """Scores and ids of the k likeliest tokens, by ascending id (Fan et al. 2018).

    (B, N) -> scores (B, k), ids (B, k); k = 0 or k >= N keeps all.
    """
    size = logits.shape[-1]
    if k == 0 or k >= size:
        all_ids = torch.arange(size, device=logits.device)
        return logits, all_ids.expand(logits.shape)
    _, best_first = stable_topk(logits, k)
    ids = best_first.sort(dim=-1).values
    return logits.gather(-1, ids), ids


def top_p(logits: Tensor, p: float) -> Tensor:
    """Keep the nucleus: the fewest tokens whose probabilities sum to p or more.  (B, N) -> (B, N)

    Holtzman et al. 2020. Of equally likely tokens, those with the lowest ids are kept. p = 0 keeps only
    the likeliest token; p = 1 keeps all.
    """
    if p == 1.0:
        return logits
    comparable = (
        logits.float() if logits.dtype == torch.bfloat16 else logits
    )  # NumPy has no bfloat16
    ascending = np.sort(comparable.numpy(force=True), axis=-1)  # much faster than a sort with ids
    ordered = torch.from_numpy(ascending).to(logits.device).flip(-1)
    probabilities = torch.softmax(ordered.double(), dim=-1)
    before = running_sum(probabilities) - probabilities  # sum over all likelier tokens
    size = (before < p).sum(dim=-1, keepdim=True).clamp(min=1)
    least = ordered.gather(-1, size - 1)
    is_above, is_tied = logits > least, logits == least
    room = size - is_above.sum(dim=-1, keepdim=True)
    inside = is_above | (is_tied & (is_tied.cumsum(dim=-1) <= room))
    return logits.masked_fill(~inside, NEG_INF)


def min_p(scores: Tensor, p: float) -> Tensor:
    """Keep the tokens that have at least p times the probability of the likeliest.  (B, N) -> (B, N)

    Nguyen et al. 2024. scores: the result of `scale`; the largest of a row is 0. p = 0 keeps all.
    """
    if p == 0.0:
        return scores
    return scores.masked_fill(scores < math.log(p), NEG_INF)


def eta(scores: Tensor, epsilon: float) -> Tensor:
    """Drop the tokens whose probability is below min(epsilon, sqrt(epsilon) * exp(-entropy)).

    (B, N) -> (B, N). Eta sampling (Hewitt et al. 2022): where many tokens are likely, the entropy is
    high, and less likely tokens stay. scores: the result of `scale`; the largest of a row is 0.
    epsilon = 0 keeps all. The likeliest token stays: its probability is at least exp(-entropy).
    """
    if epsilon == 0.0:
        return scores
    probabilities = torch.softmax(scores.double(), dim=-1)
    surprisals = -torch.special.xlogy(probabilities, probabilities)
    entropy = running_sum(surprisals)[:, -1:]  # in order: independent of the batch
    least = (math.sqrt(epsilon) * torch.exp(-entropy)).clamp(max=epsilon)
    return scores.masked_fill((probabilities < least) & (scores < 0), NEG_INF)


def probability_mass(logits: Tensor, ids: Tensor) -> Tensor:
    """Total probability of each row's given ids.  (B, N), (B, k) -> (B,) float64"""
    probabilities = torch.softmax(logits.double(), dim=-1)
    of_ids = probabilities.gather(-1, ids)
    # A sum in order, so that the result does not depend on the batch.
    return running_sum(of_ids)[:, -1]


def kept(logits: Tensor, settings: DecodeSettings) -> tuple[Tensor, Tensor]:
    """Scores and ids of the top k tokens at a temperature above 0.

    (B, V) -> scores (B, k), -inf for what top_p, min_p or eta rules out; ids (B, k)
    """
    scores, ids = top_k(logits, settings.top_k)
    scores = top_p(scale(scores, settings.temperature), settings.top_p)
    return eta(min_p(scores, settings.min_p), settings.eta), ids


def flat_rows(logits: Tensor, ids: Tensor, settings: DecodeSettings) -> tuple[Tensor, Tensor]:
    """The rows whose top_k likeliest tokens have less than `fallback_mass` of the probability.

    logits (B, V), ids (B, k) from `kept` -> row numbers (R,), and scores (R, V) of the nucleus
    `FALLBACK_TOP_P`, from which these rows are drawn instead.
    """
    if settings.fallback_mass == 0.0 or ids.shape[-1] == logits.shape[-1]:
        return torch.empty(0, dtype=torch.int64, device=logits.device), logits[:0]
    scaled = scale(logits, settings.temperature)
    rows = (probability_mass(scaled, ids) < settings.fallback_mass).nonzero()[:, 0]
    return rows, top_p(scaled[rows], FALLBACK_TOP_P)


def choose(logits: Tensor, settings: DecodeSettings, u: Tensor) -> Tensor:
    """The next token of each row: argmax at temperature 0, else a draw from what the filters keep.

    logits (B, V), u (B,) in [0, 1) -> (B,)
    """
    if settings.temperature == 0.0:
        return logits.argmax(dim=-1)
    scores, ids = kept(logits, settings)
    columns = sample_index(scores, u)
    tokens = ids.gather(-1, columns[:, None])[:, 0]
    rows, nucleus = flat_rows(logits, ids, settings)
    if len(rows):
        tokens[rows] = sample_index(nucleus, u[rows])
    return tokens


def probabilities(logits: Tensor, settings: DecodeSettings) -> Tensor:
    """The distributions from which `choose` draws.  (B, V) -> (B, V) float64"""
    none = torch.zeros_like(logits, dtype=torch.float64)
    if settings.temperature == 0.0:
        return none.scatter(-1, logits.argmax(dim=-1, keepdim=True), 1.0)
    scores, ids = kept(logits, settings)
    of_ids = torch.softmax(scores.double(), dim=-1)
    if scores.shape == logits.shape:  # all ids, in order; then no row is flat
        return of_ids
    result = none.scatter(-1, ids, of_ids)
    rows, nucleus = flat_rows(logits, ids, settings)
    result[rows] = torch.softmax(nucleus.double(), dim=-1)
    return result
