"""What a course asks to hand in, as one zip: code, README, report, plots, samples, settings, the model card."""

import dataclasses
import re
import tempfile
import zipfile
from collections.abc import Callable
from pathlib import Path

from tinylm.base import paths
from tinylm.base.config import PARAMS_FILE, InputError
from tinylm.base.files import atomic_write
from tinylm.exchange.publication import Publication
from tinylm.exchange.publishing import EXPORTS, build
from tinylm.report.sources import FILES, Run
from tinylm.report.wording import number

SAMPLES = ("samples", "greedy", "beams", "stories")  # texts that the model wrote, in sources.FILES
_ENTRY = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_TO_THE_LAB = re.compile(rb'<a href="lab\.html">[^<]*</a>')
_DEVICES = re.compile(r"(con|prn|aux|nul|com[0-9]|lpt[0-9])(\..*)?", re.IGNORECASE)  # on Windows
_TIME = (
    1980,
    1,
    1,
    0,
    0,
    0,
)  # the earliest that a zip can hold, so that equal files give equal bytes


@dataclasses.dataclass(frozen=True)
class HandIn:
    """The name of the entry, who hands it in (None: nobody is named), and whether the weights are in it."""

    entry: str
    author: str | None
    weights: bool


def check_entry(entry: str) -> str:
    """The entry's name, which becomes that of the zip and its folder. Raises InputError for what is no file name."""
    if not _ENTRY.fullmatch(entry) or entry.endswith(".") or _DEVICES.fullmatch(entry):
        raise InputError(
            f"ENTRY {entry!r}; allowed: a file name of at most 64 letters a to z, digits, . _ and -, such as 2026-12345"
        )
    return entry


def write_hand_in(
    hand_in: HandIn,
    run: Run,
    publication: Publication,
    code: list[str],
    export: Callable[[Path], object],
    root: Path = Path(),
) -> tuple[Path, list[str]]:
    """Write exports/ENTRY.zip from the pipeline's files below `root`; returns its path and the files in it.

    code: the files of the code, relative to `root`; export: writes the weights into an empty folder, or nothing.
    Equal files give equal bytes: names are sorted, times fixed, nothing is compressed. The zip appears when complete.
    """
    files = {f"code/{name}": root / name for name in code}
    files |= {
        f"report/{Path(name).name}": root / name for name in (paths.REPORT_PDF, paths.REPORT_PAGE)
    }
    if hand_in.weights and (root / paths.REPORT_LAB).is_file():  # it holds the weights
        files[paths.REPORT_LAB] = root / paths.REPORT_LAB
    files |= {f"plots/{picture.name}": picture for picture in (root / paths.PICTURES).glob("*.png")}
    found = {name: FILES[name][0] for name in run.files if name in FILES}
    files |= {path: root / path for path in found.values() if path.startswith(f"{paths.PLOTS}/")}
    files |= {
        f"samples/{name}{Path(found[name]).suffix}": root / found[name]
        for name in SAMPLES
        if name in found
    }
    if (root / paths.OWN_TEXTS).is_file():
        files["samples/own_texts.json"] = root / paths.OWN_TEXTS
    files["settings.yaml"] = root / PARAMS_FILE
    target = root / EXPORTS / f"{hand_in.entry}.zip"
    with tempfile.TemporaryDirectory() as scratch:
        model = Path(scratch) / "model"
        files |= {
            f"model/{name}": model / name for name in build(model, run, publication, export, root)
        }
        with atomic_write(target, "wb") as handle, zipfile.ZipFile(handle, "w") as archive:
            held = {"README.md": readme(hand_in, run, publication, sorted(files)).encode()}
            if paths.REPORT_LAB not in files:  # then the page's link to it would lead nowhere
                page = files[paths.REPORT_PAGE].read_bytes()
                held[paths.REPORT_PAGE] = _TO_THE_LAB.sub(b"", page)
            for name in sorted({*files, *held}):
                info = zipfile.ZipInfo(f"{hand_in.entry}/{name}", _TIME)
                info.create_system, info.external_attr = (
                    3,
                    0o644 << 16,
                )  # of Unix, whatever wrote it
                archive.writestr(info, held[name] if name in held else files[name].read_bytes())
    return target, sorted({*files, *held})


def readme(hand_in: HandIn, run: Run, publication: Publication, files: list[str]) -> str:
    """The README.md of the hand-in: whose it is, what is where, and the commands that make it again."""
    perplexity = run.get("evaluate", "perplexity")
    commit = publication.origin.commit
    contents = {
        "report/report.pdf": "the paper",
        "report/index.html": "everything that the run shows, on one page that opens offline",
        "report/lab.html": "the model itself, running in a page",
        "plots/": "curves as tables and as pictures",
        "samples/": "what the model wrote: continuations, greedy texts, beams, stories during training, own prompts",
        "settings.yaml": "every parameter of the run, as in params.yaml",
        "model/README.md": "the model card",
        "model/pipeline/": "parameters, hashes (dvc.lock) and figures of the run",
        "model/model.safetensors": "the weights, with config and tokenizer beside them, as transformers loads them",
        "code/": "the code: the files that git tracks",
    }
    there = {
        name: what
        for name, what in contents.items()
        if any(file.startswith(name) for file in files)
    }
    hub = run.param("report", "hub_path")
    head = [
        f"# {hand_in.entry}",
        *([f"Author: {hand_in.author}"] if hand_in.author else []),
        *([f"The model on the Hugging Face hub: {hub}"] if hub else []),
        f"Perplexity on the evaluation split: {number(perplexity)}",
        f"Commit: {commit}, where a + says that the code was edited since"
        if commit
        else "Commit: none",
    ]
    table = [
        "| file | contents |",
        "|---|---|",
        *(f"| `{name}` | {what} |" for name, what in there.items()),
    ]
    use = (
        [
            "",
            "Text from the weights:",
            "",
            *_shell('tinylm generate "once upon a time" --models ../model'),
        ]
        if hand_in.weights
        else []
    )
    again = [
        "To make all of it again:",
        "",
        *_shell("cd code", "make repro", "source .venv/bin/activate"),
        *use,
    ]
    return "\n".join(["\n\n".join(head), "", *table, "", *again]) + "\n"


def _shell(*lines: str) -> list[str]:
    return ["```bash", *lines, "```"]
