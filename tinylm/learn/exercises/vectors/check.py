"""Oracle: the definition. Random rows are checked by their statistics over many rows."""

import torch

from tinylm.learn.expect import expect, require

SPECIALS = ["<sos>", "<eos>", "<pad>", "<unk>"]
SMALL = {
    "vocabulary": [*SPECIALS, "cat", "dog", "emu"],
    "vectors": {"dog": [1.0, -2.0], "cat": [0.5, 3.0]},
}


def has_the_vectors(embedding_matrix):
    """a known word has its vector, in row i for id i"""
    matrix = embedding_matrix(SMALL["vocabulary"], SMALL["vectors"], 2, 1)
    require(isinstance(matrix, torch.Tensor) and matrix.shape == (7, 2), "the matrix must be (7, 2)",
            **SMALL, yours=matrix)  # fmt: skip
    require(matrix.dtype == torch.float32, "the matrix must be float32", "pass dtype=torch.float32",
            yours=matrix)  # fmt: skip
    for word in ("cat", "dog"):
        row = SMALL["vocabulary"].index(word)
        require(matrix[row].tolist() == SMALL["vectors"][word], f"row {row} is not the vector of {word}",
                "is row i the token with id i?", **SMALL, yours=matrix)  # fmt: skip


def padding_is_zero(embedding_matrix):
    """<pad> is a row of zeros, whatever the file has"""
    vectors = {**SMALL["vectors"], "<pad>": [9.0, 9.0], "<sos>": [9.0, 9.0]}
    matrix = embedding_matrix(SMALL["vocabulary"], vectors, 2, 1)
    require(not matrix[2].any(), "row 2 (<pad>) is not zero",
            "padding must add nothing, even if the file has a word <pad>", vectors=vectors, yours=matrix)  # fmt: skip
    is_copied = matrix[0].tolist() == [9.0, 9.0]
    require(not is_copied, "row 0 (<sos>) has the vector of a word", "a special token is no word",
            vectors=vectors, yours=matrix)  # fmt: skip


def the_rest_is_random(embedding_matrix):
    """rows without a vector differ from each other and are not zero"""
    matrix = embedding_matrix(SMALL["vocabulary"], SMALL["vectors"], 2, 1)
    others = matrix[[0, 1, 3, 6]]
    require(
        others.any(1).all(),
        "a row without a vector is zero",
        "only <pad> is zero",
        **SMALL,
        yours=matrix,
    )
    require(len(others.unique(dim=0)) == 4, "rows without a vector are equal", "draw each row",
            **SMALL, yours=matrix)  # fmt: skip


def has_the_scale(embedding_matrix):
    """random rows have mean 0 and the standard deviation of the known rows"""
    generator = torch.Generator().manual_seed(3)
    for scale in (0.1, 5.0):
        known = (torch.randn(50, 20, generator=generator) * scale).tolist()
        vectors = {f"w{i}": row for i, row in enumerate(known)}
        vocabulary = [*SPECIALS, *vectors, *(f"new{i}" for i in range(200))]
        vectors |= {f"other{i}": [9.0] * 20 for i in range(50)}
        drawn = embedding_matrix(vocabulary, vectors, 20, 1)[54:]
        expected = torch.tensor(known).std(correction=0).item()
        mean = drawn.mean().item()
        std = drawn.std().item()
        values = {"std of the known rows": expected, "mean of yours": mean, "std of yours": std}
        require(abs(std / expected - 1) < 0.1, "the scale of the random rows is wrong",
                "draw normal numbers with the std of the known rows; other words of the file do not count", **values)  # fmt: skip
        require(abs(mean) < 0.1 * expected, "their mean is not 0", "use normal numbers", **values)


def without_vectors(embedding_matrix):
    """without any vector the standard deviation is 0.02"""
    drawn = embedding_matrix([*SPECIALS, *map(str, range(300))], {}, 20, 1)[4:]
    std = drawn.std().item()
    require(abs(std / 0.02 - 1) < 0.1, f"the std of 300 rows is {std:.4g} instead of 0.02",
            "the std of no rows is nan; use 0.02 then")  # fmt: skip


def depends_on_the_seed(embedding_matrix):
    """equal seeds give equal rows, other seeds others"""
    first, again, other = (
        embedding_matrix(SMALL["vocabulary"], SMALL["vectors"], 2, s) for s in (1, 1, 2)
    )
    require(torch.equal(first, again), "two calls with seed 1 differ", "use a generator with the seed",
            first=first, second=again)  # fmt: skip
    require(not torch.equal(first[0], other[0]), "seeds 1 and 2 give the same rows", "the seed is not used",
            seed_1=first, seed_2=other)  # fmt: skip


def counts_coverage(coverage):
    """coverage is a share of the words, without special tokens"""
    expect(coverage, SMALL, 2 / 3, {"special tokens are no words": 2 / 7})
    expect(coverage, {"vocabulary": SPECIALS, "vectors": {}}, 0.0)
    expect(coverage, {"vocabulary": [*SPECIALS, "cat"], "vectors": {"cat": [1.0], "<pad>": [2.0]}}, 1.0,
           {"special tokens are no words": 2.0})  # fmt: skip
