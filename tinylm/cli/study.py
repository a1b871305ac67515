"""tinylm study: one question, asked by training with several settings and seeds."""

import argparse
import time
from pathlib import Path
from typing import Any

from tinylm.base.config import InputError, load_params
from tinylm.base.files import write_json
from tinylm.compare.provenance import revision
from tinylm.studies.study_plan import Study, find_study, read_studies, summed_up, table

RESULTS = Path("docs/studies")


def chosen_seeds(text: str | None, study: Study) -> tuple[int, ...]:
    """The seeds of --seeds, of the study where it is not given. Raises InputError."""
    if text is None:
        return study.seeds
    words = text.split(",")
    if not all(word.strip().isdecimal() for word in words) or len({int(word) for word in words}) != len(words):
        raise InputError(f"--seeds {text}; allowed: different whole numbers with commas between them, such as 1,2,3")
    return tuple(int(word) for word in words)


def _list() -> None:
    studies = read_studies()
    width = max(map(len, studies))
    for name, study in studies.items():
        runs = len(study.settings) * len(study.seeds)
        print(f"{name:{width}}  {study.question} ({study.preset}, {runs} runs)")


def record(study: Study, data: dict[str, Any], runs: dict[str, dict[str, dict[str, Any]]]) -> dict[str, Any]:
    """docs/studies/NAME.json."""
    seeds = sorted({seed for by_seed in runs.values() for seed in by_seed}, key=int)
    first = next(run for by_seed in runs.values() for run in by_seed.values())
    return {
        "name": study.name,
        "question": study.question,
        "system": study.system,
        "answer": study.answer,
        "preset": study.preset,
        "set": study.common,
        "held_out_every": study.held_out_every,
        "seeds": [int(seed) for seed in seeds],
        "commands": [
            f"tinylm preset {study.preset}",
            "dvc repro vocab",
            f"tinylm study {study.name} --seeds {','.join(seeds)}",
        ],
        "date": time.strftime("%Y-%m-%d"),
        "revision": revision(),
        "conditions": first["conditions"],
        "data": data,
        "settings": summed_up(study, runs),
    }


def _recorded(study: Study) -> dict[str, Any]:
    from tinylm.reporting.library import recorded_studies

    known = recorded_studies()
    if study.name not in known:
        raise InputError(f"study {study.name} is not in {RESULTS}; allowed: {' | '.join(known) or 'none yet'}")
    return known[study.name]


def run(arguments: argparse.Namespace) -> None:
    """List the studies, run one and print its table, or print that of one that is recorded."""
    if arguments.list:
        _list()
        return
    if arguments.name is None:
        raise InputError(f"no study named; allowed: {' | '.join(read_studies())}")
    study = find_study(arguments.name)
    if arguments.table:
        print(table(_recorded(study)["settings"]))
        return
    seeds = chosen_seeds(arguments.seeds, study)
    if arguments.threads is not None and not 1 <= arguments.threads <= 1024:
        raise InputError(f"--threads {arguments.threads}; allowed: 1 to 1024")
    params = load_params()

    from tinylm.studies.study import Workbench, run_study

    bench = Workbench(study, params, arguments.threads)
    runs: dict[str, dict[str, dict[str, Any]]] = {name: {} for name in study.settings}
    for setting, seed, result in run_study(bench, seeds):
        runs[setting][str(seed)] = result
    found = record(study, bench.data(), runs)
    path = RESULTS / f"{study.name}.json"
    write_json(path, found)
    print(table(found["settings"]))
    print(f"{path}: {study.question}")
