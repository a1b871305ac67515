"""The pages are plain English, keep to their word budgets, and the generated ones are current."""

import json
import re
from pathlib import Path

import pytest

from tests.support import pages, size

# Words of each page at most, without its generated parts; the root's and those of docs/ together at most TOTAL.
TOTAL = 22_400
BUDGETS = {
    "AGENTS.md": 325,
    "ARCHITECTURE.md": 1_830,
    "CHANGELOG.md": 1_335,
    "CONTRIBUTING.md": 625,
    "README.md": 725,
    "SECURITY.md": 450,
    "benchmarks/README.md": 350,
    "docs/README.md": 550,
    "docs/explanation/decisions.md": 400,
    "docs/explanation/evaluation.md": 725,
    "docs/explanation/recipe.md": 650,
    "docs/explanation/speed.md": 475,
    "docs/how-to/analyse.md": 450,
    "docs/how-to/compare.md": 475,
    "docs/how-to/distributed.md": 450,
    "docs/how-to/dvc.md": 275,
    "docs/how-to/experiments.md": 375,
    "docs/how-to/export.md": 750,
    "docs/how-to/generate.md": 325,
    "docs/how-to/hand-in.md": 400,
    "docs/how-to/lab.md": 550,
    "docs/how-to/own-data.md": 675,
    "docs/how-to/published-systems.md": 350,
    "docs/how-to/publish.md": 325,
    "docs/how-to/python.md": 375,
    "docs/how-to/queue.md": 250,
    "docs/how-to/recover.md": 250,
    "docs/how-to/remote.md": 300,
    "docs/how-to/sweeps.md": 600,
    "docs/how-to/troubleshooting.md": 575,
    "docs/log/2026-11.md": 400,
    "docs/reference/benchmarks.md": 645,
    "docs/reference/faults.md": 475,
    "docs/reference/glossary.md": 400,
    "docs/reference/gpu.md": 585,
    "docs/reference/pipeline.md": 825,
    "docs/reference/platforms.md": 400,
    "docs/reference/results.md": 650,
    "docs/teach.md": 1_050,
    "docs/tutorial/first-run.md": 525,
    "docs/tutorial/one-story.md": 1_850,
    "inputs/README.md": 125,
    "studies/README.md": 300,
}
BANNED = re.compile(
    r"\b(?:in place of|is said|are said|as said|says|asks|tells|knows|wants|mends?|mended"
    r"|by count|beside|figures?|no reason|becomes no|at hand|unasked)\b",
    re.IGNORECASE,
)
LONGEST = 25  # words of a sentence; the style guide asks for 22
CODE = re.compile(r"^ *```.*?^ *```$", re.MULTILINE | re.DOTALL)
TEXTS = {name: (size.ROOT / name).read_text("utf-8") for name in size.pages()}
BY_HAND = {name: size.written(text) for name, text in TEXTS.items() if size.written(text)}


def prose(text: str) -> str:
    """The text without blocks of code, and with a single word for each piece of code in it."""
    return re.sub(r"`[^`]*`", "X", CODE.sub("", text))


def sentences(text: str) -> list[str]:
    """The sentences of paragraphs and lists; not those of tables, headings and quotations."""
    lines = prose(text).splitlines()
    kept = "\n".join(line for line in lines if not line.startswith(("|", "#", ">", "!")))
    found = []
    for part in re.split(r"\n\s*\n|\n *[-*] ", re.sub(r"\]\([^)]*\)", "]", kept)):
        found += re.split(r"(?<=[.!?:;])\s+", " ".join(part.split()))
    return found


def test_every_page_has_a_budget_and_keeps_it():
    """A new page gets a row above, and a place in docs/README.md and mkdocs.yml."""
    words = {name: len(text.split()) for name, text in BY_HAND.items()}
    assert sorted(words) == sorted(BUDGETS)
    assert {name: count for name, count in words.items() if count > BUDGETS[name]} == {}
    of_folders = ("benchmarks/README.md", "inputs/README.md", "studies/README.md")
    assert sum(count for name, count in words.items() if name not in of_folders) <= TOTAL


@pytest.mark.parametrize("name", BY_HAND)
def test_a_page_is_plain_english(name):
    if name == "CONTRIBUTING.md":  # it quotes what is banned
        return
    assert BANNED.findall(prose(BY_HAND[name])) == []
    if not name.startswith(("CHANGELOG", "docs/log")):
        long = [
            one for one in sentences(BY_HAND[name]) if len(re.findall(r"\S*\w\S*", one)) > LONGEST
        ]
        assert long == []


def anchors(page: Path) -> set[str]:
    """The names by which a link can point at the page's headings."""
    headings = re.findall(r"^#+ (.*)$", page.read_text(encoding="utf-8"), flags=re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading).lower().replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("name", [name for name in TEXTS if name != "CHANGELOG.md"])
def test_links_lead_somewhere(name):
    wrong = []
    for link in re.findall(r"\]\(([^)\s]+)\)", TEXTS[name]):
        target, _, anchor = link.partition("#")
        page = (size.ROOT / name).parent / target if target else size.ROOT / name
        if "://" in link:
            continue
        if not page.exists() or (anchor and anchor not in anchors(page)):
            wrong.append(link)
    assert wrong == []


def test_the_index_leads_to_every_page():
    pages = {name.removeprefix("docs/") for name in TEXTS if name.startswith("docs/")}
    linked = re.findall(r"\]\(([^)\s]+)\)", TEXTS["docs/README.md"])
    assert pages - {"README.md"} <= set(linked)
    assert "](docs/README.md)" in TEXTS["README.md"]
    navigation = re.findall(
        r"(\S+\.md)$", (size.ROOT / "mkdocs.yml").read_text("utf-8"), re.MULTILINE
    )
    assert sorted(navigation) == sorted(TEXTS)


@pytest.mark.parametrize("name", pages.GENERATED)
def test_a_generated_page_is_current(name):
    """`python -m tests.support.pages` writes it again."""
    assert (size.ROOT / name).read_text("utf-8") == pages.GENERATED[name]().rstrip() + "\n"


@pytest.mark.parametrize("text", ["It is said to be fast.", "The figure is 3."])
def test_banned_phrases_are_found(text):
    assert BANNED.search(prose(text))


def test_readme_shows_the_committed_metrics():
    """After a new run of the default pipeline, `python -m tests.support.pages` writes its table again."""
    table = TEXTS["README.md"].partition("<!-- headline -->")[2].partition("<!-- /headline -->")[0]
    perplexity = json.loads((size.ROOT / "metrics/evaluate.json").read_text("utf-8"))["perplexity"]
    assert f"**{perplexity:.2f}**" in table
