"""Write a preset into params.yaml, and print which values changed."""

import argparse

from tinylm.base.config import PARAMS_FILE, InputError
from tinylm.cli.command import check_clone

EXAMPLES = """\
  tinylm preset --list
  tinylm preset storybook
  tinylm preset word-50k --hub                      with TinyStories from the Hugging Face hub
  tinylm preset word-50k --data ../tinystories      with stories that you have
  tinylm preset word-50k --force                    over a params.yaml that was edited by hand
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """NAME and the options."""
    parser.add_argument("name", nargs="?", metavar="NAME", help="the preset; --list names all")
    parser.add_argument("--force", action="store_true", help="overwrite an edited params.yaml")
    parser.add_argument("--hub", action="store_true", help="use data from the Hugging Face hub")
    parser.add_argument("--data", metavar="PATH", help="use the stories of this file or folder")
    parser.add_argument(
        "--list", action="store_true", help="list the presets; * marks the current one"
    )


def _list() -> None:
    from tinylm.params.presets.write import current, names, title

    try:
        written = current()
    except InputError:  # no params.yaml yet, or one that cannot be read
        written = None
    width = max(map(len, names()))
    for name in names():
        mark = "*" if name == written else " "
        print(f"{mark} {name:{width}}  {title(name)}")


def run(arguments: argparse.Namespace) -> None:
    """List the presets, or write one and print what changed."""
    from tinylm.params.presets.write import names, write_preset

    name = arguments.name
    if arguments.list:
        _list()
        return
    check_clone()
    if name is None:
        raise InputError(f"NAME: expected one of {', '.join(names())}")
    if arguments.hub and arguments.data:
        raise InputError("expected --hub or --data, got both")
    changed = write_preset(name, force=arguments.force, hub=arguments.hub, data=arguments.data)
    action = "written"
    if changed is not None:
        print("\n".join(changed), end="\n" if changed else "")
        action = f"written, values changed: {len(changed)}"
    print(f"{PARAMS_FILE}: preset {name} {action}; tinylm check shows whether anything is missing")
