"""How the run differs from the course assignment behind tinylm, and which of its questions the report answers."""

from pathlib import Path

from tinylm.base.config import parse_yaml
from tinylm.report.settings import ReportSettings
from tinylm.run.finished_run import FinishedRun

ASSIGNMENT = Path(__file__).with_name("assignment.yaml")
SENTENCES = 3  # whose attention the assignment asks for
BASELINE = (  # the parts of the model and the training that the assignment recommends
    "layers",
    "heads",
    "context",
    "place of the norm",
    "activation",
    "optimizer",
    "learning rate",
    "weight decay",
)


def differences(run: FinishedRun, corpus: str) -> tuple[list[tuple[str, ...]], list[str]]:
    """(part, asked, done, why) of what differs from the assignment; and phrases for what does not."""
    chosen = "chosen in params.yaml"
    is_generated = run.param("data", "source") in ("storybook", "world")
    why = "the true probabilities are known" if is_generated else chosen
    differing: list[tuple[str, ...]] = [("text", "TinyStories", corpus, why)]
    as_asked = []
    if corpus == "TinyStories":
        as_asked.append("TinyStories")
        differing.clear()
    for part, row in parse_yaml(ASSIGNMENT.read_text("utf-8"), ASSIGNMENT.name).items():
        done = run.param(*row["key"].split("."))
        if done == row["asked"]:
            as_asked.append(row["as_asked"])
        else:
            names = row.get("names", {})
            asked_and_done = [str(names.get(str(value), value)) for value in (row["asked"], done)]
            is_true = all(
                run.param(*key.split(".")) == value for key, value in row.get("if", {}).items()
            )
            reasons = row.get("why", {}) if is_true else {}
            differing.append((part, *asked_and_done, reasons.get(str(done), chosen)))
    if _is_measured_on_a_cpu(run):
        differing.append(("peak memory", "of a GPU", "of the CPU's allocator", "no GPU was used"))
    return differing, as_asked


def _is_measured_on_a_cpu(run: FinishedRun) -> bool:
    bench = run.times.ckpt_bench
    return bench is not None and (bench.conditions or {}).get("device") == "cpu"


def questions(run: FinishedRun, settings: ReportSettings, corpus: str) -> list[tuple[str, ...]]:
    """(question, where the report answers it, how far) for each question of the assignment."""
    differing, _ = differences(run, corpus)
    parts = {row[0] for row in differing}
    observed = "" if settings.observations else "your own observations are missing"
    is_of_words = run.param("vocab", "tokenizer") == "words"
    recorded = "the report quotes a recorded run"
    if not is_of_words:
        recorded = "the recorded runs use words as tokens, so they are left out"
    unlike = []
    if "word vectors" in parts:
        unlike.append("the word vectors are not the published ones")
    if "positions" in parts:
        unlike.append("positions are not sinusoids")
    answers = [
        (
            "TinyStories, its splits and preprocessing",
            "Data",
            run.download,
            f"the text is {corpus}" if "text" in parts else "",
        ),
        (
            "the model, from scratch, with fastText vectors and sinusoids",
            "Model",
            run.train,
            "; ".join(unlike),
        ),
        ("curves of loss and perplexity", "Summary, Training", run.train, ""),
        (
            "the recommended configuration",
            "Summary, Training",
            run.train,
            recorded if parts.intersection(BASELINE) else "",
        ),
        ("efficient code, and other hyperparameters", "Training", run.train, recorded),
        (
            "samples, and whether they make sense",
            "Text generation",
            run.evaluate,
            "" if run.evaluate and run.evaluate.sense else "nothing judges whether they make sense",
        ),
        ("perplexity and BLEU of the samples", "Text generation", run.evaluate, ""),
        (
            "attention of every head over three sentences",
            "Appendix",
            len(run.sentences) >= SENTENCES,
            "",
        ),
        ("what the heads have learned", "Attention, Appendix", run.heads(), observed),
        ("beam search", "Beam search", run.beam_bench, ""),
        ("key-value cache", "Key-value cache", run.kv_bench, ""),
        ("gradient accumulation", "Gradient accumulation", run.accum_sweep, ""),
        (
            "gradient checkpointing",
            "Gradient checkpointing",
            run.ckpt_bench,
            "memory is that of the CPU's allocator" if "peak memory" in parts else "",
        ),
        ("the model on the Hugging Face hub", "below the title", settings.hub_path, ""),
    ]
    rows: list[tuple[str, ...]] = []
    for question, place, answer, gap in answers:
        how_far = f"partly: {gap}" if gap else "yes"
        rows.append((question, place, how_far if answer else "no"))
    return rows
