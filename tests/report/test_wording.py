"""Numbers as people read them."""

import math

import pytest

from tinylm.report import wording

CASES = [
    (wording.number, 9.996, "10.0"),
    (wording.number, 9.81, "9.81"),
    (wording.number, 5102.4, "5,102"),
    (wording.number, 2.1e-7, "2.10e\N{MINUS SIGN}07"),
    (wording.number, -3.4, "\N{MINUS SIGN}3.40"),
    (wording.number, 0, "0"),
    (wording.number, math.nan, wording.ABSENT),
    (wording.loss, -0.0001, "0.000"),
    (wording.share, 0.1234, "12.3 %"),
    (wording.seconds, 0.52, "0.52 s"),
    (wording.seconds, 200, "3 min 20 s"),
    (wording.seconds, 7500, "2 h 5 min"),
    (wording.mebibytes, 8192, "8.00 GiB"),
    (wording.bytes_, 3 * 2**20, "3.00 MiB"),
    (wording.big, 3.1e6, "3.10 million"),
    (wording.setting, [1, 2], "1, 2"),
    (
        wording.share_with_interval,
        {"value": 0.5, "low": 0.4, "high": 0.6},
        "50.0 % (40.0 % to 60.0 %)",
    ),
    (wording.with_interval, {"value": 9.81, "low": 9.6, "high": 10.0}, "9.81 (9.60 to 10.0)"),
]


@pytest.mark.parametrize(("written", "value", "expected"), CASES)
def test_formats(written, value, expected):
    assert written(value) == expected
