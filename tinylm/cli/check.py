"""tinylm check: check params.yaml, data and machine before any work.

Every section and the rules between sections, the files that params.yaml names, device, git and DVC.
`make repro` does this first. What needs the stories or the vocabulary is checked at the start of
the stage that reads them.
"""

import argparse
import dataclasses
import importlib.util
import os
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from tinylm.base import paths
from tinylm.base.config import MOVED, PARAMS_FILE, InputError, load_params
from tinylm.base.files import read_json
from tinylm.cli.command import CLONE
from tinylm.host.params import (
    Sections,
    linked_outputs,
    read_sections,
    rule_errors,
    vector_file_errors,
)

NEEDS = CLONE
EXAMPLES = """\
  tinylm check && dvc repro
"""
QUICK_BYTES = 20_000_000  # of a corpus that is read in seconds
FROM_HUB = "set it, or tinylm preset NAME --hub, with data from the Hugging Face hub"
REPOSITORY = {  # what DVC needs, and how to get it
    ".git": "type: git init && git add . && git commit -m start",
    ".dvc": "dvc init, or run in the clone",
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The option."""
    parser.add_argument("--quiet", action="store_true", help="print problems, notes and one line")


@dataclasses.dataclass
class Finding:
    """One line of the table: what was checked, its value, and what is wrong or worth a note."""

    what: str
    value: str
    problem: str = ""
    note: str = ""

    def __str__(self) -> str:
        verdict = "ok"
        if self.problem:
            verdict = f"problem: {self.problem}"
        elif self.note:
            verdict = f"note: {self.note}"
        return f"{self.what:17}  {self.value:38}  {verdict}"


def check_params() -> tuple[Sections, list[Finding]]:
    """The sections of params.yaml without an error, and what was found in the file."""
    try:
        sections, errors = read_sections(load_params())
    except InputError as error:
        return {}, [Finding(PARAMS_FILE, "", str(error))]
    errors += rule_errors(sections)
    findings = []
    for name, settings in sections.items():
        findings.append(Finding(name, f"{len(dataclasses.fields(settings))} settings"))
    return sections, findings + [Finding(PARAMS_FILE, "", error) for error in errors]


def _readable(key: str, name: str) -> Finding:
    """A file or folder that params.yaml names; dvc.yaml lists it, so it must be there."""
    finding = Finding(key, name)
    if not os.path.exists(name):
        moved = f"; since release 0.3.0 it is {MOVED[name]}" if name in MOVED else ""
        finding.problem = f"params.yaml: {key} = {name!r}: no such file or folder{moved}"
    elif not os.access(name, os.R_OK):
        finding.problem = f"params.yaml: {key} = {name!r}: no permission to read it"
    if os.path.normpath(name).startswith(".."):
        finding.note = "dvc exp run --temp or --queue needs its absolute path"
    return finding


def _corpus(data: Any) -> Finding:
    """Whether the corpus is there, in a format that stage download reads; what it would warn of."""
    from tinylm.presets.write import hub_names, preset_values

    finding = _readable("data.path", data.path)
    if finding.problem:
        if data.path in {preset_values(name)["data.path"] for name in hub_names()}:
            finding.problem += f"; {FROM_HUB}"
    elif data.source == "hub":
        finding = Finding("data.hub_id", data.hub_id, note="checked by stage download")
    elif data.source == "local":
        try:
            finding.note = "; ".join(filter(None, [finding.note, *_corpus_notes(data)]))
        except InputError as error:
            finding.problem = str(error)
    return finding


def _corpus_notes(data: Any) -> list[str]:
    """Files that are not read, and near-copies between the splits. Raises InputError.

    A small corpus is split in a temporary folder, as stage download does it.
    """
    from tinylm.download.splits import open_source, write_stories

    source = open_source(data)
    notes = []
    if source.description["left_out"]:
        notes.append(f"not read: {', '.join(source.description['left_out'])}")
    if source.size <= QUICK_BYTES and data.held_out == "hash":
        with tempfile.TemporaryDirectory() as folder:
            corpus = write_stories(data, folder, every_s=3600)
        return notes + corpus["near_copies"]["warnings"]
    next(source.train(), None)
    stage = "download" if data.held_out == "hash" else "vocab"
    return [*notes, f"near-copies between splits are counted by stage {stage}"]


def check_files(sections: Sections) -> Iterator[Finding]:
    """The corpus, the vocabulary and the word vectors that params.yaml names."""
    if "data" in sections:
        yield _corpus(sections["data"])
    if "vocab" in sections and sections["vocab"].path:
        yield _readable("vocab.path", sections["vocab"].path)
    if "embedding" in sections:
        finding = _readable("embedding.path", sections["embedding"].path)
        finding.problem = finding.problem or "; ".join(vector_file_errors(sections))
        yield finding


def check_machine(sections: Sections) -> Iterator[Finding]:
    """Cores, device and logger that section `runtime` names."""
    from tinylm.base.machine import pick_device
    from tinylm.host.runtime import conditions
    from tinylm.host.workers import cores

    runtime = sections.get("runtime")
    if runtime is None:
        return
    note = ""
    if runtime.threads > cores():
        note = f"runtime.threads = {runtime.threads}: more than the cores; slower"
    yield Finding("threads", f"{runtime.threads} on {cores()} cores", note=note)
    try:
        device = pick_device(runtime.device)
        yield Finding("device", f"{runtime.device}: {device}")
        yield from _environments(conditions(device, runtime.threads))
    except InputError as error:
        yield Finding("device", runtime.device, str(error))
    if runtime.logger != "none" and importlib.util.find_spec(runtime.logger) is None:
        problem = f"not installed; pip install {runtime.logger}, or none"
        yield Finding("runtime.logger", runtime.logger, problem)


def _environments(here: Mapping[str, Any]) -> Iterator[Finding]:
    """A note on each stage whose cached results are from another environment than this one."""
    for path in sorted(Path(paths.FIGURES).glob("*.json")):
        try:
            environment = read_json(path).get("environment", {})
        except InputError:
            continue  # the stage that reads it says so
        others = []
        for key, value in environment.items():
            is_share = key == "threads" and "processes" in environment  # of one process
            if key in here and here[key] != value and not is_share:
                others.append(f"{key} {value}")
        if others:
            note = f"cached results are from {', '.join(others)}; dvc repro -f -s {path.stem}"
            yield Finding(path.stem, str(path), note=note)


def check_repository() -> Iterator[Finding]:
    """git, DVC and the folders of outputs."""
    here = Path.cwd()
    for name, repair in REPOSITORY.items():
        folders = [folder for folder in (here, *here.parents) if (folder / name).exists()]
        problem = "" if folders else f"no {name} here; {repair}"
        yield Finding(name.removeprefix("."), str(folders[0] if folders else "none"), problem)
    for line in linked_outputs():
        yield Finding(line.split()[0], "a link", line)


def find_all() -> list[Finding]:
    """All findings of the current folder; problems in one part do not hide those of another."""
    sections, findings = check_params()
    findings += check_files(sections)
    findings += check_machine(sections)
    findings += check_repository()
    return findings


def run(arguments: argparse.Namespace) -> None:
    """Print the table, or with --quiet only what is wrong or worth a note.

    Raises InputError if there is a problem.
    """
    findings = find_all()
    for finding in findings:
        if not arguments.quiet:
            print(finding)
        elif finding.note:
            print(f"note: {finding.what}: {finding.note}")
    problems = [finding.problem for finding in findings if finding.problem]
    if problems:
        raise InputError("\n".join(problems) if arguments.quiet else "see the problems above")
    if arguments.quiet:
        print(f"checked: {len(findings)} points, no problem")
