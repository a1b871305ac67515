"""The pages that `dvc plots show` and `dvc plots diff` write: every chart, nothing from outside."""

import re
from pathlib import Path

import pytest

TITLES = {
    *("Loss", "Perplexity", "Learning rate", "Gradient norm", "Beam search", "Key-value cache"),
    *("Accumulation, equal tokens", "Gradient checkpointing"),
}
OUTSIDE = r"""<(?:script|link|img|iframe)[^>]*\s(?:src|href)=["']?(?:https?:)?//[^"'\s>]+"""


@pytest.fixture(scope="module")
def pages(clone) -> dict[str, Path]:
    """The pages of two commits that differ in the learning rate."""
    clone.set({"train.lr": 0.02})
    clone.repro("train")
    clone.commit("a larger learning rate")
    clone.dvc("plots", "show", "-o", "shown")
    clone.dvc("plots", "diff", "HEAD~1", "-o", "compared")
    return {name: clone.path / name / "index.html" for name in ("shown", "compared")}


@pytest.mark.parametrize("name", ["shown", "compared"])
def test_the_page_holds_the_charts_and_loads_nothing_from_outside(pages, name):
    text = pages[name].read_text(encoding="utf-8")
    assert {title for title in TITLES if f'"{title}"' not in text} == set()
    assert re.findall(OUTSIDE, text) == []
    assert "vegaEmbed" in text
    assert len(text) > 500_000  # Vega is inside


def test_both_commits_are_in_the_comparison(pages):
    assert '"rev": "HEAD~1"' in pages["compared"].read_text(encoding="utf-8")
    assert '"rev": "HEAD~1"' not in pages["shown"].read_text(encoding="utf-8")
