import pytest

from tinylm.training.schedules import learning_rate


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


@pytest.mark.parametrize(("progress", "rate"), [(0.0, 0.0), (0.1, 2.0), (0.2, 4.0), (0.6, 4.0), (1.0, 4.0)])
def test_constant_rate_by_value(progress, rate):
    assert learning_rate(progress, 4.0, 0.2, "constant", 0.1) == pytest.approx(rate, rel=1e-12)


@pytest.mark.parametrize(("schedule", "end"), [("cosine", 0.0), ("constant", 4.0)])
def test_without_warmup_the_rate_starts_at_its_peak(schedule, end):
    assert learning_rate(0.0, 4.0, 0.0, schedule, 0.0) == 4.0
    assert learning_rate(1.0, 4.0, 0.0, schedule, 0.0) == pytest.approx(end, abs=1e-15)
