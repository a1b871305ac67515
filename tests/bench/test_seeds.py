import pytest

from tinylm.base.config import InputError, read_section
from tinylm.bench.measure import SeedSettings
from tinylm.bench.seeds import METRICS, merge


def metrics(value: float) -> dict:
    return {name: value * (place + 1) for place, name in enumerate(METRICS)}


def test_one_seed_has_no_spread():
    assert merge({1: metrics(2.0)})["perplexity"] == {"mean": 2.0}


def test_further_seeds_are_all_different():
    assert read_section({"seeds": {"more": []}}, "seeds", SeedSettings).more == ()
    with pytest.raises(InputError, match=r"seeds\.more"):
        read_section({"seeds": {"more": [2, 3, 2]}}, "seeds", SeedSettings)
