import pytest

from tests.bench.conftest import results
from tests.support.stages import read
from tinylm.bench import ckpt
from tinylm.host.command import CommandFailed


def test_losses_and_weights_are_the_same_with_less_memory(finished_run):
    found, times = results(finished_run, "ckpt_bench")
    assert (found["same_losses"], found["same_weights"]) == (True, True)
    plain, recomputed = times["settings"]
    assert (plain["recompute"], recomputed["recompute"]) == (False, True)
    assert recomputed["peak_mib"] < plain["peak_mib"]
    for row, way in ((plain, "off"), (recomputed, "on")):
        shown = read(finished_run / f"metrics/ckpt/{way}.json")
        assert shown == {name: row[name] for name in ("epoch_s", "peak_mib")}


PLAIN = {"curve": [(1, 9, 4.0), (2, 18, 3.5)], "weights": "a"}


@pytest.mark.parametrize(
    ("changed", "named"),
    [({"curve": [(1, 9, 4.0), (2, 18, 3.6)]}, "update 2"), ({"weights": "b"}, "weights")],
)
def test_another_loss_or_weight_fails(changed, named):
    with pytest.raises(CommandFailed, match=named):
        ckpt.compare([PLAIN, PLAIN | changed])
