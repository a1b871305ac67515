"""tinylm check: everything that can be known before the first stage runs."""

import argparse
import contextlib
import dataclasses
import hashlib
from pathlib import Path

from tinylm.base import paths
from tinylm.base.config import PARAMS_FILE, InputError, load_params
from tinylm.base.files import read_json, write_json
from tinylm.cli.command import CLONE, Command
from tinylm.cli.finding import Finding
from tinylm.host.params import Sections, read_sections

CHECKED = f"{paths.RUNS}/checked.json"


def find() -> list[Finding]:
    """All findings of the current folder; problems in one part do not hide those of another."""
    from tinylm.cli.machine import check_files, check_machine  # these import torch
    from tinylm.cli.rehearsal import rehearse, rules_only

    try:
        read, errors = read_sections(load_params())
        findings = _sections(read, errors)
    except InputError as error:
        read = {}
        findings = [Finding(PARAMS_FILE, "", str(error))]
    files = list(check_files(read))
    if any(finding.problem for finding in files):  # data that cannot be read is not read
        tried = rules_only(read)
    else:
        tried = rehearse(read)
    return [
        *findings,
        *tried.findings,
        *files,
        *check_machine(read, tried.vocab_size, tried.tokens_per_epoch),
    ]


def _sections(read: Sections, errors: list[str]) -> list[Finding]:
    """A line for each section that could be read, and one for each error."""
    findings = []
    for name, settings in read.items():
        count = len(dataclasses.fields(settings))
        findings.append(Finding(name, f"{count} setting{'s' if count > 1 else ''}"))
    return findings + [Finding(PARAMS_FILE, "", error) for error in errors]


def table(findings: list[Finding]) -> str:
    """The findings as aligned columns: what, value, verdict."""
    first = max(len(finding.what) for finding in findings)
    second = max(len(finding.value) for finding in findings)
    return "\n".join(f"{f.what:{first}}  {f.value:{second}}  {f.verdict}" for f in findings)


def _state() -> str:
    """A hash of what was checked: params.yaml, and name, size and time of every file that it names."""
    params = load_params()
    digest = hashlib.sha256(
        Path(PARAMS_FILE).read_bytes()
    )  # not of the values: aliases may multiply without end
    for section in ("data", "vocab", "embedding"):
        path = Path(str((params.get(section) or {}).get("path")))
        for file in [path] if path.is_file() else sorted(path.rglob("[!_]*.*")):
            found = file.stat()
            digest.update(f"{file} {found.st_size} {found.st_mtime_ns}\n".encode())
    return digest.hexdigest()


def _quiet() -> None:
    """Notes and one line; nothing is tried again if all that is checked was in order last time and is the same."""
    with contextlib.suppress(
        InputError, OSError, AttributeError, LookupError, TypeError
    ):  # then the checks below say what is wrong
        if read_json(CHECKED)["state"] == _state():
            print(
                "checked: params.yaml and the data are as they were when nothing was wrong with them"
            )
            return
    findings = find()
    named = [(finding.what, finding.problem) for finding in findings if finding.problem]
    problems = [
        problem if what in problem or PARAMS_FILE in problem else f"{what}: {problem}"
        for what, problem in named
    ]
    if problems:
        raise InputError("\n".join(problems))
    for finding in findings:
        if finding.note:
            print(f"note: {finding.what}: {finding.note}")
    told = [
        f"{finding.what}: {finding.value}"
        for finding in findings
        if finding.what in ("stories", "training time")
    ]
    print("; ".join([f"checked: {len(findings)} points, no problem", *told]))
    write_json(CHECKED, {"state": _state()})


def run(arguments: argparse.Namespace) -> None:
    """Print the table, or only what is wrong or worth a note. Raises InputError if there is a problem."""
    if arguments.quiet:
        _quiet()
        return
    findings = find()
    print(table(findings))
    problems = sum(bool(finding.problem) for finding in findings)
    if problems:
        raise InputError(f"{problems} {'problem' if problems == 1 else 'problems'}, marked above")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The option."""
    parser.add_argument("--quiet", action="store_true", help="print problems, notes and one line")


COMMAND = Command(
    name="check",
    purpose="check params.yaml, data and machine before any work",
    needs=CLONE,
    add_arguments=add_arguments,
    run=run,
    notes="""\
Stories are read, split and encoded as the stages will do it, and compared with what each later
stage needs. Of a large corpus only the beginning is read. `make repro` does this first; where
nothing was wrong and nothing changed since, --quiet does it only once.""",
    examples="""\
  tinylm check && dvc repro
""",
)
