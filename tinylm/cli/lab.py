"""Write an HTML page that runs the trained model, without a server or a network."""

import argparse
from pathlib import Path

from tinylm.base import paths
from tinylm.base.config import PARAMS_FILE
from tinylm.base.files import write_bytes
from tinylm.cli.command import add_model_options

SHOWN_STAGES = ("download", "train", "evaluate")  # whose results are on the page
LEADING_THERE = ("download", "vocab", "train", "evaluate")  # in the order in which they run
EXAMPLES = """\
  tinylm lab
  tinylm lab -o story.html --models out/my-model    a run's models/ or an export
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options."""
    add = parser.add_argument
    page = "file to write (default %(default)s)"
    add("-o", "--output", default="lab.html", metavar="FILE", help=page)
    add_model_options(parser)


def run(arguments: argparse.Namespace) -> None:
    """Write the page, with the metrics of the run in this folder if the model is that run's.

    Results of stages that ran on an older model are left out.
    """
    from tinylm.lab.making import make_page
    from tinylm.params.presets.write import params_or_preset
    from tinylm.run.finished_run import read_run
    from tinylm.run.lock import outdated, read_lock
    from tinylm.run.trained_model import find

    params = params_or_preset()
    models, vocab = find(arguments.models, arguments.vocab)
    is_of_this_run = Path(PARAMS_FILE).exists() and models.resolve() == Path(paths.MODELS).resolve()
    run = None
    if is_of_this_run:
        left_out = outdated(read_lock("."), LEADING_THERE)
        if left_out and left_out[0] != "evaluate":
            left_out.append("download")  # it has other stories than the model was trained on
        for stage in left_out:
            print(
                f"{stage}: its results are left out, since they are not of this model; run dvc repro"
            )
        run = read_run(".", params, stages=[name for name in SHOWN_STAGES if name not in left_out])
    page = make_page(models, vocab, params, run)
    write_bytes(arguments.output, page)
    print(f"{arguments.output}: {len(page) / 1e6:.1f} MB; open it in a browser")
