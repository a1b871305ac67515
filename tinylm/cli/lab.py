"""tinylm lab: one HTML file in which a trained model runs."""

import argparse
from pathlib import Path

from tinylm.base import paths
from tinylm.base.config import PARAMS_FILE
from tinylm.base.files import write_bytes
from tinylm.exchange.loading import find, read_params
from tinylm.lab.making import make_page
from tinylm.report.sources import read_run


def run(arguments: argparse.Namespace) -> None:
    """Write the page; what a run measured of its model is in it if the model is that of the run in this folder."""
    path = paths.output_file("output", arguments.output)
    params = read_params()
    models, vocab = find(arguments.models, arguments.vocab)
    own = Path(PARAMS_FILE).exists() and models.resolve() == Path(paths.MODELS).resolve()
    page = make_page(
        models, vocab, params, read_run(".", params) if own else None, arguments.weights
    )
    write_bytes(path, page)
    print(f"{arguments.output}: {len(page) / 1e6:.1f} MB; open it in a browser")
