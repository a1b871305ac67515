"""Word vectors from counts of neighbours: seconds in place of skip-gram's minutes, and nothing is trained.

C[w, c] counts how often c is at most `window` tokens away from w, a pair at distance d as 1 / d (Pennington et al.
2014, section 4.2). M = max(0, log(p(c | w) / q(c))), where q is the share of c's counts to the power 0.5, so that rare
neighbours do not weigh too much (Levy, Goldberg and Dagan 2015, equations 2 and 3). With M ~ U S V^T of its largest
singular values, a word's vector is its row of U S (Levy and Goldberg 2014, section 5.3, with S to the power 1).
"""

import numpy as np
import torch
from torch import Tensor

from tinylm.base.seeding import derive_seed

POWER = 0.5  # of 0, 0.25, 0.4, 0.5, 0.75 and 1 the best with 0.4; see docs/explanation/recipe.md
MORE = 20  # directions beyond the width: they make those within exact to a few per cent (Halko et al. 2011)
PASSES = 1  # of power iteration: without one, losses after 125,000 tokens were 0.1 nats higher
COUNTED = 20_000_000  # tokens that are read at most
_AT_ONCE = 4_000_000  # tokens whose pairs are sorted together


def count_vectors(ids: np.ndarray, size: int, width: int, window: int, seed: int) -> np.ndarray:
    """(size, width) float32 of mean square 1 over the ids that occur; the rows of all others are zero.

    The same bits on any number of cores.
    """
    places, counts = count_pairs(ids[:COUNTED], size, window)
    vectors = np.zeros((size, width), dtype=np.float32)
    if len(places):
        threads = torch.get_num_threads()
        torch.set_num_threads(
            1
        )  # torch's sums follow the number of threads; more would save 5 % of the time
        try:
            found = left_vectors(positive_information(places, counts, size), min(width, size), seed)
        finally:
            torch.set_num_threads(threads)
        occur = np.unique(places // size)  # elsewhere rounding alone
        vectors[occur, : found.shape[1]] = found.numpy()[occur]
        vectors /= np.sqrt(np.square(vectors[occur]).mean()) or np.float32(1.0)
    return vectors


def count_pairs(ids: np.ndarray, size: int, window: int) -> tuple[np.ndarray, np.ndarray]:
    """(places w * size + c in ascending order, C[w, c] of each in float64), each pair counted in both directions."""
    found = [(np.zeros(0, np.int64), np.zeros(0))]
    for start in range(0, len(ids), _AT_ONCE):
        part = np.asarray(ids[start : start + _AT_ONCE]).astype(np.int64)
        for distance in range(1, min(window, len(part) - 1) + 1):
            left, right = part[:-distance], part[distance:]
            places, times = np.unique(left * size + right, return_counts=True)
            found.append((places, times / distance))
        found = [_summed(found)]
    places, counts = found[0]
    left, right = np.divmod(places, size)
    return _summed([(places, counts), (right * size + left, counts)])


def _summed(found: list[tuple[np.ndarray, np.ndarray]]) -> tuple[np.ndarray, np.ndarray]:
    """Each place once, with the sum of its counts."""
    places, counts = (np.concatenate(column) for column in zip(*found, strict=True))
    order = np.argsort(places, kind="stable")
    places, first = np.unique(places[order], return_index=True)
    return places, np.add.reduceat(counts[order], first) if len(first) else counts


def positive_information(places: np.ndarray, counts: np.ndarray, size: int) -> Tensor:
    """M as a sparse matrix.  -> (size, size) float32"""
    rows, columns = np.divmod(places, size)
    of_row = np.bincount(rows, counts, size)
    expected = of_row**POWER  # C is symmetric
    expected /= expected.sum()
    values = np.log(counts / (of_row[rows] * expected[columns]))
    kept = values > 0
    indices, known = np.stack([rows[kept], columns[kept]]), values[kept].astype(np.float32)
    parts = torch.from_numpy(indices), torch.from_numpy(known)
    return torch.sparse_coo_tensor(*parts, (size, size), is_coalesced=True, check_invariants=True)


def left_vectors(matrix: Tensor, width: int, seed: int) -> Tensor:
    """U S of the largest singular values, roughly (Halko et al. 2011, algorithms 4.4 and 5.1).  -> (V, width)

    An orthonormal basis Q of what the matrix makes of random directions holds U's span; S and U's coordinates in it
    are the eigenvalues' roots and the eigenvectors of Q^T M M^T Q.
    """
    generator = torch.Generator().manual_seed(derive_seed(seed, "counts") % (1 << 63))
    turned = matrix.T.coalesce()
    directions = min(width + MORE, len(matrix))
    basis = torch.linalg.qr(matrix @ torch.randn(len(matrix), directions, generator=generator)).Q
    for _ in range(PASSES):
        basis = torch.linalg.qr(matrix @ (turned @ basis)).Q
    seen = turned @ basis  # M^T Q
    squares, axes = torch.linalg.eigh(seen.T @ seen)
    largest = torch.arange(directions - 1, directions - width - 1, -1)
    return basis @ (axes[:, largest] * squares[largest].clamp_min(0.0).sqrt())
