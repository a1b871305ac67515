"""Links between pages lead somewhere, generated pages are current, lines and density are within their budgets."""

import json
import re
import subprocess
import tomllib
from pathlib import Path

import pytest

from tests.support import pages, size
from tests.support.clone import working_tree
from tinylm.base.config import parse_yaml

TEXTS = {name: (size.ROOT / name).read_text("utf-8") for name in size.pages()}
LINK = re.compile(r"\]\(([^)\s]+)\)")


def anchors(page: Path) -> set[str]:
    """The names by which a link can point at the page's headings."""
    headings = re.findall(r"^#+ (.*)$", page.read_text("utf-8"), flags=re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading).lower().replace(" ", "-") for heading in headings}


def test_pages_are_within_their_budget():
    assert size.words_of_pages() <= size.TOTAL_WORDS


@pytest.mark.parametrize("name", TEXTS)
def test_links_lead_somewhere(name):
    wrong = []
    for link in LINK.findall(TEXTS[name]):
        target, _, anchor = link.partition("#")
        page = (size.ROOT / name).parent / target if target else size.ROOT / name
        if "://" in link:
            continue
        if not page.exists() or (anchor and anchor not in anchors(page)):
            wrong.append(link)
    assert wrong == []


def test_the_index_and_the_site_have_every_page():
    below_docs = {name.removeprefix("docs/") for name in TEXTS if name.startswith("docs/")}
    assert below_docs - {"README.md"} <= set(LINK.findall(TEXTS["docs/README.md"]))
    site = (size.ROOT / "mkdocs.yml").read_text("utf-8")
    assert sorted(re.findall(r"(\S+\.md)$", site, re.MULTILINE)) == sorted(TEXTS)


@pytest.mark.parametrize("name", pages.GENERATED)
def test_a_generated_page_is_current(name):
    """`python -m tests.support.pages` writes it again."""
    assert (size.ROOT / name).read_text("utf-8") == pages.GENERATED[name]().rstrip() + "\n"


def test_readme_shows_the_committed_metrics():
    """A run that is not committed, on another processor for example, changes neither."""

    def committed(name):
        command = ["git", "show", f"HEAD:{name}"]
        return subprocess.run(
            command, cwd=size.ROOT, capture_output=True, text=True, check=True
        ).stdout

    table = committed("README.md").partition("<!-- headline -->")[2].partition("<!-- /headline")[0]
    perplexity = json.loads(committed("metrics/evaluate.json"))["perplexity"]
    assert f"**{perplexity:.2f}**" in table


def test_changelog_package_and_citation_name_the_same_release():
    version, date = re.search(
        r"^## ([\d.]+) \(([\d-]+)", TEXTS["CHANGELOG.md"], re.MULTILINE
    ).groups()
    project = tomllib.loads((size.ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    citation = parse_yaml((size.ROOT / "CITATION.cff").read_text("utf-8"), "CITATION.cff")
    assert project["version"] == citation["version"] == version
    assert str(citation["date-released"]) == date


FILES = size.code_files()
PACKAGES = size.packages((size.ROOT / "ARCHITECTURE.md").read_text("utf-8"))
LARGE = 512 << 10  # bytes


@pytest.mark.parametrize("package", PACKAGES, ids=lambda package: package.name)
def test_a_package_is_within_its_budget(package):
    lines = size.lines_of(package.folder, FILES)
    assert 0 < lines <= package.budget, "remove lines, or raise its number in ARCHITECTURE.md"


@pytest.mark.parametrize("folders", size.TOTAL_LINES, ids="+".join)
def test_totals_are_within_their_budgets(folders):
    lines = sum(size.lines_of(folder, FILES) for folder in folders)
    assert lines <= size.TOTAL_LINES[folders], "remove lines, or raise TOTAL_LINES in size.py"


@pytest.mark.parametrize("limit", size.LIMITS, ids=lambda limit: "+".join(limit.folders))
def test_code_is_not_compressed(limit):
    found = size.density(limit.folders, FILES)
    assert found.average <= limit.average
    assert found.heavy_percent <= limit.heavy_percent
    assert found.hard_comprehensions <= limit.hard_comprehensions


def test_no_large_file_is_committed():
    names = working_tree(size.ROOT)
    large = [name for name in names if (size.ROOT / name).stat().st_size > LARGE]
    assert large == ["docs/lab/index.html"]
