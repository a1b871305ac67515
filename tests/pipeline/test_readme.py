"""The pages tell the truth: every command is run or checked; paths, links and tables exist; README stays short."""

import importlib.util
import re
import shlex
import sys
from pathlib import Path

import pytest
from dvc.cli import DvcParserError, parse_args

from tests.support import reruns
from tinylm.base.config import InputError, load_params, parse_yaml
from tinylm.cli.command import NAMES as COMMANDS
from tinylm.cli.command import find
from tinylm.presets.write import names

ROOT = Path(__file__).parents[2]
PARAMS = load_params(ROOT / "tinylm/presets/storybook.yaml")
NAMES = sorted(
    str(path.relative_to(ROOT)) for path in [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")]
)
PAGES = {name: (ROOT / name).read_text(encoding="utf-8") for name in NAMES}

# Fast, and harmless in a throw-away copy: these are run. All others are checked to be possible.
RUN = (
    ("dvc", "dag"), ("dvc", "status"), ("dvc", "repro"), ("dvc", "params", "diff"), ("dvc", "metrics", "diff"),
    ("dvc", "metrics", "show"), ("dvc", "plots", "diff"), ("dvc", "plots", "show"), ("dvc", "exp", "show"),
    ("dvc", "queue", "status"), ("tinylm", "attention"), ("tinylm", "describe"), ("tinylm", "generate"),
    ("tinylm", "preset", "--list")
)  # fmt: skip
# Slow, or they change the machine: what else stands here by a pattern and is not run.
SHELL = (
    r"git clone \S+( \S+)?",
    r"cd \S+",
    r"source \.venv/bin/activate",
    r"(xdg-)?open report/(index|lab)\.html",
)


def blocks(page: str) -> list[tuple[str, str]]:
    """(language, text) of each fenced block."""
    return re.findall(r"^ *```(\w*)\n(.*?)^ *```$", page, flags=re.MULTILINE | re.DOTALL)


def commands(page: str) -> list[str]:
    """The commands of the bash blocks, one a line, without comments and blank lines."""
    lines = [
        line for language, text in blocks(page) if language == "bash" for line in text.splitlines()
    ]
    return [command for line in lines if (command := shlex.join(shlex.split(line, comments=True)))]


def in_prose(page: str) -> list[str]:
    """Commands in single back-quotes, but for those with a PLACEHOLDER."""
    text = re.sub(r"^ *```.*?^ *```$", "", page, flags=re.MULTILINE | re.DOTALL)
    found = re.findall(r"`((?:dvc|tinylm|make|source) [^`]+)`", text)
    return [command for command in found if not re.search(r"\b[A-Z]{3,}\b", command)]


ALL = sorted({command for page in PAGES.values() for command in [*commands(page), *in_prose(page)]})


def is_run(words: list[str]) -> bool:
    """Does it begin as one of RUN does, and, `dvc repro` being what it is, with nothing more after that?"""
    if words[:2] == ["dvc", "repro"]:
        return len(words) == 2
    return any(tuple(words[: len(start)]) == start for start in RUN)


def stages_of(words: list[str]) -> list[str]:
    return [word for word in words if not word.startswith("-") and "=" not in word]


def problem(words: list[str], stages: list[str]) -> str | None:
    """Why a command that is not run could not work, or None; settings of the environment before it are passed over."""
    words = words[next(i for i, word in enumerate(words) if not re.match(r"[A-Z]+=", word)) :]
    tool, rest = words[0], words[1:]
    if tool == "dvc":
        try:
            parse_args(rest)
        except DvcParserError as error:
            return f"dvc does not understand it: {error}"
        changed = [word.partition("=")[0] for word in rest if re.fullmatch(r"\w+\.\w+=.*", word)]
        keys = {f"{section}.{key}" for section, values in PARAMS.items() for key in values}
        named = stages_of(rest[1:]) if rest[0] == "repro" else []
        unknown = [key for key in changed if key not in keys] + [
            name for name in named if name not in stages
        ]
        return f"unknown: {', '.join(unknown)}" if unknown else None
    if tool == "tinylm":
        if len(rest) == 1 and rest[0] in COMMANDS:  # named, not typed
            return None
        try:
            arguments = find(rest[0]).parser().parse_args(rest[1:])
        except SystemExit:  # it prints something, such as its help, and ends
            return None
        except (InputError, ModuleNotFoundError) as error:
            return f"tinylm does not understand it: {error}"
        known = {"preset": names()}.get(rest[0], [])
        name = getattr(arguments, "name", None)
        return None if not known or name is None or name in known else f"no {rest[0]} {name}"
    if tool == "make":
        made = re.findall(
            r"^([\w-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), flags=re.MULTILINE
        )
        missing = [word for word in stages_of(rest) if word not in made]
        return f"no target {', '.join(missing)}" if missing else None
    if tool == "python" and rest[:1] == ["-m"]:
        return None if importlib.util.find_spec(rest[1]) else f"no module {rest[1]}"
    if tool == "pytest":
        missing = [
            word for word in stages_of(rest) if not (ROOT / word.partition("::")[0]).exists()
        ]
        return f"missing: {', '.join(missing)}" if missing else None
    known = any(re.fullmatch(pattern, shlex.join(words)) for pattern in SHELL)
    return None if known else "neither run nor known: add it to RUN or SHELL"


def test_there_are_commands():
    assert {"make repro", "make test", "dvc repro"} <= set(ALL)
    assert len(ALL) > 10


@pytest.mark.parametrize("command", ALL)
def test_a_command_works(command, clone, pipeline):
    words = shlex.split(command)
    if not is_run(words):
        assert problem(words, list(pipeline["stages"])) is None
        return
    module = {"dvc": "dvc", "tinylm": "tinylm.cli"}[words[0]]
    done = clone.run(sys.executable, "-m", module, *words[1:])
    assert "Traceback" not in done.stderr
    if words[1] in ("generate", "describe"):
        assert done.stdout.strip()


@pytest.mark.parametrize("name", PAGES)
def test_blocks_say_their_language(name):
    assert {language for language, _ in blocks(PAGES[name])} <= {"bash", "yaml", "text", "python"}


@pytest.mark.parametrize("name", PAGES)
def test_values_in_yaml_blocks_are_parameters(name):
    for language, text in blocks(PAGES[name]):
        if language == "yaml":
            for section, values in parse_yaml(text, name).items():
                assert set(values) <= set(PARAMS[section])


def anchors(page: Path) -> set[str]:
    """The names by which a link can point at the page's headings."""
    headings = re.findall(r"^#+ (.*)$", page.read_text(encoding="utf-8"), flags=re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading).lower().replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("name", PAGES)
def test_links_lead_somewhere(name):
    wrong = []
    for link in re.findall(r"\]\(([^)\s]+)\)", PAGES[name]):
        target, _, anchor = link.partition("#")
        page = (
            ROOT / name if not target else (ROOT / name).parent / target
        )  # read from where the page lies
        if "://" not in link and (not page.exists() or (anchor and anchor not in anchors(page))):
            wrong.append(link)
    assert wrong == []


def test_the_index_leads_to_every_page():
    pages = {name.removeprefix("docs/") for name in NAMES if name.startswith("docs/")} - {
        "README.md"
    }
    assert pages <= set(re.findall(r"\]\(([^)\s]+)\)", PAGES["docs/README.md"]))
    assert "](docs/README.md)" in PAGES["README.md"]


def test_readme_is_short():
    assert len(PAGES["README.md"].split()) <= 1500


def test_the_way_through_the_code_is_as_long_as_it_says():
    """At most 12 files, each row of ARCHITECTURE.md: | number | `file` | lines | what |, lines within a tenth."""
    rows = re.findall(
        r"^\| \d+ \| `(\S+)` \| ([\d,]+) \|", PAGES["ARCHITECTURE.md"], flags=re.MULTILINE
    )
    counted = {
        name: len((ROOT / name).read_text(encoding="utf-8").splitlines()) for name, _ in rows
    }
    assert 0 < len(rows) <= 12
    assert [
        (name, said, counted[name])
        for name, said in rows
        if abs(int(said) - counted[name]) > counted[name] / 10
    ] == []


def test_what_each_goal_takes_is_as_long_as_it_says():
    """The table of ARCHITECTURE.md: | goal | files | lines |; a row may start from the files of the one before it."""
    table = PAGES["ARCHITECTURE.md"].partition("| goal | files | lines |\n")[2].partition("\n\n")[0]
    read: dict[str, int] = {}
    for row in table.splitlines()[1:]:
        goal, named, lines = (cell.strip() for cell in row.strip("|").split("|"))
        own = {
            name: len((ROOT / name).read_text(encoding="utf-8").splitlines())
            for name in re.findall(r"`(\S+)`", named)
        }
        read = read | own if named.startswith("the ") else own
        assert abs(int(lines) - sum(read.values())) <= sum(read.values()) / 10, goal


@pytest.mark.parametrize("name", PAGES)
def test_named_paths_exist(name, base):
    """In the repository, or after the first run; `NAME` and `*` stand for something."""
    pattern = r"`((?:stages|tinylm|tests|metrics|plots|data|models|report|\.ci|\.dvc)/[\w./*-]*)`"
    paths = [path for path in re.findall(pattern, PAGES[name]) if "NAME" not in path]
    assert [path for path in paths if not any(base.path.glob(path))] == []


@pytest.mark.parametrize("name", PAGES)
def test_nothing_is_left_to_fill_in(name):
    assert re.findall(r"@@\w*@@|TODO|TBD", PAGES[name]) == []


def test_the_table_of_reruns_is_the_tested_one():
    """`python -m tests.support.reruns` prints it."""
    page = PAGES["docs/reference/pipeline.md"]
    assert page.count(reruns.BEGIN) == page.count(reruns.END) == 1
    shown = page.partition(reruns.BEGIN)[2].partition(reruns.END)[0]
    assert shown.strip() == reruns.markdown().strip()


@pytest.mark.parametrize(
    ("command", "word"),
    [
        ("dvc repro --no-such-option", "understand"), ("dvc repro -f -s kv_bunch", "kv_bunch"),
        ("dvc exp run -S train.learning_rate=1", "train.learning_rate"), ("tinylm sing", "understand"),
        ("tinylm preset nobody", "nobody"), ("make coffee", "coffee"), ("python -m tinylm.coffee", "coffee"),
        ("pytest tests/test_nothing.py", "test_nothing"), ("rm -rf data", "neither")
    ],
)  # fmt: skip
def test_wrong_commands_are_found(command, word, pipeline):
    assert word in (problem(shlex.split(command), list(pipeline["stages"])) or "")


def test_the_reader_of_blocks():
    page = (
        "a\n```bash\nmake repro   # all of it\n\n# nothing\ndvc repro -f\n```\n```yaml\na: 1\n```\n"
    )
    page += "`tinylm check`, `dvc repro NAME`"
    assert commands(page) == ["make repro", "dvc repro -f"]
    assert [language for language, _ in blocks(page)] == ["bash", "yaml"]
    assert in_prose(page) == ["tinylm check"]
