"""Where each file of the pipeline is, relative to the folder in which it runs."""

import os
from pathlib import Path

from tinylm.base.config import PARAMS_FILE, InputError

DATA = "data"
MODELS = "models"
METRICS = "metrics"
PLOTS = "plots"
OUTPUTS = (DATA, MODELS, METRICS, PLOTS, "report")  # what the stages give to DVC
RUNS = "runs"  # what is in progress

STORIES = "data/stories"
TOKENS = "data/tokens"
VOCAB = "data/vocab"
TOKENIZER = "data/vocab/tokenizer.json"
EMBEDDING = "data/vocab/embedding.safetensors"
EVALUATE = "data/evaluate"
FIGURES = "data/figures"
BEAM_BENCH = "data/beam_bench"
BEAM_TEXTS = "data/beam_bench/outputs.csv"
MODEL_CONFIG = "models/config.json"
TRAIN_RUN = "runs/train"
REPORT_PAGE = "report/index.html"
REPORT_PDF = "report/report.pdf"
REPORT_TEXT = "report/report.md"
REPORT_LAB = "report/lab.html"
PICTURES = "plots/pictures"


def results(stage: str) -> str:
    """All results of a stage that are the same in every run."""
    return f"{FIGURES}/{stage}.json"


def metrics(row: str) -> str:
    """A row of `dvc metrics show`: a stage, or a setting of one, such as "beam/5"."""
    return f"metrics/{row}.json"


def times(stage: str) -> str:
    """Seconds, speeds and peak memory of a stage, and the machine that they were measured on."""
    return f"data/times/{stage}.json"


def plot(name: str) -> str:
    """A table that DVC plots."""
    return f"plots/{name}.csv"


def evaluated(file: str) -> str:
    """A table or array of stage evaluate."""
    return f"data/evaluate/{file}"


def seed_run(seed: int) -> str:
    """Folder of the model trained with a further seed."""
    return f"data/seeds/{seed}"


def seed_score(seed: int | str) -> str:
    """The scores of a seed; "train" for the model of stage train."""
    return f"data/seeds/{seed}.json"


def output_file(option: str, name: str | Path) -> Path:
    """The file that a command writes for `--option name`; a link stays a link to what is written.

    Raises InputError for anything but a file, and for what belongs to the pipeline in this folder.
    """
    path = Path(os.path.realpath(name))
    is_other = path.exists() and not path.is_file()
    problem = ""
    if is_other or any(parent.is_file() for parent in path.parents):
        problem = "expected a file in a folder"
    elif Path(PARAMS_FILE).exists() and path.is_relative_to(Path.cwd()):
        top = path.relative_to(Path.cwd()).parts[0]
        if top in (PARAMS_FILE, "dvc.yaml", "dvc.lock", *OUTPUTS):
            problem = "belongs to the pipeline; choose another file"
    if problem:
        raise InputError(f"--{option} {str(name) or repr(name)}: {problem}")
    return path
