"""From the folder of a trained model to its page."""

from pathlib import Path
from typing import Any

from tinylm.base import paths
from tinylm.base.config import InputError, read_section
from tinylm.base.files import write_bytes
from tinylm.bench.measure import BeamBenchSettings
from tinylm.decoding.settings import CacheSettings, DecodeSettings
from tinylm.lab.build import build_page, rule_of
from tinylm.lab.facts import facts
from tinylm.model.checkpoint import check_vocabulary, load_checkpoints, load_model
from tinylm.report.settings import ReportSettings
from tinylm.report.sources import ReportData, as_number
from tinylm.report.wording import share
from tinylm.vocab.kinds import open_tokenizer


def write_lab(run: ReportData, params: dict[str, Any], folder: str | Path) -> bool:
    """Write report/lab.html below `folder`.

    False, and a line with the reason, if a page cannot hold the model.
    """
    root = Path(folder)
    try:
        page = make_page(root / paths.MODELS, root / paths.TOKENIZER, params, run)
        write_bytes(root / paths.REPORT_LAB, page)
    except InputError as error:
        print(f"no {paths.REPORT_LAB}: {error}")
        (root / paths.REPORT_LAB).unlink(missing_ok=True)
        return False
    return True


def make_page(
    models: str | Path, vocab: str | Path, params: dict[str, Any], run: ReportData | None
) -> bytes:
    """The page of a model folder and its tokenizer.json.

    run: what the model's run measured, and its title; None without a run. Raises InputError
    naming the file.
    """
    model, _ = load_model(models)
    check_vocabulary(models, vocab)
    tokenizer = open_tokenizer(vocab)
    title = Path(models).resolve().name
    epochs = None
    if run:
        title = read_section(params, "report", ReportSettings).title
        epochs = as_number(run.value("train.epochs"))
    decode = read_section(params, "decode", DecodeSettings)
    slide = read_section(params, "cache", CacheSettings).slide
    length_penalty = read_section(params, "beam_bench", BeamBenchSettings).length_penalty
    shown = facts(model, tokenizer, decode, run, title)
    shown |= {"slide": slide, "length_penalty": length_penalty}
    checkpoints = []
    for epoch, earlier in load_checkpoints(models):
        name = f"after {epoch:g} epochs"
        if epochs:
            name = f"after {share(epoch / epochs, 0)} of the training"
        checkpoints.append((name, earlier))
    return build_page(model, rule_of(tokenizer, vocab), shown, checkpoints)
