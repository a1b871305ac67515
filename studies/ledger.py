"""Print the ledger: claims of the published systems, each with the evidence and a verdict.

Every number that an entry rests on is looked up in the record named; the exit code is 1 if one does not stand there.
"""

import sys
from collections import Counter
from collections.abc import Mapping
from typing import Any

from studies.records import read, wrong_numbers
from tinylm.host.command import CommandFailed, Parser, guard

VERDICTS = ("reproduced", "contradicted", "depends on", "not testable here", "not run yet")


def counts(entries: Mapping[str, Mapping[str, Any]]) -> str:
    """The number of claims with each verdict that occurs."""
    by_verdict = Counter(entry["verdict"] for entry in entries.values())
    return ", ".join(f"{by_verdict[name]} {name}" for name in VERDICTS if by_verdict[name])


def in_words(entry: Mapping[str, Any]) -> str:
    """The claim, the source's own words, and where they stand, as far as these are known."""
    quote = f" “{entry['quote']}”" if "quote" in entry else ""
    where = f" ({entry['place']})" if "place" in entry else ""
    return f"{entry['claim']}{quote}{where}"


def main() -> None:
    parser = Parser(prog="python -m studies.ledger", description=__doc__)
    parser.add_argument("--check", action="store_true", help="print only the numbers that differ")
    arguments = parser.parse_args()
    entries = read("ledger.yaml")
    wrong = []
    for name, entry in entries.items():
        wrong += [f"{name}: {line}" for line in wrong_numbers(entry)]
        if not arguments.check:
            print(f"{name}: {entry['verdict']}\n  {in_words(entry)}")
            print(f"  {entry.get('evidence', '')}".rstrip())
    print(f"{len(entries)} claims: {counts(entries)}")
    if wrong:
        raise CommandFailed("\n".join(wrong))


if __name__ == "__main__":
    sys.exit(guard(main))
