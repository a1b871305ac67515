"""Write parts of a language model yourself, or find the bug in a training run; each is graded.

Your files are in the folder `exercises`. `start` writes one, `check` grades it, `use` trains
the default model with it, and `show` prints the project's own part. `tinylm handin ENTRY
--exercises` packs your files into a zip. For teachers, `grade` grades the zips of a class and writes
grades.csv; the students' code runs with a time limit, but not in a sandbox.
"""

import argparse

from tinylm.base.config import InputError
from tinylm.cli.command import number_between

EXAMPLES = """\
  tinylm exercise list
  tinylm exercise start attention
  tinylm exercise check attention --hint 1
  tinylm exercise check --all
  tinylm exercise use attention
  tinylm exercise show attention
  tinylm exercise grade hand-ins/*.zip
"""
ACTIONS = ("list", "start", "check", "use", "show", "grade")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """ACTION, NAME and the options."""
    add = parser.add_argument
    actions = f"{', '.join(ACTIONS)} (default list)"
    add("action", metavar="ACTION", choices=ACTIONS, nargs="?", default="list", help=actions)
    names = "the exercise, as list shows it; with grade, the zips of a class"
    add("names", metavar="NAME", nargs="*", help=names)
    add("--hint", type=number_between(int, 1, 3), metavar="N", help="check: show hint 1, 2 or 3")
    add("--all", action="store_true", help="with check: every exercise that you have started")


def run(arguments: argparse.Namespace) -> None:
    """Carry out the action. Raises InputError for an unknown exercise or a missing name."""
    from tinylm.learn import classroom, desk
    from tinylm.learn.course import load_course

    course = load_course()
    action = arguments.action
    if action == "list":
        desk.show_list(course)
        return
    if action == "grade" and arguments.names:
        classroom.grade_class(arguments.names, course)
        return
    if action == "check" and arguments.all:
        for exercise in desk.started(course):
            print(f"{exercise.name:<12} {desk.graded(exercise)[0]}", flush=True)
        return
    name = " ".join(arguments.names)
    if action == "grade":
        raise InputError("NAME: expected the zip files of a class, such as hand-ins/*.zip")
    if name not in course:
        raise InputError(f"NAME: expected one of {', '.join(course)}, got {name!r}")
    exercise = course[name]
    if action in ("check", "use") and not exercise.file.is_file():
        raise InputError(f"{exercise.file} is missing; run tinylm exercise start {name}")
    if action == "check" and arguments.hint:
        print(exercise.texts()[arguments.hint].partition("\n")[2])
    else:
        actions = {"start": desk.start, "check": desk.check, "use": desk.use, "show": desk.show}
        actions[action](exercise)
