import math

from tinylm.training.stopping import EarlyStopping


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
