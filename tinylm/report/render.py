"""From one Jinja2 template to Markdown, which html_page.py, pdf.py and `to_terminal` show.

Conventions of the Markdown:

- `#` is the title, and the lines after it the head of the page.
- `##` is a section with its link in the page's contents. `####` folds what follows it on the page, up to
  the next heading.
- `*Text*` alone before a table is its caption. Elsewhere such a paragraph is a note.
- `**Warning:**` starts a warning. In a block quote, bold words are marked, and words in
  italics are grey.
- `![alt text](folder/NAME.png "caption")` is the picture NAME. Pictures in one paragraph are set
  side by side.
- A table without column names lists facts. At most four facts are shown large.

Everything that a template inserts with `{{ }}` is escaped, so that no text of a model or a user is
read as Markdown, HTML or Typst. Macros and the functions below return Markdown, which is inserted
unchanged.
"""

import dataclasses
import io
import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import jinja2
import jinja2.meta
from markupsafe import Markup

from tinylm.base.printable import visible
from tinylm.report.wording import ABSENT, FORMATS

# Characters that Markdown would read as markup, anywhere and at the start of a line. Entities are
# used where some renderers see a tag or an entity after a backslash.
_ANYWHERE = re.compile(r"[\\`*\[\]|~$]|(?<!\w)_|_(?!\w)")
_ENTITIES = ((re.compile(r"&(?=#?\w+;)"), "&amp;"), (re.compile(r"<(?=[A-Za-z/!?])"), "&lt;"))
_AT_THE_START = re.compile(r"^(\d{1,9}(?=[.)](?:\s|$))|(?=[#+\-=>]))")
_EMPTY_TABLE = re.compile(r"(^\*[^\n]*\*\n\n)?^\|.*\n^\| :?--.*\n(?!\|)", re.MULTILINE)


def escape(value: Any) -> Markup:
    """Plain text as one line of Markdown that shows exactly this text; a dash if missing."""
    if value is None or isinstance(value, jinja2.Undefined):
        return Markup(ABSENT)
    if isinstance(value, bool):
        return Markup("yes" if value else "no")
    line = " ".join(visible(value).split())
    line = _ANYWHERE.sub(r"\\\g<0>", line)
    for character, entity in _ENTITIES:
        line = character.sub(entity, line)
    return Markup(_AT_THE_START.sub(r"\1\\", line))


def table(heads: Sequence[str], rows: Iterable[Sequence[Any]], caption: str = "") -> Markup:
    """A table as Markdown, columns of numbers right-aligned."""
    cells = [[str(escape(cell)) for cell in row] for row in rows]
    if not cells:
        return Markup("")
    alignments = [":---"] * len(heads)
    if any(heads):  # a table of facts has no columns of numbers
        alignments = [_alignment(column, cells) for column in range(len(heads))]
    names = [str(escape(head)) for head in heads]
    text = "\n".join(f"| {' | '.join(row)} |" for row in (names, alignments, *cells))
    return _block(f"*{escape(caption)}*\n\n{text}" if caption else text)


def _block(markdown: str) -> Markup:
    """Markdown between blank lines, whatever surrounds it in the template."""
    return Markup(f"\n\n{markdown}\n\n")


# A sentence can begin with a number too, but is longer.
_NUMBER = re.compile(r"(\\?[\d<+\N{MINUS SIGN}\N{EN DASH}-].{,30})?$")


def _alignment(column: int, cells: Sequence[Sequence[str]]) -> str:
    """Right for a column of numbers."""
    is_number = column > 0 and all(_NUMBER.match(row[column]) for row in cells)
    return "---:" if is_number else ":---"


def facts(pairs: Iterable[tuple[str, Any]]) -> Markup:
    """Terms and values as a table without column names; absent values are left out."""
    rows = [(term, value) for term, value in pairs if escape(value) not in ("", ABSENT)]
    return table(("", ""), rows)


def quote(text: Any) -> Markup:
    """A text as a block quote that keeps its line breaks. Markup is one line of Markdown."""
    lines = [text] if isinstance(text, Markup) else map(escape, visible(text).strip().split("\n"))
    return _block("> " + "  \n> ".join(lines))


def image(path: str, alt: str, caption: str = "") -> Markup:
    """A picture with its text for readers who cannot see it."""
    title = str(escape(caption)).replace('"', r"\"")
    return Markup(f'![{escape(alt)}]({path} "{title}")')


class _Environment(jinja2.Environment):
    """Refuses unknown fields: a.b.c is undefined if a.b is None, but an error if result a.b has no c."""

    def getattr(self, obj: Any, attribute: str) -> Any:
        if dataclasses.is_dataclass(obj) and not hasattr(obj, attribute):
            raise jinja2.UndefinedError(f"{type(obj).__name__} has no field {attribute}")
        return super().getattr(obj, attribute)


def render(template: Path, **values: Any) -> str:
    """The Markdown that a template makes of these values.

    Args:
        template: the file; it may include others of its folder and those of the report.
        values: the names that the template uses. A part of a value that is None is shown as a dash.

    Raises:
        jinja2.UndefinedError: the template names a value that is not given, or a field that a
            result does not have.
    """
    environment = _Environment(
        loader=jinja2.FileSystemLoader([template.parent, Path(__file__).parent]),
        undefined=jinja2.ChainableUndefined,  # a.b.c is undefined if a.b is missing
        autoescape=True,  # macros and functions return Markup, which is not escaped again
        finalize=lambda value: value if isinstance(value, Markup) else escape(value),
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.globals.update(table=table, facts=facts, quote=quote, image=image)
    environment.filters.update(FORMATS)
    source = environment.parse(template.read_text(encoding="utf-8"))
    names = jinja2.meta.find_undeclared_variables(source)
    if missing := names - values.keys() - environment.globals.keys():
        raise jinja2.UndefinedError(f"{template.name}: {', '.join(sorted(missing))} is not given")
    text = environment.get_template(template.name).render(**values)
    text = re.sub(r"\n\s*\n+", "\n\n", text).strip() + "\n"
    return _EMPTY_TABLE.sub("", text)


def to_terminal(markdown: str, width: int | None = None) -> str:
    """The Markdown as text without pictures, `width` columns wide (default: the terminal's)."""
    from rich.console import Console
    from rich.markdown import Markdown

    text = re.sub(r"^!\[.*\n?", "", markdown, flags=re.MULTILINE)
    console = Console(file=io.StringIO(), width=width)
    with console.capture() as capture:
        console.print(Markdown(text, hyperlinks=False))
    return capture.get()
