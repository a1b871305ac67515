"""Every mutant of a module: its source with one small thing changed, by the operators of mutmut."""

import dataclasses
import itertools
from collections.abc import Iterator

import libcst as cst
from libcst.metadata import CodeRange, MetadataWrapper, PositionProvider, WhitespaceInclusivePositionProvider
from mutmut.mutation.mutators import mutation_operators

LEFT_ALONE = (
    cst.Annotation,
    cst.Decorator,
    cst.Import,
    cst.ImportFrom,
)  # no behaviour, or none that an import survives
UNCHANGED_CALLS = ("len", "isinstance")


@dataclasses.dataclass(frozen=True)
class Mutant:
    """lines: of the changed statement, first and last; change: the first changed line, before and after."""

    lines: tuple[int, int]
    change: str
    source: str


class _Places(cst.CSTVisitor):
    """Collects (where a node stands, its replacement, lines of the statement around it)."""

    METADATA_DEPENDENCIES = (PositionProvider, WhitespaceInclusivePositionProvider)

    def __init__(self) -> None:
        super().__init__()
        self.found: list[tuple[CodeRange, cst.CSTNode, tuple[int, int]]] = []
        self.statements: list[cst.CSTNode] = []

    def on_visit(self, node: cst.CSTNode) -> bool:
        if isinstance(node, LEFT_ALONE):
            return False
        if isinstance(node, cst.Call) and isinstance(node.func, cst.Name) and node.func.value in UNCHANGED_CALLS:
            return False
        if isinstance(node, cst.SimpleStatementLine):
            self.statements.append(node)
        for kind, operator in mutation_operators:
            if isinstance(node, kind):
                place = self.get_metadata(PositionProvider, (self.statements or [node])[-1])
                lines = place.start.line, place.end.line
                span = self.get_metadata(WhitespaceInclusivePositionProvider, node)
                self.found += [(span, new, lines) for new in operator(node)]
        return True

    def on_leave(self, original_node: cst.CSTNode) -> None:
        if isinstance(original_node, cst.SimpleStatementLine):
            self.statements.pop()


def _change(before: str, after: str) -> str:
    """The first line that differs, `old  ->  new`."""
    pairs = zip(before.splitlines(), after.splitlines())
    old, new = next((old, new) for old, new in pairs if old != new)
    return f"{old.strip()}  ->  {new.strip()}"


def mutants(source: str) -> Iterator[Mutant]:
    """Each mutant that is Python, once. Docstrings, annotations, imports and decorators stay as they are.

    `mutmut run` makes the same from every function but the decorated ones and nothing from a module's own lines; here
    both are mutated, since optimizers, writers and sessions are decorated.
    """
    wrapper = MetadataWrapper(cst.parse_module(source))
    places, seen = _Places(), {source}
    wrapper.visit(places)
    starts = list(itertools.accumulate((len(line) for line in source.splitlines(keepends=True)), initial=0))
    for span, new, lines in places.found:
        start, end = (starts[place.line - 1] + place.column for place in (span.start, span.end))
        text = source[:start] + wrapper.module.code_for_node(new) + source[end:]
        try:
            compile(text, "mutant", "exec")
        except SyntaxError:
            continue
        if text not in seen:
            seen.add(text)
            yield Mutant(lines, _change(source, text), text)
