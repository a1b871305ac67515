"""The table of enhancements: one row for each that was measured, and no ratio where trials overlap."""

from tinylm.report.blocks import Table
from tinylm.report.enhancements import enhancements
from tinylm.report.sources import Run


def rows_of(run: Run) -> dict[str, tuple[str, ...]]:
    (table,) = [block for block in enhancements(run) if isinstance(block, Table)]
    return {row[0]: row[1:] for row in table.rows}


def test_each_enhancement_stands_beside_the_run_without_it(run):
    rows = rows_of(run)
    assert list(rows) == [
        "key-value cache", "beam search, width 10", "accumulation 8", "gradient checkpointing", "precision bf16"
    ]  # fmt: skip
    assert rows["key-value cache"] == (
        "none, 256 new tokens", "16 times the tokens/s", "72.0 MiB against 124 MiB",
        "the same tokens: yes; of 50 samples 50 the same, BLEU-4 4.10 and 4.10",
    )  # fmt: skip
    checkpointing = rows["gradient checkpointing"]
    assert checkpointing[0] == "storing all, 8 layers"
    assert checkpointing[1].endswith(" times the time of a step")
    assert checkpointing[3] == "the same gradients: yes"
    assert rows["beam search, width 10"][0] == "greedy decoding"
    assert "nats a text above greedy; BLEU-4 " in rows["beam search, width 10"][3]
    assert "words for each impossible one" in rows["beam search, width 10"][3]
    assert rows["accumulation 8"][3].count(" against ") == 2


def test_overlapping_trials_give_no_ratio(run):
    for row in run.found["kv_bench_time"]["settings"]:
        row |= {"low_tokens_per_s": 1.0, "high_tokens_per_s": 9000.0}
    assert rows_of(run)["key-value cache"][1] == "trials overlap"


def test_decoding_in_another_precision_is_compared_with_fp32(run):
    for row in run.found["beam_bench"]["methods"].values():
        row["against_fp32"] = {"same_tokens": 0.97}
    assert rows_of(run)["precision bf16"][3] == "decoding against fp32: same tokens 0.970"


def test_what_was_not_measured_has_no_row(run):
    for name in ("kv_bench_time", "beam_bench", "ckpt_bench_time"):
        run.found.pop(name)
    assert list(rows_of(run)) == ["accumulation 8", "precision bf16"]
    run.found.clear()
    assert enhancements(run) == []
