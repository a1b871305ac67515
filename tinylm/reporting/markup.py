"""HTML out of plain values: everything from data is escaped here and nowhere else."""

import html
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from tinylm.reporting.wording import ABSENT, visible


def escape(value: Any) -> str:
    """Text made safe for HTML, control and direction characters shown as ⟨U+XXXX⟩."""
    return html.escape(visible(value), quote=True)


def paragraph(*sentences: str, kind: str = "") -> str:
    """Sentences as one escaped paragraph; nothing for none."""
    text = " ".join(sentence for sentence in sentences if sentence)
    css = f' class="{kind}"' if kind else ""
    return f"<p{css}>{escape(text)}</p>" if text else ""


def bullets(items: Iterable[str]) -> str:
    """An escaped list; nothing for none."""
    lines = "".join(f"<li>{escape(item)}</li>" for item in items)
    return f"<ul>{lines}</ul>" if lines else ""


def table(
    caption: str,
    heads: Sequence[str],
    rows: Iterable[Sequence[str]],
    *,
    prose: Collection[str] = (),
    stacked: bool = False,
) -> str:
    """A table with caption and header cells; the first cell of a row is its header.

    `prose`: heads of the columns that are set left, as text; `stacked`: on narrow screens each row becomes a block
    of labelled lines.
    """
    sides = [' class="prose"' if name in prose else "" for name in heads]
    body = []
    for first, *others in rows:
        cells = "".join(
            f'<td{side} data-label="{escape(head)}">{escape(cell)}</td>'
            for side, head, cell in zip(sides[1:], heads[1:], others)
        )
        body.append(f'<tr><th{sides[0]} scope="row">{escape(first)}</th>{cells}</tr>')
    if not body:
        return ""
    kind = ' class="stacked"' if stacked else ""
    head = "".join(f'<th{side} scope="col">{escape(name)}</th>' for side, name in zip(sides, heads))
    return (
        f'<div class="scroll" tabindex="0" role="region" aria-label="{escape(caption)}"><table{kind}>'
        f"<caption>{escape(caption)}</caption><thead><tr>{head}</tr></thead>"
        f"<tbody>{''.join(body)}</tbody></table></div>"
    )


def record_table(caption: str, first: str, records: Mapping[str, Sequence[str]], heads: Sequence[str]) -> str:
    """A table of {row name: cells}; columns without a single value are left out."""
    used = [i for i in range(len(heads)) if any(cells[i] != ABSENT for cells in records.values())]
    rows = [[name, *(cells[i] for i in used)] for name, cells in records.items()]
    return table(caption, [first, *(heads[i] for i in used)], rows)


def facts(pairs: Iterable[tuple[str, str]]) -> str:
    """A list of terms and values; absent values are left out."""
    lines = "".join(
        f"<div><dt>{escape(term)}</dt><dd>{escape(value)}</dd></div>" for term, value in pairs if value != ABSENT
    )
    return f'<dl class="facts">{lines}</dl>' if lines else ""


def picture(svg: str | None, caption: str) -> str:
    """A figure with its caption; `svg` is made by us. Nothing where there is none."""
    return f"<figure>{svg}<figcaption>{escape(caption)}</figcaption></figure>" if svg else ""


def gallery(*figures: str) -> str:
    """Figures side by side where there is room."""
    shown = "".join(figures)
    return f'<div class="gallery">{shown}</div>' if shown else ""


def fold(summary: str, content: str, *, is_open: bool = False) -> str:
    """Content behind a line that opens it; nothing for no content."""
    state = " open" if is_open else ""
    return f"<details{state}><summary>{escape(summary)}</summary>{content}</details>" if content else ""


def heading(text: str) -> str:
    """A heading inside a section."""
    return f"<h3>{escape(text)}</h3>"
