"""Write parts of a language model yourself, or find the bug in a training run; each is graded.

Your files are in the folder `exercises` here. `start` writes one, `check` grades it, `use` trains
the default model with it, and `show` prints the project's own part. `check --all` writes
exercises/results.md; `tinylm handin ENTRY --exercises` packs it with your files.
"""

import argparse

from tinylm.cli.command import number

EXAMPLES = """\
  tinylm exercise list
  tinylm exercise start attention
  tinylm exercise check attention --hint 1
  tinylm exercise check --all
  tinylm exercise use attention
  tinylm exercise show attention
"""
ACTIONS = ("list", "start", "check", "use", "show")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """ACTION, NAME and the options."""
    add = parser.add_argument
    actions = f"{', '.join(ACTIONS)} (default list)"
    add("action", metavar="ACTION", choices=ACTIONS, nargs="?", default="list", help=actions)
    add("name", metavar="NAME", nargs="?", help="the exercise, as list shows it")
    add("--force", action="store_true", help="start: write over your file")
    add("--hint", type=number(int, 1, 3), metavar="N", help="check: show hint 1, 2 or 3")
    add("--all", action="store_true", help="check: all, and write a page of results")


def run(arguments: argparse.Namespace) -> None:
    """Carry out the action. Raises InputError for an unknown exercise or a missing name."""
    from tinylm.base.config import InputError
    from tinylm.learn import desk
    from tinylm.learn.course import load_course

    course = load_course()
    action = arguments.action
    if action == "list":
        desk.show_list(course)
        return
    if action == "check" and arguments.all:
        print(f"{desk.check_all(course)[0]} is written")
        return
    if arguments.name not in course:
        names = ", ".join(course)
        raise InputError(f"NAME: expected one of {names}, got {arguments.name or 'nothing'}")
    exercise = course[arguments.name]
    if action in ("check", "use") and not exercise.file.is_file():
        raise InputError(f"{exercise.file} is missing; run tinylm exercise start {exercise.name}")
    if action == "start":
        desk.start(exercise, arguments.force)
    elif action == "check" and arguments.hint:
        print(exercise.texts()[arguments.hint].partition("\n")[2])
    else:
        getattr(desk, action)(exercise)  # check, use or show
