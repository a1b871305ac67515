"""tinylm record: record a finished run in docs/runs; print records, results and the ledger; count again."""

import argparse

from tinylm.base.config import InputError


def _print_ledger() -> None:
    from tinylm.report.library import counts
    from tinylm.studies.ledger import renew

    ledger = renew()
    for entry in ledger:
        print(f"{entry.name}: {entry.status}\n  {entry.claim}\n  {entry.evidence}".rstrip())
        print(f"  made by: {entry.command}")
    print(counts(ledger), f"({len(ledger)} claims)")


def run(arguments: argparse.Namespace) -> None:
    """Record the run, or what one of the options asks for instead."""
    from tinylm.report.references import results_table
    from tinylm.studies import ledger, record

    if arguments.samples is not None and not arguments.check:
        raise InputError("--samples is for --check")
    if arguments.list:
        print("\n".join(record.listed()))
    elif arguments.table:
        print(results_table())
    elif arguments.ledger:
        _print_ledger()
    elif arguments.check:
        from tinylm.cli.recount import recount

        for line in recount(arguments.samples):
            print(line, flush=True)
    elif arguments.name is None:
        raise InputError(
            "no name; give one for the run, such as the preset's, or --list, --table, --ledger or --check"
        )
    else:
        print("\n".join(record.record_run(arguments.name)))
        ledger.renew()
