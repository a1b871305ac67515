"""Beam search, the cache and the pictures, from what the stages of a run wrote."""

import numpy as np
import pytest

from tests.recomputed.plain_run import PlainRun
from tests.recomputed.test_training import near
from tests.support.stages import read
from tinylm.report.pictures import PICTURES
from tinylm.report.sources import read_run


def test_texts_of_beam_search(finished_run):
    plain = PlainRun(finished_run)
    settings = plain.params["beam_bench"]
    model = plain.model()
    methods = {}
    for row in plain.table("data/beam_bench/outputs").to_dict("records"):
        start, new = (
            [plain.vocabulary.index(w) for w in row[k].split()] for k in ("prompt", "text")
        )
        new += [1] * (len(new) < settings["new_tokens"])  # the text has ended
        log_prob = -sum(plain.nats(model, [0, *start, *new])[len(start) :])
        assert row["log_prob"] == near(log_prob)
        assert row["score"] == near(log_prob / len(new) ** settings["length_penalty"])
        methods.setdefault(row["method"], []).append((log_prob, len(new)))
    found = plain.json("data/figures/beam_bench")["methods"]
    assert len({tokens for texts in methods.values() for _, tokens in texts}) > 1
    for name, texts in methods.items():
        total, tokens = np.sum(texts, axis=0)
        assert found[name]["log_prob_per_token"] == near(total / tokens)


@pytest.mark.parametrize("number", [1, 2])
def test_accumulation_at_equal_tokens_and_at_equal_updates(finished_run, number):
    found = read(finished_run / "data/figures/accum_sweep.json")
    updates = found["equal_updates"]
    plain = PlainRun(
        finished_run,
        accumulation=number,
        batch_size=2,
        unknown=0.0,
        tokens=found["budget_tokens"],
        validate_every=updates,
    )
    run = plain.training
    losses = {update: loss for update, _, loss in run.held_out}
    row = found["settings"][str(number)]
    assert 0 <= row.pop("bleu") <= 1
    assert row == {
        "updates": len(run.loss),
        "held_out_loss_at_equal_tokens": near(run.held_out[-1][2]),
        "held_out_loss_at_equal_updates": near(losses[updates]),
    }
    counts = range(1, len(run.loss) + 1)
    axes = {
        "micro_step": [number * count for count in counts],
        "update": counts,
        "tokens": run.tokens,
    }
    for axis, places in axes.items():
        table = plain.table(f"plots/accum_{axis.removesuffix('s')}s")
        rows = table.loc[table["series"] == f"accumulation {number}", [axis, "value"]]
        np.testing.assert_allclose(rows.to_numpy(), np.column_stack([places, run.loss]), rtol=1e-4)


def test_pictures_and_metrics_have_the_numbers_of_the_tables(finished_run):
    plain = PlainRun(finished_run)
    run = read_run(plain.folder, plain.params)

    def lines(name):
        axes = PICTURES[name](run).drawing.axes[0]
        return {line.get_label(): line.get_xydata().tolist() for line in axes.lines}

    for name, table in (("loss_tokens", "loss"), ("perplexity", "perplexity")):
        for series, rows in plain.table(f"plots/{table}").groupby("series"):
            assert lines(name)[series] == rows[["tokens", "value"]].to_numpy().tolist()
    rows = plain.json("data/times/kv_bench")["settings"]
    for row in rows:
        series = "cache" if row["cache"] else "no cache"
        for name, column in (("kv_speed", "tokens_per_s"), ("kv_memory", "peak_mib")):
            assert [row["new_tokens"], row[column]] in lines(name)[series]
    off, on = rows[-2:]  # of the longest texts
    speedup = pytest.approx(on["tokens_per_s"] / off["tokens_per_s"], abs=0.006)
    assert plain.json("metrics/kv/on")["speedup"] == speedup
