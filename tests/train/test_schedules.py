import math

import pytest

from tinylm.train.schedules import EarlyStopping, learning_rate


@pytest.mark.parametrize(
    ("progress", "rate"),
    [
        (0.0, 0.0),
        (0.05, 1.0),
        (0.1, 2.0),
        (0.2, 4.0),
        (0.4, 3.472792206135786),  # 4 (0.1 + 0.9 (1 + cos(pi / 4)) / 2)
        (0.6, 2.2),
        (0.8, 0.9272077938642146),
        (1.0, 0.4),
        (1.3, 0.4),
    ],
)
def test_cosine_rate_by_value(progress, rate):
    assert learning_rate(progress, 4.0, 0.2, "cosine", 0.1) == pytest.approx(rate, rel=1e-12)


@pytest.mark.parametrize(
    ("progress", "rate"), [(0.0, 0.0), (0.1, 2.0), (0.2, 4.0), (0.6, 4.0), (1.0, 4.0)]
)
def test_constant_rate_by_value(progress, rate):
    assert learning_rate(progress, 4.0, 0.2, "constant", 0.1) == pytest.approx(rate, rel=1e-12)


@pytest.mark.parametrize(("schedule", "end"), [("cosine", 0.0), ("constant", 4.0)])
def test_without_warmup_the_rate_starts_at_its_peak(schedule, end):
    assert learning_rate(0.0, 4.0, 0.0, schedule, 0.0) == 4.0
    assert learning_rate(1.0, 4.0, 0.0, schedule, 0.0) == pytest.approx(end, abs=1e-15)


def observe(patience, losses):
    stopping, news = EarlyStopping(patience), []
    for update, loss in enumerate(losses):
        news.append(stopping.observe(loss, 10 * update))
        if stopping.should_stop:
            break
    return stopping, news


def test_it_stops_after_so_many_validations_in_a_row_without_better():
    stopping, news = observe(2, [5.0, 4.0, 4.5, 3.0, 3.0, 3.5, 1.0])
    assert news == [True, True, False, True, False, False]
    assert (stopping.best, stopping.best_update, stopping.should_stop) == (3.0, 30, True)


def test_equal_is_not_better():
    assert observe(1, [2.0, 2.0])[0].should_stop


def test_without_patience_it_never_stops_and_still_knows_the_best():
    stopping, news = observe(None, [1.0] + [2.0] * 50)
    assert len(news) == 51
    assert not stopping.should_stop
    assert (stopping.best, stopping.best_update) == (1.0, 0)


def test_a_loss_that_is_no_number_is_never_the_best():
    stopping, news = observe(3, [math.nan, 2.0, math.nan, math.inf])
    assert news == [False, True, False, False]
    assert (stopping.best, stopping.best_update) == (2.0, 10)
