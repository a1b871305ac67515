"""tinylm study: answer one question by training with several settings and seeds."""

import argparse

from tinylm.base.config import InputError, load_params
from tinylm.cli.sweep import Places
from tinylm.host.runtime import MOST_THREADS
from tinylm.studies import study_plan


def run(arguments: argparse.Namespace) -> None:
    """List the studies, run one and print its table, or print the table of a recorded one."""
    if arguments.list:
        print(study_plan.listed())
        return
    if arguments.name is None:
        raise InputError(f"no study named; allowed: {' | '.join(study_plan.read_studies())}")
    study = study_plan.find_study(arguments.name)
    if arguments.table:
        print(study_plan.table(study_plan.recorded(study)["settings"]))
        return
    if arguments.threads is not None and not 1 <= arguments.threads <= MOST_THREADS:
        raise InputError(f"--threads {arguments.threads}; allowed: 1 to {MOST_THREADS}")
    params = load_params()

    from tinylm.studies import ledger
    from tinylm.studies import study as runs
    from tinylm.sweep.begin import go_on_or_begin, seeds_of

    places = Places(arguments, arguments.threads)
    planned = runs.planned(
        study, tuple(seeds_of(arguments.seeds)) or study.seeds, params, arguments.threads
    )
    trained_on = runs.data(params)
    ending = [(values, "train") for values in planned.values()]
    sweep = go_on_or_begin(f"study-{study.name}", ending, places.workers, places.on, places.memory)
    places.carry_out(sweep)
    path, recorded = study_plan.write_record(study, trained_on, runs.results(sweep, planned))
    ledger.renew()
    print(study_plan.table(recorded["settings"]))
    print(f"{path}: {study.question}")
