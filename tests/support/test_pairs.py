from itertools import combinations, product

from tests.support.pairs import pairs


def test_every_two_values_meet_in_few_rows():
    parameters = ["abc", range(3), [(1,), {}, None, []], "xyz"]
    rows = pairs(*parameters)
    assert rows == pairs(*parameters)
    assert 12 <= len(rows) <= 15 < 108
    for first, second in combinations(range(4), 2):
        met = [(row[first], row[second]) for row in rows]
        assert all(pair in met for pair in product(parameters[first], parameters[second]))
