"""What a course asks to hand in, as one zip."""

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
EARLIEST = (1980, 1, 1, 0, 0, 0)  # that a zip can hold, so that equal files give equal bytes
FILE_MODE = 0o644 << 16
CONTENTS = {  # beginning of the names: what it is
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
README = """\
# {{ entry }}

{% if author %}
Author: {{ author }}

{% endif %}
{% if hub %}
The model on the Hugging Face hub: {{ hub }}

{% endif %}
Perplexity on the evaluation split: {{ perplexity }}

Commit: {{ commit }}

| file | contents |
|---|---|
{% for name, contents in rows %}
| `{{ name }}` | {{ contents }} |
{% endfor %}

To make all of it again:

```bash
cd code
make repro
source .venv/bin/activate
```
{% if weights %}

Text from the weights:

```bash
tinylm generate "once upon a time" --models ../model
```
{% endif %}
"""


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
    files = _run_files(hand_in, run, code, root)
    target = root / EXPORTS / f"{hand_in.entry}.zip"
    with tempfile.TemporaryDirectory() as scratch:
        model = Path(scratch) / "model"
        for name in build(model, run, publication, export, root):
            files[f"model/{name}"] = model / name
        contents = {name: path.read_bytes() for name, path in files.items()}
    if paths.REPORT_LAB not in contents:  # then the page's link to it would lead nowhere
        contents[paths.REPORT_PAGE] = _TO_THE_LAB.sub(b"", contents[paths.REPORT_PAGE])
    contents["README.md"] = readme(hand_in, run, publication, sorted(files)).encode()
    with atomic_write(target, "wb") as handle, zipfile.ZipFile(handle, "w") as archive:
        for name in sorted(contents):
            info = zipfile.ZipInfo(f"{hand_in.entry}/{name}", EARLIEST)
            info.create_system = 3  # Unix, whatever wrote it
            info.external_attr = FILE_MODE
            archive.writestr(info, contents[name])
    return target, sorted(contents)


def _run_files(hand_in: HandIn, run: Run, code: list[str], root: Path) -> dict[str, Path]:
    """{name in the zip: file} of all but the model."""
    files = {f"code/{name}": root / name for name in code}
    files["settings.yaml"] = root / PARAMS_FILE
    for name in (paths.REPORT_PDF, paths.REPORT_PAGE):
        files[f"report/{Path(name).name}"] = root / name
    if hand_in.weights and (root / paths.REPORT_LAB).is_file():  # it holds the weights
        files[paths.REPORT_LAB] = root / paths.REPORT_LAB
    for picture in (root / paths.PICTURES).glob("*.png"):
        files[f"plots/{picture.name}"] = picture
    for name in run.files:
        if name not in FILES:
            continue
        path = FILES[name][0]
        if path.startswith(f"{paths.PLOTS}/"):
            files[path] = root / path
        if name in SAMPLES:
            files[f"samples/{name}{Path(path).suffix}"] = root / path
    if (root / paths.OWN_TEXTS).is_file():
        files["samples/own_texts.json"] = root / paths.OWN_TEXTS
    return files


def readme(hand_in: HandIn, run: Run, publication: Publication, files: list[str]) -> str:
    """README.md of the hand-in: whose it is, what each file is, and how to make it again."""
    from jinja2 import Environment

    rows = []
    for name, contents in CONTENTS.items():
        if any(file.startswith(name) for file in files):
            rows.append((name, contents))
    commit = publication.origin.commit
    template = Environment(trim_blocks=True, keep_trailing_newline=True).from_string(README)
    return template.render(
        entry=hand_in.entry,
        author=hand_in.author,
        hub=run.param("report", "hub_path"),
        perplexity=number(run.get("evaluate", "perplexity")),
        commit=f"{commit}, where a + says that the code was edited since" if commit else "none",
        rows=rows,
        weights=hand_in.weights,
    )
