"""The ledger: every claim of the published systems with a status and evidence, from published and recorded figures."""

import inspect
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

from tinylm.report.figures import GAP, Figures, Missing, typeset
from tinylm.report.library import NOT_RUN, Entry, Library, library, write_ledger
from tinylm.studies import ledger_a, ledger_b, ledger_d, ledger_e, ledger_s
from tinylm.studies.claims import Claim

MODULES = {"A": ledger_a, "B": ledger_b, "D": ledger_d, "E": ledger_e, "assignment": ledger_s}
COMPUTED = "tinylm record --ledger"


def claims(module: ModuleType) -> dict[str, Callable[..., Claim]]:
    """The claims of a file by name, in the file's order."""
    defined = vars(module).items()
    return {
        name: f
        for name, f in defined
        if inspect.isgeneratorfunction(f) and f.__module__ == module.__name__
    }


def _argument(name: str, system: str, known: Library) -> tuple[Figures, str]:
    """(the figures that a claim reads by this name, the command that records them or "")."""
    theirs, ours = known.sides(system)
    if name == "ours":
        return ours, f"tinylm preset {theirs.preset} && dvc repro && tinylm record {theirs.preset}"
    published = {
        "theirs": theirs,
        "course_a": known.published.A,
        "assignment": known.published.assignment,
    }
    if name in published:
        return published[name], ""
    return known.studies[name], f"tinylm study {name.replace('_', '-')}"


def decide(name: str, claim: Callable[..., Claim], system: str, known: Library) -> Entry:
    """A claim with its status and the available evidence."""
    read = {
        parameter: _argument(parameter, system, known)
        for parameter in inspect.signature(claim).parameters
    }
    texts, status = list[str](), NOT_RUN
    try:
        for text in claim(*(figures for figures, _ in read.values())):
            texts.append(text)
        status = texts.pop()
    except (Missing, ZeroDivisionError):
        pass
    said, *evidence = map(typeset, texts)
    return Entry(
        f"{'S' if system == 'assignment' else system}-{name.replace('_', '-')}",
        system,
        known.published[system].kind,
        said,
        status,
        " ".join(text for text in evidence if GAP not in text),
        "; ".join(filter(None, (command for _, command in read.values()))) or COMPUTED,
    )


def entries(known: Library) -> list[Entry]:
    """The whole ledger."""
    return [
        decide(name, claim, system, known)
        for system, module in MODULES.items()
        for name, claim in claims(module).items()
    ]


def renew(folder: str | Path = ".") -> list[Entry]:
    """Write docs/ledger.yaml from what is published and recorded; returns the entries."""
    ledger = entries(library(folder))
    write_ledger(ledger, folder)
    return ledger
