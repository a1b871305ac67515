"""The page around DVC's plots, with Vega inside, so that `dvc plots show` needs no network.

DVC fills {plot_divs} of `plots.html_template` with <div>s that call vegaEmbed(); its own page loads Vega from a
CDN. `python -m tinylm.report.offline_page PATH` writes ours; DVC uses it after
`dvc config --local plots.html_template PATH` (a path relative to .dvc).
"""

import sys
from pathlib import Path

from tinylm.base.files import atomic_write
from tinylm.host.command import Parser, guard

_HEAD = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
{refresh_tag}
<title>Plots</title>
<style>
body { margin: 2rem; font: 16px/1.5 system-ui, sans-serif; color: #1f2329; background: #fff; }
body > div { margin-bottom: 2.5rem; overflow-x: auto; }
img { max-width: 100%; }
</style>
<script>
"""
_BODY = "</script></head><body>{plot_divs}</body></html>\n"


def offline_page() -> str:
    """The template page: {refresh_tag} and {plot_divs} for DVC to fill, with Vega, Vega-Lite and Vega-Embed inside.

    The bundle's own names stay inside a function: DVC's scripts declare `spec` in the same page. It is Vega-Lite 5,
    because the templates in .dvc/plots and those of DVC are written for it.
    """
    import vl_convert

    version = [name for name in vl_convert.get_vegalite_versions() if name.startswith("5.")][-1]
    bundle = vl_convert.javascript_bundle("window.vegaEmbed = vegaEmbed;", vl_version=version)
    return f"{_HEAD}(() => {{\n{bundle}\n}})();{_BODY}"


def main() -> None:
    parser = Parser(description="Write the page in which dvc plots shows its charts offline.")
    parser.add_argument("path", type=Path, help="file to write")
    path: Path = parser.parse_args().path
    with atomic_write(path) as handle:
        handle.write(offline_page())


if __name__ == "__main__":
    sys.exit(guard(main))
