"""The one place where text becomes safe for HTML and SVG."""

import html
from typing import Any

from tinylm.reporting.wording import visible


def escape(value: Any) -> str:
    """Text made safe for HTML, control and direction characters shown as ⟨U+XXXX⟩."""
    return html.escape(visible(value), quote=True)
