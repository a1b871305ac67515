"""tinylm preset: params.yaml from a preset."""

import argparse
import os
import textwrap

from tinylm.base.config import PARAMS_FILE, InputError
from tinylm.host.tables import WIDTH
from tinylm.presets.write import current, hub_names, names, preset_values, title, write_preset


def _list() -> None:
    try:
        held = current()
    except InputError:  # no params.yaml yet, or one that cannot be read
        held = None
    width = max(map(len, names()))
    for name in names():
        first = f"{'*' if name == held else ' '} {name:{width}}  "
        print(
            textwrap.fill(
                title(name), WIDTH, initial_indent=first, subsequent_indent=" " * len(first)
            )
        )


def _next(name: str, hub: bool, runs: str) -> str:
    """What to do with the preset: `runs`, or get the data that its paths name and this machine lacks."""
    values = preset_values(name, hub)
    absent = [key for key in ("data.path", "vocab.path") if not os.path.exists(values[key])]
    if not absent:
        return runs
    named = ", ".join(f"{key} = {values[key]!r}" for key in absent)
    fetch = (
        f", or tinylm preset {name} --hub, with data from the Hugging Face hub"
        if name in hub_names()
        else ""
    )
    return f"before dvc repro: {named}: no such file or folder; set {' and '.join(absent)}{fetch}"


def run(arguments: argparse.Namespace) -> None:
    """List the presets, or write one and print what changed."""
    if arguments.list:
        _list()
        return
    if arguments.name is None:
        raise InputError(f"no preset named; allowed: {' | '.join(names())}")
    changed = write_preset(arguments.name, force=arguments.force, hub=arguments.hub)
    if changed is None:
        told = _next(arguments.name, arguments.hub, "dvc repro runs it")
        print(f"{PARAMS_FILE}: preset {arguments.name} written; {told}")
        return
    if not changed:
        told = _next(arguments.name, arguments.hub, "")
        print(f"{PARAMS_FILE} holds preset {arguments.name} already{told and '; '}{told}")
        return
    for line in changed:
        print(line)
    count = "1 value" if len(changed) == 1 else f"{len(changed)} values"
    told = _next(arguments.name, arguments.hub, "dvc repro runs what depends on them")
    print(f"{PARAMS_FILE}: preset {arguments.name} written, {count} changed; {told}")
