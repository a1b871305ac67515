"""make mutants: change one small thing in a module, run the tests of its rooms, and see whether one of them fails.

    python -m tests.mutants.run                                 every module of tests/mutants/targets.py
    python -m tests.mutants.run tinylm/base/files.py            one
    python -m tests.mutants.run --continue --seconds 170        go on where the last call stopped, for so long
    python -m tests.mutants.run --survivors                     only those that survived the last call
    python -m tests.mutants.run --sample 80                     80 of each module, the same ones each time
    python -m tests.mutants.run --continue --page               write the table into docs/reference/mutants.md

Modules are changed in copies of the working tree, never in it. A mutant gets the tests that run its lines, quickest
first, up to the first that fails; one that a line's import runs, all tests of its rooms. It may use 5 s of processor
time and three times what its tests use on the unchanged module: a mutant that needs more is a timeout, which counts as
noticed. Outcomes are kept in .mutants/, one JSON a module; the survivors are printed after the table.
"""

import argparse
import hashlib
import json
import os
import tempfile
import time
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.mutants.mutate import Mutant, mutants
from tests.mutants.plugin import Recorder
from tests.mutants.targets import NOT_ASKED, TARGETS
from tests.mutants.workers import OPTIONS, ROOT, Workers, forked
from tinylm.host.runtime import Progress

KEPT = Path(".mutants")
PAGE, BEGIN, END = ROOT / "docs/reference/mutants.md", "<!-- mutants -->\n", "<!-- /mutants -->"


def record(copy: Path, module: str, tests: list[str]) -> dict[str, Any]:
    """Seconds of each test on the unchanged module, and the tests of each of its lines."""
    answer = copy.with_suffix(".json")

    def work() -> int:
        recorder = Recorder(str(copy / module))
        pytest.main(
            [*OPTIONS, f"--basetemp={copy}.tmp", *tests, *(f"--deselect={test}" for test in NOT_ASKED)],
            plugins=[recorder],
        )
        answer.write_text(json.dumps(recorder.result()))
        return 0

    os.waitpid(forked(copy, work, 600), 0)
    return json.loads(answer.read_text())


def witnesses(mutant: Mutant, recorded: dict[str, Any]) -> list[str]:
    """The tests that run the mutant's lines or other processes, those of the quickest file first; all where an import
    runs the lines."""
    seconds: dict[str, float] = recorded["seconds"]
    first, last = mutant.lines
    found = {test for line in range(first, last + 1) for test in recorded["lines"].get(str(line), [""])}
    chosen = set(seconds) if "" in found and len(found) == 1 else (found | set(recorded["apart"])) & set(seconds)
    files: dict[str, float] = {}
    for test in chosen:
        files[test.partition("::")[0]] = files.get(test.partition("::")[0], 0.0) + seconds[test]
    return sorted(chosen, key=lambda test: (files[test.partition("::")[0]], test.partition("::")[0], seconds[test]))


def measure(
    workers: Workers, module: str, known: dict[str, str], again: set[str], deadline: float, sample: int | None
) -> dict[str, Any]:
    """Outcome of every mutant of a module (of a `sample` of so many) that is not `known`, or is with one of `again`."""
    source = (ROOT / module).read_text(encoding="utf-8")
    found = {hashlib.sha256(mutant.source.encode()).hexdigest()[:12]: mutant for mutant in mutants(source)}
    result = {
        name: {"line": mutant.lines[0], "change": mutant.change, "outcome": known.get(name, "")}
        for name, mutant in found.items()
    }
    drawn = set(sorted(found)[:sample])  # by their hashes: as good as chance, and the same ones each time
    asked = [name for name, told in result.items() if name in drawn and told["outcome"] in again]
    if not asked or time.monotonic() > deadline:
        return result
    print(f"{module}: {len(asked)} mutants; its tests are run once first", flush=True)
    recorded = record(workers.all[0], module, TARGETS[module])
    assert recorded["seconds"], f"{module}: no test of its rooms passes"
    with Progress(module, len(asked), "mutants", every_s=30.0) as progress:
        for name in asked:
            progress.advance(1)
            tests = witnesses(found[name], recorded)
            if not tests:
                result[name]["outcome"] = "survived"  # no test comes here
            elif time.monotonic() <= deadline:
                seconds, source_of = sum(recorded["seconds"][test] for test in tests), found[name].source
                workers.start(
                    module, source_of, tests, seconds, lambda said, name=name: result[name].update(outcome=said)
                )
    while workers.running:
        workers.wait()
    for copy in workers.all:
        workers.put(copy, module, source)
    return result


def row(name: str, found: list[dict[str, Any]]) -> str:
    """A line of the table."""
    count = {said: sum(m["outcome"] == said for m in found) for said in ("killed", "survived", "timeout", "broken", "")}
    seen = len(found) - count[""]
    share = f"{(count['killed'] + count['timeout']) / seen:.1%}" if seen else "-"
    left = f"  ({count['']} not run)" * bool(count[""]) + f"  ({count['broken']} broken)" * bool(count["broken"])
    return f"| {name} | {seen} | {count['killed']} | {count['survived']} | {count['timeout']} | {share} |{left}"


def table(results: dict[str, dict[str, Any]]) -> str:
    """A line a module, and one for all."""
    lines = ["| module | mutants | killed | survived | timeout | share |", "|---|---|---|---|---|---|"]
    lines += [row(module, list(found.values())) for module, found in results.items()]
    lines.append(row("all", [m for found in results.values() for m in found.values()]))
    return "\n".join(lines)


def survivors(results: dict[str, dict[str, Any]]) -> str:
    """A line for every mutant that no test noticed."""
    lines: list[str] = []
    for module, found in results.items():
        lines += [f"{module}:{m['line']}: {m['change']}" for m in found.values() if m["outcome"] == "survived"]
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(prog="tests.mutants.run")
    parser.add_argument("modules", nargs="*", default=list(TARGETS), metavar="MODULE")
    parser.add_argument("--workers", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--seconds", type=float, default=float("inf"))
    parser.add_argument("--sample", type=int, metavar="N")
    parser.add_argument("--continue", dest="go_on", action="store_true")
    parser.add_argument("--survivors", action="store_true")
    parser.add_argument("--page", action="store_true")
    options = parser.parse_args()
    os.environ |= {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "OMP_NUM_THREADS": "1"}
    torch.set_num_threads(1)
    KEPT.mkdir(exist_ok=True)
    deadline, results = time.monotonic() + options.seconds, {}
    again = {"survived", "broken"} if options.survivors else {""}
    with tempfile.TemporaryDirectory(prefix="mutants") as folder:
        workers = Workers(Path(folder), options.workers)
        for module in options.modules:
            file = KEPT / f"{module.replace('/', '.')}.json"
            old = json.loads(file.read_text()) if file.exists() and (options.go_on or options.survivors) else {}
            known = {name: mutant["outcome"] for name, mutant in old.items()}
            if not old or options.survivors or "" in known.values():
                old = measure(workers, module, known, again, deadline, options.sample)
                file.write_text(json.dumps(old, indent=1, ensure_ascii=False) + "\n")
            results[module] = old
            print(row(module, list(old.values())), flush=True)
            if time.monotonic() > deadline:
                break
    print(table(results), survivors(results), sep="\n")
    if options.page:
        before, _, rest = PAGE.read_text(encoding="utf-8").partition(BEGIN)
        PAGE.write_text(f"{before}{BEGIN}{table(results)}\n{END}{rest.partition(END)[2]}", encoding="utf-8")


if __name__ == "__main__":
    main()
