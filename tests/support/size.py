"""`make size`: lines and density of every package, next to the budgets of ARCHITECTURE.md.

Lines are those of all languages, with comments and blank lines, without data files. Density is measured in Python alone,
without comments, blank lines and docstrings.
"""

import ast
import io
import re
import subprocess
import tokenize
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
CODE = {".py", ".cpp", ".h", ".js", ".css", ".html", ".typ", ".wat", ".j2", ".sh"}
EXERCISES = ROOT / "tinylm/learn/exercises"  # data, though many are files of code
HEAVY_LINE = 20  # tokens

TOTAL_LINES = {("tinylm", "stages"): 33_205, ("tests",): 32_260}
TOTAL_WORDS = 29_520  # of all pages, without their generated parts


@dataclass(frozen=True)
class Limit:
    """The highest density of some folders."""

    folders: tuple[str, ...]
    average: float
    heavy_percent: float
    hard_comprehensions: int


LIMITS = (
    Limit(("tinylm", "stages"), average=8.8, heavy_percent=7.0, hard_comprehensions=19),
    Limit(("tinylm/model",), average=9.3, heavy_percent=5.0, hard_comprehensions=0),
)


@dataclass(frozen=True)
class Package:
    """One row of ARCHITECTURE.md's table of packages."""

    name: str
    purpose: str
    budget: int
    may_import: frozenset[str]

    @property
    def folder(self) -> str:
        """Its path in the repository: tinylm/model for model, benchmarks for benchmarks/."""
        if self.name.endswith("/"):
            return self.name.rstrip("/")
        return "tinylm/" + self.name.replace(".", "/")


@dataclass(frozen=True)
class Density:
    """How dense the code of some Python files is."""

    average: float  # tokens per line
    heavy_percent: float  # of lines with more than HEAVY_LINE tokens
    hard_comprehensions: int


def packages(page: str) -> list[Package]:
    """The rows of the table whose columns are package, purpose, lines at most, may import."""
    table = page.partition("| package | purpose | lines at most | may import |\n")[2]
    rows = table.partition("\n\n")[0].splitlines()[1:]
    result = []
    for row in rows:
        name, purpose, budget, imports = (cell.strip() for cell in row.strip("|").split("|"))
        allowed = frozenset(filter(None, imports.split(", ")))
        result.append(Package(name.strip("`"), purpose, int(budget.replace(",", "")), allowed))
    return result


def code_files() -> list[Path]:
    """Files of code that git tracks or would track."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout
    paths = [ROOT / name for name in listed.splitlines()]
    return [
        path
        for path in paths
        if path.suffix in CODE and path.is_file() and not path.is_relative_to(EXERCISES)
    ]


def _is_in(path: Path, folder: str) -> bool:
    """Whether a file is below a folder of the repository, or is the module of that name."""
    return path.is_relative_to(ROOT / folder) or path == ROOT / f"{folder}.py"


def lines_of(folder: str, files: list[Path]) -> int:
    """Lines of the code below a folder, or of a module."""
    inside = [path for path in files if _is_in(path, folder)]
    return sum(path.read_text("utf-8").count("\n") for path in inside)


def tokens_by_line(source: str) -> list[int]:
    """The number of tokens on each line that has code."""
    layout = {tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT}
    skipped = layout | {tokenize.COMMENT, tokenize.ENDMARKER}
    counts: dict[int, int] = {}
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        is_long_string = token.type == tokenize.STRING and "\n" in token.string
        if token.type not in skipped and not is_long_string:
            counts[token.start[0]] = counts.get(token.start[0], 0) + 1
    return list(counts.values())


def _is_hard(node: ast.AST) -> bool:
    """Whether this is a comprehension that is nested or has a conditional expression."""
    if not isinstance(node, ast.GeneratorExp | ast.ListComp | ast.SetComp | ast.DictComp):
        return False
    return len(node.generators) > 1 or any(isinstance(part, ast.IfExp) for part in ast.walk(node))


def density(folders: tuple[str, ...], files: list[Path]) -> Density:
    """The density of the Python files below some folders, together."""
    counts: list[int] = []
    hard = 0
    for path in files:
        is_inside = any(_is_in(path, folder) for folder in folders)
        if is_inside and path.suffix == ".py":
            source = path.read_text("utf-8")
            counts += tokens_by_line(source)
            hard += sum(map(_is_hard, ast.walk(ast.parse(source))))
    lines = max(len(counts), 1)
    heavy = sum(count > HEAVY_LINE for count in counts)
    return Density(sum(counts) / lines, 100 * heavy / lines, hard)


def pages() -> list[str]:
    """The pages of the documentation, with the README of each folder, from the root of the repository."""
    paths = [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("[a-z]*/README.md")]
    return sorted({path.relative_to(ROOT).as_posix() for path in paths})


def without_generated(page: str) -> str:
    """What people wrote of a page: nothing of a generated page, no measured table, no output of code."""
    if "<!-- Generated by" in page:
        return ""
    measured = r"<!-- (\S+) -->\n.*?<!-- /\1 -->"
    output = r"(?<=^```\n)\n```text\n.*?^```$"  # below a block of code: `make story` writes it
    return re.sub(rf"{measured}|{output}", "", page, flags=re.MULTILINE | re.DOTALL)


def words_of_pages() -> int:
    """Words of all pages, without their generated parts."""
    texts = [without_generated((ROOT / name).read_text("utf-8")) for name in pages()]
    return sum(len(text.split()) for text in texts)


def _row(name: str, lines: int, budget: int, found: Density) -> str:
    return (
        f"{name:<18}{lines:>8,}{budget:>8,}{found.average:>15.2f}"
        f"{found.heavy_percent:>7.1f} %{found.hard_comprehensions:>6}"
    )


def main() -> None:
    files = code_files()
    print(f"{'package':<18}{'lines':>8}{'budget':>8}{'tokens a line':>15}{'over 20':>9}{'hard':>6}")
    for package in packages((ROOT / "ARCHITECTURE.md").read_text("utf-8")):
        folder = package.folder
        print(
            _row(package.name, lines_of(folder, files), package.budget, density((folder,), files))
        )
    for folders, budget in TOTAL_LINES.items():
        lines = sum(lines_of(folder, files) for folder in folders)
        print(_row(" + ".join(folders), lines, budget, density(folders, files)))
    print(f"{words_of_pages():,} words of pages, at most {TOTAL_WORDS:,}")


if __name__ == "__main__":
    main()
