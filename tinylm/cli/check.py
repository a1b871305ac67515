"""tinylm check: params.yaml, the files that it names and the machine, before any stage runs.

Only what is quick is checked. Each stage checks at its start what needs the data it reads.
"""

import argparse
import dataclasses
import importlib.util
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

from tinylm.base import paths
from tinylm.base.config import PARAMS_FILE, InputError, load_params
from tinylm.cli.command import CLONE, Command
from tinylm.host.params import (
    Sections,
    linked_outputs,
    read_sections,
    rule_errors,
    vector_file_errors,
)

FOLDERS = (*paths.OUTPUTS, paths.RUNS)
GIB = 2**30
FROM_HUB = "set it, or tinylm preset NAME --hub, with data from the Hugging Face hub"
GIT = "git init && git add . && git commit -m start"


@dataclasses.dataclass(frozen=True)
class Finding:
    """One line of the table: what was checked, its value, and what is wrong or worth a note."""

    what: str
    value: str
    problem: str = ""
    note: str = ""

    @property
    def verdict(self) -> str:
        """ok, the note or the problem."""
        if self.problem:
            return f"problem: {self.problem}"
        return f"note: {self.note}" if self.note else "ok"


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
    path = Path(name)
    if not os.path.exists(path):  # unlike Path.exists, it treats a name that is too long as missing
        home = "; '~' stands for nothing in params.yaml" if name.startswith("~") else ""
        return Finding(key, name, f"params.yaml: {key} = {name!r}: no such file or folder{home}")
    if not os.access(path, os.R_OK | (os.X_OK if path.is_dir() else 0)):
        return Finding(key, name, f"params.yaml: {key} = {name!r}: no permission to read it")
    return Finding(key, name)


def _corpus(sections: Sections) -> Finding:
    """Whether the corpus is there, in a format that stage download reads."""
    from tinylm.download.splits import open_source
    from tinylm.presets.write import hub_names, preset_values

    data = sections["data"]
    finding = _readable("data.path", data.path)
    if finding.problem:
        if data.path in {preset_values(name)["data.path"] for name in hub_names()}:
            return dataclasses.replace(finding, problem=f"{finding.problem}; {FROM_HUB}")
        return finding
    if data.source == "hub":
        return Finding("data.hub_id", data.hub_id, note="asked for when download runs")
    if data.source == "local":
        try:
            next(open_source(data).train(), None)
        except InputError as error:
            return Finding("data.path", data.path, str(error))
    return finding


def check_files(sections: Sections) -> Iterator[Finding]:
    """The corpus, the vocabulary and the word vectors that params.yaml names."""
    if "data" in sections:
        yield _corpus(sections)
    if "vocab" in sections and sections["vocab"].path:
        yield _readable("vocab.path", sections["vocab"].path)
    if "embedding" in sections:
        path = sections["embedding"].path
        finding = _readable("embedding.path", path)
        if not finding.problem:
            errors = vector_file_errors(sections)
            finding = Finding("embedding.path", path, "; ".join(errors))
        yield finding


def check_machine(sections: Sections) -> Iterator[Finding]:
    """Cores, device and logger that section `runtime` names."""
    from tinylm.base.machine import pick_device
    from tinylm.host.workers import cores

    runtime = sections.get("runtime")
    if runtime is None:
        return
    note = ""
    if runtime.threads > cores():
        note = f"runtime.threads = {runtime.threads}: more than the cores; slower"
    yield Finding("threads", f"{runtime.threads} on {cores()} cores", note=note)
    try:
        yield Finding("device", f"{runtime.device}: {pick_device(runtime.device)}")
    except InputError as error:
        yield Finding("device", runtime.device, str(error))
    if runtime.logger != "none" and importlib.util.find_spec(runtime.logger) is None:
        problem = f"not installed; pip install {runtime.logger}, or none"
        yield Finding("runtime.logger", runtime.logger, problem)


def check_room(sections: Sections) -> Iterator[Finding]:
    """Disk and memory that a run takes, by estimates."""
    import psutil

    from tinylm.cli.estimates import disk_and_memory

    disk, memory = disk_and_memory(sections)
    free = shutil.disk_usage(".").free / GIB
    needed = disk / GIB
    problem = ""
    if needed > free:
        problem = f"disk: about {needed:.1f} GiB needed, {free:.1f} free"
    yield Finding("disk", f"{free:,.1f} GiB free, about {needed:.2f} needed", problem)
    if memory is None:
        return
    free = psutil.virtual_memory().available / GIB
    needed = memory / GIB
    problem = ""
    if needed > free and getattr(sections.get("runtime"), "device", "") != "cuda":
        problem = (
            f"memory: about {needed:.1f} GiB needed, {free:.1f} free; lower "
            "train.batch_size or model.context, or set train.recompute"
        )
    yield Finding("memory", f"{free:,.1f} GiB free, about {needed:.2f} needed to train", problem)


def _above(name: str) -> Path | None:
    """The nearest folder, from here upwards, that contains `name`."""
    here = Path.cwd()
    return next((folder for folder in (here, *here.parents) if (folder / name).exists()), None)


def check_repository() -> Iterator[Finding]:
    """git, DVC and the folders of outputs."""
    git = _above(".git")
    dvc = _above(".dvc")
    problem = "" if git else f"no git repository here, which DVC needs; type: {GIT}"
    yield Finding("git", str(git or "none"), problem)
    problem = "" if dvc else "no .dvc folder here; dvc init, or run in the clone"
    yield Finding("dvc", str(dvc or "none"), problem)
    for line in linked_outputs():
        yield Finding(line.split()[0], "a link", line)
    locked = []
    for name in (".", *FOLDERS):
        if Path(name).exists() and not os.access(name, os.W_OK):
            locked.append(name)
    problem = f"no permission to write to {', '.join(locked)}" if locked else ""
    yield Finding("folders", "written to by the stages", problem)


def find_all() -> list[Finding]:
    """All findings of the current folder; problems in one part do not hide those of another."""
    sections, findings = check_params()
    for check in (check_files, check_machine, check_room):
        findings += check(sections)
    findings += check_repository()
    return findings


def table(findings: list[Finding]) -> str:
    """The findings as aligned columns: what, value, verdict."""
    first = max(len(finding.what) for finding in findings)
    second = max(len(finding.value) for finding in findings)
    return "\n".join(f"{f.what:{first}}  {f.value:{second}}  {f.verdict}" for f in findings)


def run(arguments: argparse.Namespace) -> None:
    """Print the table, or with --quiet only what is wrong or worth a note.

    Raises InputError if there is a problem.
    """
    findings = find_all()
    problems = [finding.problem for finding in findings if finding.problem]
    if problems and arguments.quiet:
        raise InputError("\n".join(problems))
    if arguments.quiet:
        for finding in findings:
            if finding.note:
                print(f"note: {finding.what}: {finding.note}")
        print(f"checked: {len(findings)} points, no problem")
        return
    print(table(findings))
    if problems:
        count = "1 problem" if len(problems) == 1 else f"{len(problems)} problems"
        raise InputError(f"{count}, marked above")


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
Every section and the rules between sections, the files that params.yaml names, disk, memory and
device. `make repro` does this first. What needs the stories or the vocabulary is checked at the
start of the stage that reads them.""",
    examples="""\
  tinylm check && dvc repro
""",
)
