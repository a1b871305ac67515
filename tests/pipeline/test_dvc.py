"""The pipeline under DVC: from nothing, unchanged, after an edit and back, shown."""

import re
import shutil

from tests.support.clone import ROOT
from tinylm.base.config import read_yaml

STAGES = set(read_yaml(ROOT / "dvc.yaml")["stages"])


def test_from_nothing_every_stage_runs(first_run, base):
    assert first_run == STAGES
    assert [path for path in base.path.rglob(".*.tmp*") if ".dvc" not in path.parts] == []


def test_unchanged_nothing_runs_and_dvc_status_says_so(clone):
    assert clone.repro() == set()
    assert "up to date" in clone.dvc("status")
    assert clone.run("git", "status", "--porcelain").stdout == ""


def test_a_wrong_value_stops_before_any_work_and_the_way_back_trains_nothing(clone, base):
    clone.set({"model.layers": "wrong"})
    assert "params.yaml: model.layers: " in clone.dvc("repro", code=255)
    shutil.copy(base.path / "params.yaml", clone.path / "params.yaml")
    assert clone.repro() == set()
    assert clone.metrics() == base.metrics()


def test_metrics_show_what_the_assignment_asks_for(base):
    shown = base.dvc("metrics", "show", COLUMNS="140")
    assert max(len(line.rstrip()) for line in shown.splitlines()) <= 140
    header, *rows = (re.split(r" {2,}", line.strip()) for line in shown.splitlines())
    table = {row[0]: dict(zip(header, row, strict=True)) for row in rows}
    asked = {
        "evaluate": ["samples_bleu"], "train": ["val_loss", "epoch_s"], "kv/on": ["speedup", "tokens/s", "peak_mib"],
        **{f"beam/{width}": ["bleu", "tokens/s"] for width in (1, 2)},
        **{f"{row}": ["epoch_s", "peak_mib"] for row in ("accum/1", "accum/2", "ckpt/off", "ckpt/on")},
    }  # fmt: skip
    for row, metrics in asked.items():
        cells = table[f"metrics/{row}.json"]
        assert all(float(cells[metric]) >= 0 for metric in metrics), row


TITLES = {
    *("Loss", "Perplexity", "Learning rate", "Gradient norm", "Beam search", "Key-value cache"),
    *("Accumulation, equal tokens", "Gradient checkpointing"),
}
OUTSIDE = r"""<(?:script|link|img|iframe)[^>]*\s(?:src|href)=["']?(?:https?:)?//[^"'\s>]+"""


def test_plots_of_two_commits_are_compared_in_pages_that_load_nothing_from_outside(clone):
    clone.set({"train.lr": 0.02})
    clone.repro("train")
    clone.dvc("plots", "diff", "HEAD", "-o", "compared")
    text = (clone.path / "compared/index.html").read_text(encoding="utf-8")
    assert {title for title in TITLES if f'"{title}"' not in text} == set()
    assert re.findall(OUTSIDE, text) == []
    assert "vegaEmbed" in text
