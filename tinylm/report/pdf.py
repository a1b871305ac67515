"""Markdown as a PDF, set with Typst."""

import json
import tempfile
from collections.abc import Mapping
from pathlib import Path

import matplotlib
import typst
from markdown_it.token import Token
from matplotlib import ft2font

from tinylm.report.markdown import parse, picture_name

MOST_SHOWN = 20  # characters that the warning lists
_LAYOUT = Path(__file__).with_name("pdf.typ")
# Matplotlib ships DejaVu and typst the serif font, so that nothing has to be installed.
_FONTS = Path(matplotlib.get_data_path()) / "fonts/ttf"
_TYPST = {  # what each token of the Markdown becomes
    "heading_close": "]\n",
    "paragraph_close": "]\n",
    "bullet_list_open": "#list(",
    "bullet_list_close": ")\n",
    "list_item_open": "[",
    "list_item_close": "],",
    "blockquote_open": "#quotation[",
    "blockquote_close": "]\n",
    "table_close": ")\n",
    "tr_open": "(",
    "tr_close": "),",
    "th_close": "],",
    "td_close": "],",
    "softbreak": " ",
    "hardbreak": "#linebreak()",
    "strong_open": "#strong[",
    "strong_close": "]",
    "em_open": "#emph[",
    "em_close": "]",
    "link_close": "]",
}


def to_pdf(
    markdown: str, pictures: Mapping[str, str] | None = None, author: str = "tinylm"
) -> bytes:
    """The Markdown as a PDF; the same Markdown gives the same bytes.

    Args:
        markdown: what `render` returned.
        pictures: the SVG of each picture by name. Others are left out.
        author: in the PDF's metadata.
    """
    images = pictures or {}
    layout = _LAYOUT.read_text(encoding="utf-8")
    # No date, so that the same run gives the same bytes.
    document = f"#set document(author: {_quoted(author)}, date: none)\n"
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for picture, svg in images.items():
            (folder / f"{picture}.svg").write_text(svg, encoding="utf-8")
        source = folder / "report.typ"
        content = _to_typst(_with_warning(markdown), images)
        source.write_text(document + layout + content, encoding="utf-8")
        # No clock either; tags would double the file's size.
        return typst.compile(source, root=folder, font_paths=[_FONTS], timestamp=0, pdf_tags=False)


def missing_characters(text: str) -> str:
    """The characters of a text that the PDF's own fonts cannot draw, each once."""
    drawn = ft2font.FT2Font(str(_FONTS / "DejaVuSans.ttf")).get_charmap()
    letters = {letter for letter in text if letter.isprintable() and ord(letter) not in drawn}
    return "".join(sorted(letters))


def _with_warning(markdown: str) -> str:
    """The Markdown with a warning below its title if characters are missing."""
    missing = missing_characters(markdown)
    if not missing:
        return markdown
    title, _, rest = markdown.partition("\n")
    names = [f"U+{ord(letter):04X}" for letter in missing[:MOST_SHOWN]]
    if len(missing) > MOST_SHOWN:
        names.append(f"and {len(missing) - MOST_SHOWN} more")
    warning = (
        f"**Warning:** the fonts of this PDF lack {', '.join(names)}. Unless your system has a font with "
        "them, they appear as boxes here; index.html shows them."
    )
    return f"{title}\n\n{warning}\n{rest}"


def _to_typst(markdown: str, pictures: Mapping[str, str]) -> str:
    """The Markdown as Typst, one block a line; text is always in quotes."""
    parts = []
    for token in _with_neighbours(parse(markdown, pictures)):
        match token.type:
            case "inline":
                parts.append(_line(token, pictures))
            case "heading_open":
                parts.append(f"#heading(level: {token.tag[1:]})[")
            case "paragraph_open":
                parts.append(f"#{token.meta['kind']}[")
            case "table_open":
                caption = token.meta["caption"]
                named = "" if caption is None else f"caption: [{_line(caption, pictures)}], "
                if token.meta.get("has_footnote"):
                    named += "has-footnote: true, "
                parts.append(f"#{token.meta['kind']}({named}")
            case "th_open" | "td_open":
                is_number = "right" in str(token.attrs.get("style"))
                parts.append("align(right)[" if is_number else "[")
            case _:
                parts.append(_TYPST.get(token.type, ""))  # "": head and body of a table
    return "".join(parts)


def _with_neighbours(tokens: list[Token]) -> list[Token]:
    """The tokens, marked where no page may end between a text, its table and its note.

    A note after a table, or as the last of a section, gets the kind closing-note; that table has_footnote. A
    paragraph before a table or a closing note is a lead.
    """
    for index, token in enumerate(tokens):
        is_ruled = token.meta.get("kind") == "ruled"
        follows = tokens[index + 3].type if index + 3 < len(tokens) else "heading_open"
        is_last = token.meta.get("kind") == "note" and follows == "heading_open"
        if is_last:
            token.meta["kind"] = "closing-note"
        if (is_ruled or is_last) and index > 2 and tokens[index - 1].type == "paragraph_close":
            opening = tokens[index - 3]
            if opening.meta["kind"] == "par" and opening.level == 0:
                opening.meta["kind"] = "lead"
        if is_ruled:
            end = next(i for i in range(index, len(tokens)) if tokens[i].type == "table_close")
            after = tokens[end + 1] if end + 1 < len(tokens) else None
            if after and after.type == "paragraph_open" and after.meta["kind"] == "note":
                after.meta["kind"] = "closing-note"
                token.meta["has_footnote"] = True
    return tokens


def _line(inline: Token, pictures: Mapping[str, str]) -> str:
    return "".join(_inline(part, pictures) for part in inline.children or [])


def _inline(part: Token, pictures: Mapping[str, str]) -> str:
    match part.type:
        case "text":
            return f"#{_quoted(part.content)}"
        case "code_inline":
            return f"#code({_quoted(part.content)})"
        case "link_open":
            return f"#link({_quoted(part.attrs['href'])})["
        case "image":
            name = picture_name(part)
            if name not in pictures:
                return ""
            title = _quoted(part.attrs.get("title", ""))
            return f"#picture({_quoted(f'{name}.svg')}, {title})"
    return _TYPST[part.type]


def _quoted(text: object) -> str:
    """Text as a Typst string."""
    return json.dumps(str(text), ensure_ascii=False)
