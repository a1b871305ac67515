"""A run as it is recorded: every metric, thin curves, and its figures by name."""

from tinylm.report.figures import at
from tinylm.report.library import POINTS, gather, of_run, thin
from tinylm.report.sources import STAGES, read_run


def test_everything_measured_is_kept(run):
    entry = gather(run)
    assert set(entry["metrics"]) == {*STAGES, *(f"{stage}_time" for stage in STAGES)}
    assert entry["conditions"]["cpu"] == "Example CPU"
    assert [point[0] for point in entry["curves"]["held_out"]] == [50, 100]
    assert len(entry["samples"]) == 3
    assert {row["method"] for row in entry["beams"]} == {
        "sampling",
        "greedy",
        "beam 1",
        "beam 5",
        "beam 10",
    }


def test_what_a_run_lacks_is_left_out(tmp_path, params):
    entry = gather(read_run(tmp_path, params))
    assert entry["metrics"] == {}
    assert entry["curves"] == {"train": [], "held_out": []}
    assert entry["beams"] == []


def test_curves_are_thinned_but_keep_their_end_and_the_validated_steps():
    points = [[step, 10 * step, 1.0] for step in range(1, 1001)]
    found = [point[0] for point in thin(points, {77, 500})]
    assert len(found) <= POINTS + 3
    assert {1, 77, 500, 1000} <= set(found)
    assert found == sorted(found)
    assert thin([]) == []
    assert thin(points[:5]) == points[:5]


def test_metrics_params_and_curves_are_read_by_name(run, params):
    ours = of_run(run)
    assert ours.train.parameters == 944384
    assert ours.params.train.batch_size == params["train"]["batch_size"]
    assert 1.5 < at(ours.curves.held_out, 100) < 2.5
