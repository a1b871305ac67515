"""Where each file of the pipeline is, relative to the folder in which it runs."""

MODELS = "models"
PLOTS = "plots"
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
