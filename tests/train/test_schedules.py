import pytest

from tinylm.train.trainer import learning_rate
from tinylm.train.validation import out_of_patience


@pytest.mark.parametrize(
    ("schedule", "rates"),
    [
        # at 0.4: 4 (0.1 + 0.9 (1 + cos(pi / 4)) / 2)
        ("cosine", {0.0: 0.0, 0.1: 2.0, 0.2: 4.0, 0.4: 3.472792206135786, 1.0: 0.4, 1.3: 0.4}),
        ("constant", {0.0: 0.0, 0.1: 2.0, 0.2: 4.0, 0.6: 4.0, 1.0: 4.0}),
    ],
)
def test_the_rate_by_value(schedule, rates):
    for progress, rate in rates.items():
        assert learning_rate(progress, 4.0, 0.2, schedule, 0.1) == pytest.approx(rate, rel=1e-12)
    assert learning_rate(0.0, 4.0, 0.0, schedule, 0.1) == 4.0  # without warmup


@pytest.mark.parametrize(
    ("patience", "losses", "ends_at"),
    [(2, [5.0, 4.0, 4.5, 3.0, 3.0, 3.5], 50), (None, [1.0] + [2.0] * 50, None)],
)
def test_patience_runs_out_after_validations_in_a_row_without_a_better_one(
    patience, losses, ends_at
):
    """Validations at odd updates, the ends of epochs, do not count."""
    held_out = []
    ends = []
    for number, loss in enumerate(losses):
        held_out += [(10 * number, 0, loss), (10 * number + 1, 0, 9.0)]
        if out_of_patience(held_out, patience, validate_every=10):
            ends.append(10 * number)
    assert ends == ([] if ends_at is None else [ends_at])
