"""What the how-to pages on DVC promise, each done once: a queue, imports, the lab page, the displays."""

import json
import re
import sys

import pytest

from tests.support.clone import Clone

COLUMNS = {"COLUMNS": "100"}


def widest(text: str) -> int:
    return max(len(line.rstrip()) for line in text.splitlines())


def test_metrics_show_what_the_assignment_asks_for_in_100_columns(base):
    shown = base.dvc("metrics", "show", **COLUMNS)
    assert widest(shown) <= 100
    header, *rows = (re.split(r" {2,}", line.strip()) for line in shown.splitlines())
    table = {row[0]: dict(zip(header, row, strict=True)) for row in rows}
    asked = {
        "evaluate": ["perplexity"], "train": ["val_loss", "epoch_s"], "kv/on": ["speedup", "tokens/s", "peak_mib"],
        **{f"beam/{width}": ["bleu", "tokens/s"] for width in (1, 2)},
        **{f"{row}": ["epoch_s", "peak_mib"] for row in ("accum/1", "accum/2", "ckpt/off", "ckpt/on")},
    }  # fmt: skip
    for row, metrics in asked.items():
        cells = table[f"metrics/{row}.json"]
        assert all(float(cells[metric]) >= 0 for metric in metrics), row


def test_queued_experiments_are_shown_in_100_columns_and_change_one_line(clone):
    for name, rate in (("slow", "1e-3"), ("fast", "0.05")):
        clone.dvc("exp", "run", "--queue", "-n", name, "-S", f"train.lr={rate}", "evaluate")
    clone.dvc("exp", "run", "--run-all")
    options = ["--only-changed", "--drop", "data/", "--drop", "metrics/", "--no-pager"]
    shown = clone.dvc("exp", "show", *options, **COLUMNS)
    assert widest(shown) <= 100
    assert all(word in shown for word in ("slow", "fast", "val_loss", "perplexity", "train.lr"))
    assert json.loads(clone.dvc("exp", "show", "--json"))  # what the extension of VS Code reads
    clone.dvc("exp", "apply", "fast")
    changed = clone.run("git", "diff", "-U0", "params.yaml").stdout.splitlines()[4:]
    assert [line[:6] for line in changed if line[0] in "+-"] == ["-  lr:", "+  lr:"]
    for command in (["metrics", "diff"], ["params", "diff"]):
        assert widest(clone.dvc(*command, **COLUMNS)) <= 100
    plots = clone.dvc("plots", "diff", "HEAD", "--json")
    assert json.loads(plots[plots.index("{") :]).get("errors", []) == []


@pytest.fixture
def colleague(base, tmp_path) -> Clone:
    """A clone without results."""
    copy = Clone(tmp_path / "colleague")
    copy.install_python()
    base.run("git", "clone", "-q", str(base.path), str(copy.path))
    return copy


def test_a_model_is_imported_and_the_lab_page_fetched(base, colleague):
    theirs = colleague.path / "inputs/theirs"
    (theirs / "data").mkdir(parents=True)
    colleague.dvc("import", str(base.path), "models", "-o", "inputs/theirs/models")
    colleague.dvc("import", str(base.path), "data/vocab", "-o", "inputs/theirs/data/vocab")
    words = [
        "-m",
        "tinylm.cli",
        "generate",
        "--models",
        "inputs/theirs/models",
        "--max-tokens",
        "3",
    ]
    assert colleague.run(sys.executable, *words, "one day").stdout.startswith("one day")
    colleague.dvc("get", str(base.path), "report/lab.html", "-o", "lab.html")
    page = (colleague.path / "lab.html").read_bytes()
    assert page == (base.path / "report/lab.html").read_bytes()
