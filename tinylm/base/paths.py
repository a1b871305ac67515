"""Where each file of the pipeline is, relative to the folder in which it runs."""

DATA, MODELS, METRICS, PLOTS, REPORT, RUNS = "data", "models", "metrics", "plots", "report", "runs"
OUTPUTS = (DATA, MODELS, METRICS, PLOTS, REPORT)  # what the stages give to DVC; runs/ has what is in progress

STORIES, TOKENS, VOCAB = "data/stories", "data/tokens", "data/vocab"
TOKENIZER, EMBEDDING = "data/vocab/tokenizer.json", "data/vocab/embedding.safetensors"
EVALUATE, ACCUM, SEEDS, FIGURES = "data/evaluate", "data/accum", "data/seeds", "data/figures"

BEAM_BENCH, BEAM_TEXTS = "data/beam_bench", "data/beam_bench/outputs.csv"
MODEL_CONFIG, MODEL_SAMPLES = "models/config.json", "models/samples.json"
TRAIN_RUN, TRAIN_LOCK = "runs/train", "runs/train.lock"
REPORT_PAGE, REPORT_PDF = "report/index.html", "report/report.pdf"
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
