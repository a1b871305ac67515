"""The pages that `dvc plots show` and `dvc plots diff` write: every chart there, nothing loaded from outside."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

TITLES = {
    "Loss", "Perplexity", "Learning rate", "Gradient norm", "Beam search", "Key-value cache",
    "Accumulation, equal tokens", "Gradient checkpointing"
}  # fmt: skip
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
def test_nothing_is_loaded_from_outside(pages, name):
    text = pages[name].read_text(encoding="utf-8")
    assert re.findall(OUTSIDE, text) == []
    assert "@import" not in text
    assert "vegaEmbed" in text
    assert len(text) > 500_000  # Vega is inside


@pytest.mark.parametrize("name", ["shown", "compared"])
def test_the_page_holds_the_charts(pages, name):
    text = pages[name].read_text(encoding="utf-8")
    assert {title for title in TITLES if f'"{title}"' not in text} == set()
    assert "<DVC_METRIC" not in text


def test_both_commits_are_in_the_comparison(pages):
    assert '"rev": "HEAD~1"' in pages["compared"].read_text(encoding="utf-8")
    assert '"rev": "HEAD~1"' not in pages["shown"].read_text(encoding="utf-8")


@pytest.mark.skipif(not shutil.which("chromium"), reason="no chromium")
def test_the_charts_are_drawn_in_a_browser(pages, tmp_path):
    import matplotlib.image

    picture = tmp_path / "page.png"
    words = [
        "chromium",
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        f"--user-data-dir={tmp_path / 'profile'}",
    ]
    words += [
        "--host-resolver-rules=MAP * ~NOTFOUND",
        "--virtual-time-budget=15000",
        "--window-size=1000,3000",
    ]
    page = pages["compared"].as_uri()
    dom = subprocess.run(
        [*words, "--dump-dom", page], capture_output=True, text=True, timeout=120
    ).stdout
    assert dom.count('class="marks"') >= len(TITLES)
    subprocess.run([*words, f"--screenshot={picture}", page], capture_output=True, timeout=120)
    pixels = matplotlib.image.imread(picture)[..., :3]
    assert pixels.shape[:2] == (3000, 1000)
    drawn = (pixels < 0.9).any(axis=2)
    assert drawn.mean() > 0.005
    coloured = (pixels.max(axis=2) - pixels.min(axis=2)) > 0.3  # the curves
    assert coloured.sum() > 200


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ('<script src="https://cdn.jsdelivr.net/npm/vega@5"></script>', 1),
        ("<img src='//example.org/a.png'>", 1),
        ('<script>let a = "https://vega.github.io/schema"</script>', 0),
        ('<img src="static/a.png">', 0),
    ],
)
def test_the_search_for_loaded_addresses(text, found):
    assert len(re.findall(OUTSIDE, text)) == found
