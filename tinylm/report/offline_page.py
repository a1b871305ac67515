"""The page around DVC's plots, with Vega inside, so that `dvc plots show` needs no network.

DVC's own page loads Vega from a CDN. `python -m tinylm.report.offline_page PATH` writes ours, which
DVC uses after `dvc config --local plots.html_template PATH` (a path relative to .dvc).
"""

import sys

from tinylm.base.command import run_command
from tinylm.base.files import atomic_write

# DVC writes plots one below the other, and a picture's revisions in one line; here as many stand side by side as fit.
LAYOUT = """
        body { display: grid; grid-template-columns: repeat(auto-fill, minmax(41rem, 1fr)); gap: 1rem; align-items: start; }
        body > div { overflow: auto; white-space: normal !important; }
        body > div > div { vertical-align: top; }
        img { max-width: 100%; }
    </style>"""


def offline_page() -> str:
    """DVC's own page in columns, with Vega, Vega-Lite 5 and Vega-Embed inside, for DVC to fill.

    The bundle's names stay inside a function, because DVC's scripts declare `spec` in the page.
    """
    import vl_convert
    from dvc_render.html import PAGE_HTML

    version = [name for name in vl_convert.get_vegalite_versions() if name.startswith("5.")][-1]
    bundle = vl_convert.javascript_bundle("window.vegaEmbed = vegaEmbed;", vl_version=version)
    page = PAGE_HTML.replace("</style>", LAYOUT)
    return page.replace("{scripts}", f"<script>(() => {{\n{bundle}\n}})();</script>")


def main() -> None:
    with atomic_write(sys.argv[1]) as handle:
        handle.write(offline_page())


if __name__ == "__main__":
    sys.exit(run_command(main))
