"""Five roles of attention heads, and which pairs of tokens each is about."""

import numpy as np

POSITIONAL = ("previous token", "first token")  # the roles that depend on positions alone
NEXT_TOKEN = "earlier occurrence of the next token"
ROLES = (*POSITIONAL, "same token", "induction", NEXT_TOKEN)
RolePairs = dict[str, np.ndarray]


def role_pairs(ids: np.ndarray, is_text: np.ndarray) -> RolePairs:
    """For each role the pairs (query, key) of a row of ids (T,): (P, 2), each key before its query.

    previous token  any token -> the one before it
    first token     any token but the second -> the row's first
    same token      any token -> all its earlier occurrences
    induction       any token -> the tokens after its earlier occurrences (Olsson et al. 2022)
    NEXT_TOKEN      any token -> all earlier occurrences of the token that follows it in the row

    The model does not see the next token, so a head with the last role has found out what can come
    next; it can then copy that token to the output.
    Special tokens, where is_text (T,) is False, are left out; a row's first token may be one.
    """
    earlier = text_before_text(is_text)
    is_previous = np.eye(len(ids), k=-1, dtype=bool)
    is_same = earlier & (ids == ids[:, None])
    follows_same = np.zeros_like(is_same)
    follows_same[:, 1:] = is_same[:, :-1]
    is_next = np.zeros_like(is_same)
    is_next[:-1] = earlier[:-1] & (ids == ids[1:, None])
    queries = np.flatnonzero(is_text)
    queries = queries[queries > 1]
    return {
        "previous token": np.argwhere(earlier & is_previous),
        "first token": np.column_stack([queries, np.zeros_like(queries)]),
        "same token": np.argwhere(is_same),
        "induction": np.argwhere(earlier & follows_same),
        NEXT_TOKEN: np.argwhere(is_next),
    }


def text_before_text(is_text: np.ndarray) -> np.ndarray:
    """(T, T) [query, key]: whether both tokens are text and the key is before the query."""
    is_before = np.tri(len(is_text), k=-1, dtype=bool)
    return is_before & is_text & is_text[:, None]
