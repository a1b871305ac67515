"""tinylm preset: params.yaml from a preset."""

import argparse
import textwrap

from tinylm.base.config import PARAMS_FILE, InputError
from tinylm.host.tables import WIDTH
from tinylm.presets.write import current, names, title, write_preset


def _list() -> None:
    try:
        held = current()
    except InputError:  # no params.yaml yet, or one that cannot be read
        held = None
    width = max(map(len, names()))
    for name in names():
        first = f"{'*' if name == held else ' '} {name:{width}}  "
        print(textwrap.fill(title(name), WIDTH, initial_indent=first, subsequent_indent=" " * len(first)))


def run(arguments: argparse.Namespace) -> None:
    """List the presets, or write one and print what changed."""
    if arguments.list:
        _list()
        return
    if arguments.name is None:
        raise InputError(f"no preset named; allowed: {' | '.join(names())}")
    changed = write_preset(arguments.name, force=arguments.force, hub=arguments.hub)
    if changed is None:
        print(f"{PARAMS_FILE}: preset {arguments.name} written; dvc repro runs it")
        return
    if not changed:
        print(f"{PARAMS_FILE} holds preset {arguments.name} already")
        return
    for line in changed:
        print(line)
    count = "1 value" if len(changed) == 1 else f"{len(changed)} values"
    print(f"{PARAMS_FILE}: preset {arguments.name} written, {count} changed; dvc repro runs what depends on them")
