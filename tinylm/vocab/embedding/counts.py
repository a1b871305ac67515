"""Word vectors from counts of neighbours: seconds instead of skip-gram's minutes.

C[w, c] counts how often c is at most `window` tokens away from w, a pair at distance d as 1 / d
(Pennington et al. 2014, section 4.2). M = max(0, log(p(c | w) / q(c))). q(c) is the share of c's
counts to the power 0.5, so that rare neighbours do not weigh too much (Levy, Goldberg and Dagan
2015, equations 2 and 3). U S V^T approximates M by its largest singular values. A word's vector is
its row of U S (Levy and Goldberg 2014, section 5.3, with S to the power 1).
"""

import numpy as np
import torch
from torch import Tensor

from tinylm.base.seeding import derive_seed

WINDOW = 5  # neighbours on each side
CONTEXT_SMOOTHING = 0.5  # exponent; of 0, 0.25, 0.4, 0.5, 0.75 and 1 the best with 0.4; see docs/explanation/recipe.md
OVERSAMPLING = 20  # for randomized SVD (Halko et al. 2011)
POWER_ITERATIONS = 1  # without one, losses after 125,000 tokens were 0.1 nats higher
TOKENS_AT_ONCE = 4_000_000  # whose pairs are sorted together

Pairs = tuple[np.ndarray, np.ndarray]  # keys w * size + c, ascending; C[w, c] of each, float64


def count_vectors(ids: np.ndarray, size: int, width: int, window: int, seed: int) -> np.ndarray:
    """(size, width) float32 of mean square 1 over the ids that occur; other rows are zero.

    The same bits on any number of cores: torch's sums depend on the number of threads, so there is
    one.
    """
    keys, counts = count_pairs(ids, size, window)
    vectors = np.zeros((size, width), np.float32)
    if not len(keys):
        return vectors
    columns = min(width, size)
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        information = positive_information(keys, counts, size)
        left = left_vectors(information, columns, seed).numpy()
    finally:
        torch.set_num_threads(threads)
    occurring = np.unique(keys // size)
    vectors[occurring, :columns] = left[occurring]
    mean_square = np.square(vectors[occurring]).mean()
    return vectors / (np.sqrt(mean_square) or np.float32(1.0))


def count_pairs(ids: np.ndarray, size: int, window: int) -> Pairs:
    """The pairs within the window, each counted in both directions."""
    total: Pairs = (np.zeros(0, np.int64), np.zeros(0))
    for start in range(0, len(ids), TOKENS_AT_ONCE):
        end = min(start + TOKENS_AT_ONCE, len(ids))
        part = np.asarray(ids[start : end + window], dtype=np.int64)  # with what follows its end
        counted = [total]
        for distance in range(1, min(window, len(part) - 1) + 1):
            second = part[distance:][: end - start]
            pairs = part[: len(second)] * size + second
            keys, times = np.unique(pairs, return_counts=True)
            counted.append((keys, times / distance))
        total = _sum_pairs(counted)
    keys, counts = total
    left, right = np.divmod(keys, size)
    return _sum_pairs([total, (right * size + left, counts)])


def _sum_pairs(counted: list[Pairs]) -> Pairs:
    """Each key once, with the sum of its counts."""
    keys = np.concatenate([keys for keys, _ in counted])
    counts = np.concatenate([counts for _, counts in counted])
    if not len(keys):
        return keys, counts
    order = np.argsort(keys, kind="stable")
    keys, first = np.unique(keys[order], return_index=True)
    return keys, np.add.reduceat(counts[order], first)


def positive_information(keys: np.ndarray, counts: np.ndarray, size: int) -> Tensor:
    """M as a sparse matrix.  -> (size, size) float32"""
    rows, columns = np.divmod(keys, size)
    row_sums = np.bincount(rows, counts, size)
    expected = row_sums**CONTEXT_SMOOTHING  # C is symmetric
    expected /= expected.sum()
    values = np.log(counts / (row_sums[rows] * expected[columns]))
    positive = values > 0
    indices = np.stack([rows[positive], columns[positive]])
    information = values[positive].astype(np.float32)
    return torch.sparse_coo_tensor(
        torch.from_numpy(indices),
        torch.from_numpy(information),
        (size, size),
        is_coalesced=True,
        check_invariants=True,
    )


def left_vectors(matrix: Tensor, width: int, seed: int) -> Tensor:
    """U S of the largest singular values, roughly (Halko et al. 2011, algorithms 4.4 and 5.1).

    -> (V, width). The span of U is that of an orthonormal basis Q of what the matrix makes of
    random directions. S and U's coordinates in Q are the eigenvalues' roots and the eigenvectors of
    Q^T M M^T Q.
    """
    generator = torch.Generator().manual_seed(derive_seed(seed, "counts"))
    transposed = matrix.T.coalesce()
    directions = min(width + OVERSAMPLING, len(matrix))
    start = torch.randn(len(matrix), directions, generator=generator)
    basis = torch.linalg.qr(matrix @ start).Q
    for _ in range(POWER_ITERATIONS):
        basis = torch.linalg.qr(matrix @ (transposed @ basis)).Q
    projected = transposed @ basis  # M^T Q
    squares, axes = torch.linalg.eigh(projected.T @ projected)
    largest = torch.arange(directions - 1, directions - width - 1, -1)
    singular_values = squares[largest].clamp_min(0.0).sqrt()
    return basis @ (axes[:, largest] * singular_values)
