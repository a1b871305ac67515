import pytest


@pytest.mark.parametrize(
    ("end", "steps", "expected"),
    [
        (None, 3, [0.8, 0.8, 0.8]),
        (1.2, 5, [0.8, 0.9, 1.0, 1.1, 1.2]),
        (0.0, 3, [0.8, 0.4, 0.0]),
        (1.2, 1, [0.8]),
    ],
)
def test_temperature_goes_linearly_from_the_first_new_token_to_the_last(
    settings, end, steps, expected
):
    chosen = settings(temperature=0.8, temperature_end=end)
    temperatures = [chosen.temperature_at(step, steps) for step in range(steps)]
    assert temperatures == pytest.approx(expected)
    assert temperatures[-1] == expected[-1]


def test_greedy_leaves_only_the_way_of_sliding(settings):
    chosen = settings(temperature=0.8, temperature_end=1.2, repetition_penalty=1.3, slide="one")
    assert chosen.greedy() == settings(temperature=0.0, slide="one")
