"""tinylm preset: write a preset over params.yaml."""

import argparse
import os
import textwrap

from tinylm.base.config import PARAMS_FILE, InputError
from tinylm.cli.command import CLONE, NOTHING, check_folder
from tinylm.host.tables import WIDTH

NEEDS = NOTHING
NOTES = ""
EXAMPLES = """\
  tinylm preset --list
  tinylm preset storybook
  tinylm preset word-50k --hub                      with TinyStories from the Hugging Face hub
  tinylm preset word-50k --force                    over a params.yaml that was edited by hand
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """NAME and the options."""
    parser.add_argument("name", nargs="?", metavar="NAME")
    parser.add_argument(
        "--force", action="store_true", help="also where params.yaml was edited by hand"
    )
    parser.add_argument(
        "--hub", action="store_true", help="with data from the Hugging Face hub, not from a folder"
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


def _next(name: str, hub: bool) -> str:
    """What to do with the preset: run it, or get the data that is not on this machine."""
    from tinylm.presets.write import hub_names, preset_values

    values = preset_values(name, hub)
    absent = []
    for key in ("data.path", "vocab.path"):
        if not os.path.exists(values[key]):
            absent.append(f"{key} = {values[key]!r}")
    if not absent:
        return "dvc repro runs what depends on it"
    line = f"before dvc repro: {', '.join(absent)}: no such file or folder; set it"
    if name in hub_names():
        line += f", or tinylm preset {name} --hub, with data from the Hugging Face hub"
    return line


def run(arguments: argparse.Namespace) -> None:
    """List the presets, or write one and print what changed."""
    from tinylm.presets.write import names, write_preset

    name = arguments.name
    if arguments.list:
        _list()
        return
    check_folder("preset", CLONE)
    if name is None:
        raise InputError(f"no preset named; allowed: {' | '.join(names())}")
    changed = write_preset(name, force=arguments.force, hub=arguments.hub)
    action = "written"
    if changed is not None:
        print("\n".join(changed), end="\n" if changed else "")
        action = f"written, values changed: {len(changed)}"
    print(f"{PARAMS_FILE}: preset {name} {action}; {_next(name, arguments.hub)}")
