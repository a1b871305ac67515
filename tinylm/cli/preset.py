"""tinylm preset: params.yaml from a preset."""

import argparse
import os
import textwrap

from tinylm.base.config import PARAMS_FILE, InputError
from tinylm.cli.command import CLONE, NOTHING, Command, check_folder
from tinylm.host.tables import WIDTH


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """NAME and the options."""
    parser.add_argument("name", nargs="?", metavar="NAME")
    parser.add_argument(
        "--force", action="store_true", help="also where params.yaml was edited by hand"
    )
    parser.add_argument(
        "--hub",
        action="store_true",
        help="with its data from the Hugging Face hub, not from a folder",
    )
    parser.add_argument(
        "--list", action="store_true", help="name the presets; * marks the one in params.yaml"
    )


def _list() -> None:
    from tinylm.presets.write import current, names, title

    try:
        written = current()
    except InputError:  # no params.yaml yet, or one that cannot be read
        written = None
    width = max(map(len, names()))
    for name in names():
        mark = "*" if name == written else " "
        first = f"{mark} {name:{width}}  "
        indent = " " * len(first)
        print(textwrap.fill(title(name), WIDTH, initial_indent=first, subsequent_indent=indent))


def _next(name: str, hub: bool, runs: str) -> str:
    """What to do with the preset: `runs`, or get the data that is not on this machine."""
    from tinylm.presets.write import hub_names, preset_values

    values = preset_values(name, hub)
    absent = [key for key in ("data.path", "vocab.path") if not os.path.exists(values[key])]
    if not absent:
        return runs
    named = ", ".join(f"{key} = {values[key]!r}" for key in absent)
    fetch = ""
    if name in hub_names():
        fetch = f", or tinylm preset {name} --hub, with data from the Hugging Face hub"
    return f"before dvc repro: {named}: no such file or folder; set {' and '.join(absent)}{fetch}"


def run(arguments: argparse.Namespace) -> None:
    """List the presets, or write one and print what changed."""
    from tinylm.presets.write import names, write_preset

    name, hub = arguments.name, arguments.hub
    if arguments.list:
        _list()
        return
    check_folder("preset", CLONE)
    if name is None:
        raise InputError(f"no preset named; allowed: {' | '.join(names())}")
    changed = write_preset(name, force=arguments.force, hub=hub)
    if changed is None:
        print(f"{PARAMS_FILE}: preset {name} written; {_next(name, hub, 'dvc repro runs it')}")
        return
    if not changed:
        missing = _next(name, hub, "")
        print(f"{PARAMS_FILE} holds preset {name} already{missing and '; '}{missing}")
        return
    for line in changed:
        print(line)
    count = "1 value" if len(changed) == 1 else f"{len(changed)} values"
    what_next = _next(name, hub, "dvc repro runs what depends on them")
    print(f"{PARAMS_FILE}: preset {name} written, {count} changed; {what_next}")


COMMAND = Command(
    name="preset",
    purpose="write a preset over params.yaml",
    needs=NOTHING,
    add_arguments=add_arguments,
    run=run,
    examples="""\
  tinylm preset --list
  tinylm preset storybook
  tinylm preset word-50k --hub                      with TinyStories from the Hugging Face hub
  tinylm preset word-50k --force                    over a params.yaml that was edited by hand
""",
)
