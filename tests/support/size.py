"""`make size`: lines and density of every package, beside the budgets of ARCHITECTURE.md.

Lines are counted in every language and with comments and blank lines; data files are not counted. Density is counted
in Python alone, without comments, blank lines and docstrings.
"""

import ast
import io
import subprocess
import sys
import tokenize
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
CODE = {".py", ".cpp", ".h", ".js", ".css", ".html", ".typ", ".wat", ".j2", ".sh"}
LIMIT_AVERAGE = 8.8
LIMIT_HEAVY_PERCENT = 7.0
LIMIT_HARD = 30
HEAVY_LINE = 20
_LAYOUT = {tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT}
_SKIPPED = _LAYOUT | {tokenize.COMMENT, tokenize.ENDMARKER}
_COMPREHENSIONS = (ast.GeneratorExp, ast.ListComp, ast.SetComp, ast.DictComp)


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
    """Counts of tokens over the code lines of some Python files."""

    lines: int
    tokens: int
    heavy_lines: int
    hard_comprehensions: int

    @property
    def average(self) -> float:
        return self.tokens / max(self.lines, 1)

    @property
    def heavy_percent(self) -> float:
        return 100 * self.heavy_lines / max(self.lines, 1)


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


def is_data(path: Path) -> bool:
    """Whether a file of code is data: what an exercise consists of."""
    return path.is_relative_to(ROOT / "tinylm/learn/exercises")


def code_files() -> list[Path]:
    """Files of code that git tracks or would track, from the repository's root."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout
    paths = [ROOT / name for name in listed.splitlines()]
    return [path for path in paths if path.suffix in CODE and path.is_file() and not is_data(path)]


def lines_of(folder: str, files: list[Path]) -> int:
    """Lines of the code below a folder, or of a module that is a single file."""
    total = 0
    for path in files:
        name = path.relative_to(ROOT).as_posix()
        if name.startswith(f"{folder}/") or name == f"{folder}.py":
            total += path.read_text("utf-8").count("\n")
    return total


def tokens_by_line(source: str) -> list[int]:
    """The number of tokens on each line that holds code."""
    counts: dict[int, int] = {}
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        is_long_string = token.type == tokenize.STRING and "\n" in token.string
        if token.type not in _SKIPPED and not is_long_string:
            counts[token.start[0]] = counts.get(token.start[0], 0) + 1
    return list(counts.values())


def _is_hard(node: ast.AST) -> bool:
    """Whether a comprehension is nested or holds a conditional expression."""
    if not isinstance(node, _COMPREHENSIONS):
        return False
    return len(node.generators) > 1 or any(isinstance(part, ast.IfExp) for part in ast.walk(node))


def density(folder: str, files: list[Path]) -> Density:
    """The density of the Python files below a folder, together."""
    counts: list[int] = []
    hard = 0
    for path in files:
        if path.is_relative_to(ROOT / folder) and path.suffix == ".py":
            source = path.read_text("utf-8")
            counts += tokens_by_line(source)
            hard += sum(map(_is_hard, ast.walk(ast.parse(source))))
    heavy = sum(count > HEAVY_LINE for count in counts)
    return Density(len(counts), sum(counts), heavy, hard)


def main() -> int:
    files = code_files()
    print(f"{'package':<18}{'lines':>8}{'budget':>8}{'tokens a line':>15}{'over 20':>9}{'hard':>6}")
    for package in packages((ROOT / "ARCHITECTURE.md").read_text("utf-8")):
        count = lines_of(package.folder, files)
        part = density(package.folder, files)
        print(
            f"{package.name:<18}{count:>8,}{package.budget:>8,}{part.average:>15.2f}"
            f"{part.heavy_percent:>7.1f} %{part.hard_comprehensions:>6}"
        )
    for folder in ("tinylm", "stages", "tests"):
        part = density(folder, files)
        print(
            f"{folder}: {lines_of(folder, files):,} lines, {part.tokens:,} tokens of Python, {part.average:.2f} a line, "
            f"{part.heavy_percent:.1f} % of lines over {HEAVY_LINE}"
        )
    print(
        f"at most {LIMIT_AVERAGE} a line, {LIMIT_HEAVY_PERCENT} % over, {LIMIT_HARD} hard in tinylm and stages"
    )
    pages = list(ROOT.glob("*.md")) + sorted((ROOT / "docs").rglob("*.md"))
    words = sum(len(path.read_text("utf-8").split()) for path in pages)
    print(f"{words:,} words of documentation")
    return 0


if __name__ == "__main__":
    sys.exit(main())
