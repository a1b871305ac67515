"""What a course asks to hand in, as one zip, whose README says where each question is answered."""

import dataclasses
import re
import tempfile
import zipfile
from functools import cache
from pathlib import Path

from tinylm.base import paths
from tinylm.base.config import PARAMS_FILE, InputError, parse_yaml
from tinylm.base.files import atomic_write
from tinylm.exchange.card import Publication
from tinylm.exchange.publish import EXPORTS, build
from tinylm.report.wording import number
from tinylm.run.finished_run import FILES, FinishedRun
from tinylm.run.trained_model import TrainedModel

TEXTS = ("samples", "beams")  # tables of what the model wrote
_ENTRY = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._-]{0,62}[A-Za-z0-9])?")
_PARTS = Path(__file__).with_name("assignment.yaml")
HUB = "The trained model on the Hugging Face hub"  # a part; answered with report.hub_path
NOT_NEEDED = ("tests/", "benchmarks/", "studies/", "docs/lab/")  # to make the results again
README = """\
# {entry}

Author: {author}

Authorship: {authorship}

Perplexity on the evaluation split: {perplexity}

## Where each part of the assignment is answered

Sections have the same names in `report/report.pdf` and `report/index.html`; pictures are in `plots`, code in `code`.

| part | section | pictures and files | code | command, in `code` |
|---|---|---|---|---|
{parts}

`report/lab.html` runs the model in a browser. `settings.yaml` has every parameter of the run, `model/README.md` is the model
card, and `model/pipeline` has the run's hashes (dvc.lock), metrics and times.

## Reproduce the run

DVC needs a git repository. The last command sets up everything and runs the pipeline.

```bash
cd code
git init -q
make repro
```

Afterwards the report is in `code/report`, and the results are in `code/data/figures`. On the same kind of machine and with
the same number of threads, the results equal those in `model/pipeline/data/figures`; times differ.
"""
WEIGHTS = """
The folder `model` also has the weights. To use them after the commands above, run:

```bash
source .venv/bin/activate
tinylm generate "once upon a time" --models ../model
```
"""


@dataclasses.dataclass(frozen=True)
class AssignmentPart:
    """A part of the assignment and where it is answered; see assignment.yaml."""

    part: str
    section: str
    code: list[str]
    command: str
    files: list[str] = dataclasses.field(default_factory=list)

    def row(self, names: set[str]) -> str:
        """Its row of the README's table, with those files that are in the zip."""
        anchor = self.section.lower().replace(" ", "-")
        link = f"[{self.section}](report/index.html#{anchor})"
        there = ", ".join(f"`{name}`" for name in self.files if name in names)
        code = ", ".join(f"`{name}`" for name in self.code)
        return f"| {self.part} | {link} | {there} | {code} | `{self.command}` |"


@cache
def parts() -> list[AssignmentPart]:
    """All parts, in the assignment's order."""
    values_of = parse_yaml(_PARTS.read_text("utf-8"), _PARTS.name)
    return [AssignmentPart(part, **values) for part, values in values_of.items()]


def check_entry(entry: str) -> str:
    """The name of the zip. Raises InputError for what is no file name."""
    if not _ENTRY.fullmatch(entry):
        raise InputError(
            "ENTRY: expected at most 64 letters a to z, digits, . _ and -, such as 2026-12345, "
            f"got {entry!r}"
        )
    return entry


@dataclasses.dataclass(frozen=True)
class HandIn:
    """Who hands in what. entry: the zip's name. code: its files; authorship: whose code it is."""

    entry: str
    author: str | None
    code: list[str]
    authorship: str


def write_hand_in(
    hand_in: HandIn, run: FinishedRun, publication: Publication, trained: TrainedModel
) -> tuple[Path, list[str]]:
    """Write exports/ENTRY.zip from the working folder; returns its path and the files in it.

    Equal files give equal bytes: names sorted, times fixed, no compression.
    """
    files = _run_files(run, hand_in.code)
    with tempfile.TemporaryDirectory() as scratch:
        model = Path(scratch) / "model"
        for name in build(model, run, publication, trained):
            files[f"model/{name}"] = model / name
        contents = {name: path.read_bytes() for name, path in files.items()}
    on_hub = "/" in publication.repo
    text = README.format(
        entry=hand_in.entry,
        author=hand_in.author or "not named",
        authorship=hand_in.authorship,
        perplexity=number(run.evaluate.perplexity if run.evaluate else None),
        parts="\n".join(part.row(set(files)) for part in parts() if on_hub or part.part != HUB),
    )
    if publication.weights:
        text += WEIGHTS
    contents["README.md"] = text.encode()
    return write_zip(hand_in.entry, contents), sorted(contents)


def write_zip(entry: str, contents: dict[str, bytes]) -> Path:
    """Write exports/ENTRY.zip with these files in a folder ENTRY; returns its path."""
    target = EXPORTS / f"{entry}.zip"
    with atomic_write(target, "wb") as handle, zipfile.ZipFile(handle, "w") as archive:
        for name in sorted(contents):
            info = zipfile.ZipInfo(f"{entry}/{name}")  # dated 1980, for equal bytes
            info.create_system = 3  # always Unix
            archive.writestr(info, contents[name])
    return target


def _run_files(run: FinishedRun, code: list[str]) -> dict[str, Path]:
    """{name in the zip: file} of all but the model."""
    files = {f"code/{name}": Path(name) for name in code}
    files["settings.yaml"] = Path(PARAMS_FILE)
    for name in (paths.REPORT_PDF, paths.REPORT_PAGE, paths.REPORT_LAB):
        files[f"report/{Path(name).name}"] = Path(name)
    for picture in Path(paths.PICTURES).glob("*.svg"):
        files[f"plots/{picture.name}"] = picture
    for curve in Path(paths.PLOTS).glob("*.csv"):
        files[f"plots/{curve.name}"] = curve
    for name in TEXTS:
        file = FILES[f"tables.{name}"]
        if run.has(f"tables.{name}"):
            files[f"samples/{name}{Path(file.path).suffix}"] = Path(file.path)
    return {name: path for name, path in files.items() if path.is_file()}
