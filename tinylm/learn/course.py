"""A course: a folder with course.yaml and, for each exercise, a folder of data.

task.md      the task, then its hints, each below a heading `## Hint`
start.py     what the student begins with: a signature, or code with a bug
check.py     one function per property that is graded (`tinylm.learn.worker` calls them)
use.py       how the student's part replaces ours in a run (`tinylm.learn.use`); optional
reference.py the project's own part behind the same signature; a clinic has fix.txt instead
run.csv      the curves of a run with the bug (clinic), and samples.txt, what it wrote
"""

import dataclasses
from pathlib import Path

from tinylm.base.config import InputError, parse_yaml

COURSE = Path(__file__).with_name("exercises")
WORK = Path("exercises")  # the student's files, in the current folder
PARTS = {
    "implement": "To implement",
    "bonus": "Bonus",
    "diagnose": "Bug clinic: find the bug in the copy of the code",
}
_HINT = "## Hint"


@dataclasses.dataclass(frozen=True)
class Exercise:
    """One exercise.

    part: one of PARTS. minutes: expected time. avoid: names that the student's code may not use.
    project: where the project has this part, as `path: names`.
    """

    name: str
    folder: Path
    part: str
    title: str
    minutes: int
    avoid: tuple[str, ...]
    project: dict[str, str]

    @property
    def file(self) -> Path:
        """The student's file."""
        return WORK / f"{self.name}.py"

    def read(self, name: str) -> str:
        """A file of the exercise's folder. Raises InputError if it is missing."""
        try:
            return (self.folder / name).read_text(encoding="utf-8")
        except OSError as error:
            raise InputError(f"{self.folder / name}: {error.strerror}") from None

    def task(self) -> str:
        """The task, without its hints."""
        return self.read("task.md").partition(_HINT)[0].strip()

    def hints(self) -> list[str]:
        """The hints, in the order in which they are given."""
        return [hint.strip() for hint in self.read("task.md").split(_HINT)[1:]]

    def start(self) -> str:
        """The file that the student begins with: the task as its docstring, then start.py."""
        return f'r"""{self.task()}\n"""\n\n{self.read("start.py")}'

    def solution(self) -> str:
        """The project's own part behind the student's signature; for a clinic, the code mended."""
        if self.part != "diagnose":
            return self.read("reference.py")
        wrong, right = self.read("fix.txt").split("=>\n")
        code = self.read("start.py")
        if code.count(wrong) != 1:
            raise InputError(f"{self.folder}/fix.txt: its first part must be once in start.py")
        return code.replace(wrong, right)


def load_course(folder: str | Path = COURSE) -> dict[str, Exercise]:
    """The exercises of a course by name, in their order. Raises InputError if course.yaml is wrong."""
    path = Path(folder) / "course.yaml"
    try:
        rows = parse_yaml(path.read_text(encoding="utf-8"), str(path))
    except OSError as error:
        raise InputError(f"{path}: {error.strerror}; allowed: a folder with course.yaml") from None
    course = {}
    for name, row in rows.items():
        try:
            avoid = tuple(row.pop("avoid", ()))
            exercise = Exercise(name=name, folder=Path(folder) / name, avoid=avoid, **row)
        except (TypeError, AttributeError) as error:
            raise InputError(f"{path}: {name}: {str(error).partition(' ')[2]}") from None
        if exercise.part not in PARTS:
            parts = " | ".join(PARTS)
            raise InputError(f"{path}: {name}.part = {exercise.part}; allowed: {parts}")
        course[name] = exercise
    return course


def find(course: dict[str, Exercise], name: str) -> Exercise:
    """The exercise of this name. Raises InputError with the names that there are."""
    if name not in course:
        raise InputError(f"exercise {name!r}; allowed: {', '.join(course)}")
    return course[name]
