import math

import pytest

from tinylm.base.config import InputError
from tinylm.train.schedules import EarlyStopping, EpochCheckpoints, learning_rate


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
    ("patience", "losses", "improved", "best"),
    [
        (2, [5.0, 4.0, 4.5, 3.0, 3.0, 3.5], [1, 1, 0, 1, 0, 0], (3.0, 30, True)),
        (None, [1.0] + [2.0] * 50, [1] + [0] * 50, (1.0, 0, False)),
        (3, [math.nan, 2.0, math.nan, math.inf], [0, 1, 0, 0], (2.0, 10, False)),
    ],
    ids=["patience", "never", "not finite"],
)
def test_patience_runs_out_after_validations_in_a_row_without_a_better_one(
    patience, losses, improved, best
):
    stopping = EarlyStopping(patience)
    for update, loss in enumerate(losses):
        assert not stopping.should_stop
        assert stopping.observe(loss, 10 * update) == improved[update]
    assert (stopping.best, stopping.best_update, stopping.should_stop) == best


def test_an_epoch_is_almost_reached_to_within_two_per_cent():
    epochs = EpochCheckpoints((0.5, 1.0), 1000, 1000)
    assert epochs.almost_reached(980, 1000) == [1.0]
    assert epochs.almost_reached(979, 1000) == epochs.almost_reached(1000, 1000) == []


@pytest.mark.parametrize("epochs", [(1e-9, 1.0), (0.25, 2.01)])
def test_an_epoch_without_a_token_or_beyond_the_end_is_refused(epochs):
    with pytest.raises(InputError, match=r"train\.keep_epochs"):
        EpochCheckpoints(epochs, 1000, 2000)
