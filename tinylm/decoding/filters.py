"""Filters on next-token scores, each a pure function of logits (B, N); filtered-out scores become -inf.

A row always keeps a finite score if it had one, so no softmax after a filter gives NaN.
"""

from collections.abc import Sequence

import torch
from torch import Tensor

NEVER = float("-inf")
SMALLEST = 1e-30  # temperature: smaller ones would be 0 in float32, and already leave one token


def running_sum(weights: Tensor) -> Tensor:
    """Cumulative sums along each row, (B, N) float64; on the CPU: CUDA has no deterministic ones."""
    return weights.cpu().cumsum(dim=-1, dtype=torch.float64).to(weights.device)


def draw(scores: Tensor, u: Tensor) -> Tensor:
    """Inverse-CDF sampling: the first index whose cumulative probability exceeds u.  (B, N), (B,) -> (B,)

    scores: as `scale` gives them, the largest of a row is 0. Their exponentials are summed in float64 and u is scaled
    by the sum. A float64 u below 1 is at most 1 - 2^-53, which times the sum never rounds up to the sum: the index is
    never past the end nor one of probability zero.
    """
    cumulated = running_sum(scores.exp())
    return torch.searchsorted(cumulated, u[:, None] * cumulated[:, -1:], right=True)[:, 0]


def ban(logits: Tensor, ids: Sequence[int] | Tensor) -> Tensor:
    """The given ids can never be chosen.  (B, V) -> (B, V)"""
    if not len(ids):
        return logits
    return logits.index_fill(-1, torch.as_tensor(ids, device=logits.device), NEVER)


def penalise_repeats(logits: Tensor, seen: Tensor, penalty: float) -> Tensor:
    """Make words that are already in the row less likely (Keskar et al. 2019, section 4.1).

    z / penalty where z > 0, z * penalty elsewhere, for the ids marked in seen (B, V); penalty 1 changes nothing.
    """
    return torch.where(seen, torch.where(logits > 0, logits / penalty, logits * penalty), logits)


def scale(logits: Tensor, temperature: float) -> Tensor:
    """(z - max z) / temperature, at any finite temperature > 0; temperature 0 is argmax.

    The distance from the best score is what is divided, so a tiny temperature gives 0 and -inf but
    never infinity minus infinity.
    """
    distance = logits - logits.amax(dim=-1, keepdim=True)
    return distance / max(temperature, SMALLEST)


def largest(logits: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """The k largest scores of each row, best first, and their ids; ties go to the lower id.  (B, N) -> 2 x (B, k)

    torch.topk leaves open which of several equal scores it returns; only where that matters are rows sorted.
    """
    k = min(k, logits.shape[-1])
    values, ids = logits.topk(min(k + 1, logits.shape[-1]), dim=-1)
    tied = values[:, 1:] == values[:, :-1]
    if tied.any():
        rows = tied.any(dim=-1)
        in_order = logits[rows].sort(dim=-1, descending=True, stable=True).indices
        ids[rows] = in_order[:, : ids.shape[-1]]
    return values[:, :k], ids[:, :k]


def candidates(logits: Tensor, k: int, banned: Sequence[int] | Tensor) -> tuple[Tensor, Tensor]:
    """The k likeliest tokens except the banned, best first.

    (B, V) -> log-probabilities (B, k) float64, ids (B, k)
    """
    log_probs = logits.log_softmax(dim=-1)
    values, ids = largest(ban(log_probs, banned), k)
    return values.double(), ids


def top_k(logits: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """Only the k likeliest (Fan et al. 2018): their scores and ids, ids ascending; k = 0 or k >= N keeps all.

    (B, N) -> scores (B, k), ids (B, k)
    """
    if k == 0 or k >= logits.shape[-1]:
        return logits, torch.arange(logits.shape[-1], device=logits.device).expand(logits.shape)
    ids = largest(logits, k)[1].sort(dim=-1).values
    return logits.gather(-1, ids), ids


def top_p(logits: Tensor, p: float) -> Tensor:
    """Only the nucleus: the fewest likeliest whose probabilities sum to at least p (Holtzman et al. 2020).

    The likeliest always stays (p = 0 keeps it alone); 1 keeps all.  (B, N) -> (B, N)
    """
    if p == 1.0:
        return logits
    ordered, ids = logits.sort(dim=-1, descending=True, stable=True)
    probabilities = torch.softmax(ordered.double(), dim=-1)
    before = running_sum(probabilities) - probabilities  # of all that are likelier
    outside = before >= p
    outside[:, 0] = False
    return logits.masked_fill(outside.scatter(-1, ids, outside), NEVER)


def probability_mass(logits: Tensor, ids: Tensor) -> Tensor:
    """Total probability of each row's given ids.  (B, N), (B, k) -> (B,) float64"""
    probabilities = torch.softmax(logits.double(), dim=-1).gather(-1, ids)
    # Summed in order, so that a row's sum does not depend on its batch.
    return running_sum(probabilities)[:, -1]
