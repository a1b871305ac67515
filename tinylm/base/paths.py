"""Where each file of the pipeline is, relative to the folder in which it runs; and where a command may write others."""

import os
from pathlib import Path

from tinylm.base.config import PARAMS_FILE, InputError

DATA, MODELS, METRICS, PLOTS, REPORT, RUNS = "data", "models", "metrics", "plots", "report", "runs"
OUTPUTS = (
    DATA,
    MODELS,
    METRICS,
    PLOTS,
    REPORT,
)  # what the stages give to DVC; runs/ has what is in progress

STORIES, TOKENS, VOCAB = "data/stories", "data/tokens", "data/vocab"
TOKENIZER, EMBEDDING = "data/vocab/tokenizer.json", "data/vocab/embedding.safetensors"
EVALUATE, ACCUM, SEEDS, FIGURES = "data/evaluate", "data/accum", "data/seeds", "data/figures"

BEAM_BENCH, BEAM_TEXTS = "data/beam_bench", "data/beam_bench/outputs.csv"
MODEL_CONFIG = "models/config.json"
TRAIN_RUN, TRAIN_LOCK = "runs/train", "runs/train.lock"
REPORT_PAGE, REPORT_PDF, REPORT_TEXT = "report/index.html", "report/report.pdf", "report/report.md"
REPORT_LAB = "report/lab.html"  # the model in a page
OWN_TEXTS = "report/own_texts.json"  # what the model made of report.prompts
PICTURES, TIMES = "plots/pictures", "runs/times"


def figures(stage: str) -> str:
    """Everything that a stage counted or scored; the same in every run."""
    return f"{FIGURES}/{stage}.json"


def metrics(stage: str) -> str:
    """The few of its figures that `dvc metrics` shows."""
    return f"metrics/{stage}.json"


def times(name: str) -> str:
    """Seconds, memory and conditions of a stage on this machine."""
    return f"metrics/{name}_time.json"


def plot(name: str) -> str:
    """A table that DVC plots."""
    return f"plots/{name}.csv"


def evaluated(file: str) -> str:
    """A table or array of stage evaluate."""
    return f"data/evaluate/{file}"


def accum_run(accumulation: int) -> str:
    """The run of the sweep with this many mini-batches per update."""
    return f"data/accum/{accumulation}.json"


def seed_run(seed: int) -> str:
    """Folder of the model trained with a further seed."""
    return f"data/seeds/{seed}"


def seed_score(seed: int | str) -> str:
    """The scores of a seed; "train" for the model of stage train."""
    return f"data/seeds/{seed}.json"


def file_above(path: str | Path) -> Path | None:
    """The file below which a path would be, if there is one."""
    nearest = next(
        (parent for parent in Path(path).absolute().parents if parent.exists()), None
    )  # the root has none
    return None if nearest is None or nearest.is_dir() else nearest


def output_file(option: str, name: str | Path, kinds: str = "") -> Path:
    """The file that a command is to write for `--option name`; what a link leads to, so that it stays a link.

    kinds: of files that are allowed, for messages. InputError for a folder, a pipe, socket or device, a place below a
    file, and for what belongs to the pipeline in this folder.
    """
    path, here = Path(os.path.realpath(name)), Path.cwd()
    top = (
        path.relative_to(here).parts[:1]
        if path.is_relative_to(here) and Path(PARAMS_FILE).exists()
        else ()
    )
    problem = ""
    if path.is_dir():
        problem = " is a folder; allowed: a file"
    elif path.exists() and not path.is_file():
        problem = " is a pipe, socket or device; allowed: a file"
    elif above := file_above(path):
        problem = f": {above} is a file; allowed: a file in a folder"
    elif top and top[0] in (PARAMS_FILE, "dvc.yaml", "dvc.lock", *OUTPUTS):
        problem = " belongs to the pipeline; allowed: another file"
    if problem:
        raise InputError(f"--{option} {str(name) or repr(name)}{problem}{kinds}")
    return path
