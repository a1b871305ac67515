"""Write parts of a language model yourself, or find the bug in a training run; each is graded.

Your files are in the folder `exercises` here. `start` writes one, `check` grades it, `use` trains
the default model with it, and `show` prints the project's own part. `check --all` writes
exercises/results.md; `tinylm handin ENTRY --exercises` packs it with your files.
"""

import argparse

EXAMPLES = """\
  tinylm exercise list
  tinylm exercise start attention
  tinylm exercise check attention --hint
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
    add("--hint", action="store_true", help="check: show the next of three hints")
    add("--all", action="store_true", help="check: all, and write a page of results")
    add("--course", metavar="FOLDER", help="exercises of your own (default: those of tinylm)")


def run(arguments: argparse.Namespace) -> None:
    """Carry out the action. Raises InputError for an unknown exercise or a missing name."""
    from tinylm.base.config import InputError
    from tinylm.learn import desk
    from tinylm.learn.course import COURSE, load_course

    course = load_course(arguments.course or COURSE)
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
        desk.show_hint(exercise)
    else:
        getattr(desk, action)(exercise)  # check, use or show
