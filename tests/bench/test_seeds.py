from tinylm.bench.seeds import METRICS, merge


def test_one_seed_has_no_spread():
    assert merge({1: dict.fromkeys(METRICS, 2.0)})["perplexity"] == {"mean": 2.0}
