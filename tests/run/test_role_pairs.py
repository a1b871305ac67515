import numpy as np

from tinylm.run.role_pairs import NEXT_TOKEN, ROLES, role_pairs


def test_pairs_of_a_story_without_its_special_tokens():
    ids = np.array([0, 7, 8, 7, 3, 7, 8, 8])
    pairs = role_pairs(ids, ids > 3)
    assert {
        role: [tuple(pair) for pair in of_role.tolist()] for role, of_role in pairs.items()
    } == {
        "previous token": [(2, 1), (3, 2), (6, 5), (7, 6)],
        "first token": [(2, 0), (3, 0), (5, 0), (6, 0), (7, 0)],
        "same token": [(3, 1), (5, 1), (5, 3), (6, 2), (7, 2), (7, 6)],
        "induction": [(3, 2), (5, 2), (6, 3), (7, 3)],
        NEXT_TOKEN: [(2, 1), (5, 2), (6, 2)],
    }
    assert set(pairs) == set(ROLES)
