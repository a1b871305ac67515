"""Check params.yaml, the data and this machine before a run.

Prints problems in each section, between sections and in the files that params.yaml names, and notes
on what may surprise you, then how long a run will take. `make repro` does this first. What needs
the stories or the vocabulary is checked at the start of the stage that reads them.
"""

import argparse
import dataclasses
import os
from pathlib import Path
from typing import Any

from tinylm.base.config import PARAMS_FILE, InputError, load_params
from tinylm.base.files import write_json
from tinylm.cli.command import check_clone
from tinylm.params import estimate
from tinylm.params.params import params_from, read_params, read_sections

EXAMPLES = "  tinylm check && dvc repro\n"
LONG_S = 600  # a longer estimate comes with a suggestion
FROM_HUB = "; tinylm preset NAME --hub takes data from the Hugging Face hub"


@dataclasses.dataclass
class Findings:
    """A line for each problem, and for each point that is worth a note."""

    problems: list[str] = dataclasses.field(default_factory=list)
    notes: list[str] = dataclasses.field(default_factory=list)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """There are none."""


def check_params(findings: Findings) -> dict[str, Any]:
    """The settings of each section of params.yaml without an error."""
    sections: dict[str, Any] = {}
    try:
        values = load_params()
        sections, _ = read_sections(values)
        params_from(values)
    except InputError as error:
        findings.problems += str(error).splitlines()
    return sections


def _is_readable(key: str, name: str, findings: Findings) -> bool:
    """Whether a file or folder of params.yaml is there, as it must be, since dvc.yaml lists it."""
    if os.path.normpath(name).startswith(".."):
        findings.notes.append(f"{key}: dvc exp run --temp or --queue needs its absolute path")
    if os.access(name, os.R_OK):
        return True
    findings.problems.append(
        f"{PARAMS_FILE}: {key}: expected a readable file or folder, got {name!r}"
    )
    return False


def _check_corpus(data: Any, findings: Findings) -> None:
    """Whether stage download can read the corpus."""
    from tinylm.download.splits import open_source

    if not _is_readable("data.path", data.path, findings):
        findings.problems[-1] += FROM_HUB
    elif data.source == "local":
        try:
            source = open_source(data)
            if not source.size:
                raise InputError(
                    f"{PARAMS_FILE}: data.path: expected files with stories, but {data.path!r} is empty"
                )
            next(source.rows("train"), None)
        except InputError as error:
            findings.problems.append(str(error))
            return


def _check_vectors(embedding: Any, findings: Findings) -> None:
    """Whether stage vocab can read the file of word vectors, if the settings name one."""
    from tinylm.embedding.source import check_vectors

    if embedding.source == "file" and embedding.hub is None:
        try:
            check_vectors(Path(embedding.path), embedding.width)
        except InputError as error:
            findings.problems.append(str(error))


def _check_gpt2(vocab: Any, findings: Findings) -> None:
    """Whether stage vocab can read GPT-2's vocabulary, if the settings need it."""
    from tinylm.vocab.gpt2 import load_gpt2

    if vocab.tokenizer == "gpt2":
        try:
            load_gpt2(vocab)
        except InputError as error:
            findings.problems.append(str(error))


def check_files(sections: dict[str, Any], findings: Findings) -> None:
    """The corpus, the vocabulary and the word vectors that params.yaml names."""
    if "data" in sections:
        _check_corpus(sections["data"], findings)
    vocab = sections.get("vocab")
    if vocab and vocab.path and _is_readable("vocab.path", vocab.path, findings):
        _check_gpt2(vocab, findings)
    embedding = sections.get("embedding")
    if embedding and _is_readable("embedding.path", embedding.path, findings):
        _check_vectors(embedding, findings)


def check_machine(sections: dict[str, Any], findings: Findings) -> None:
    """Cores and device that section `runtime` names."""
    from tinylm.base.machine import pick_device
    from tinylm.host.processes import cores, useful_cores

    runtime = sections.get("runtime")
    if runtime is None:
        return
    if runtime.threads > cores():
        findings.notes.append(
            f"runtime.threads: {runtime.threads} is slower than {cores()}, the number of cores"
        )
    elif runtime.threads < useful_cores():
        findings.notes.append(f"runtime.threads: auto uses {useful_cores()} cores, which is faster")
    try:
        device = pick_device(runtime.device)
        if "train" in sections:
            sections["train"].resolved(device)
    except InputError as error:
        findings.problems.append(str(error))


def find_all() -> Findings:
    """All findings of the current folder; problems in one part do not hide those of another."""
    findings = Findings()
    sections = check_params(findings)
    check_files(sections, findings)
    check_machine(sections, findings)
    return findings


def run(arguments: argparse.Namespace) -> None:
    """Print the notes. Raises InputError with a line for each problem, if there is one."""
    check_clone()
    findings = find_all()
    for note in findings.notes:
        print(f"note: {note}")
    if findings.problems:
        raise InputError("\n".join(findings.problems))
    print("checked: no problems found")
    print(_duration())


def _duration() -> str:
    """Estimate how long a run of all stages takes here, and keep that for the stages to show."""
    params = read_params()
    seconds = estimate.stage_seconds(params, *estimate.measure(params))
    write_json(estimate.FILE, seconds)
    total = sum(seconds.values())
    line = f"all stages: {estimate.in_words(total)} on this machine, of which train {estimate.in_words(seconds['train'])}"
    return line + ("; make quick is a shorter run" if total > LONG_S else "")
