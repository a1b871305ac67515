"""A course: a folder with course.yaml and, for each exercise, a folder of data.

task.md      the task, then its hints, each below a heading `## Hint`
start.py     what the student begins with: a signature, or code with a bug
check.py     one function per property that is graded (`tinylm.learn.worker` calls them)
use.py       how the student's part replaces ours in a run (`tinylm.learn.use`); optional
reference.py the project's own part behind the same signature; a clinic has fix.txt instead
run.csv      the curves of a run with the bug (clinic); samples.txt has what it wrote
"""

import dataclasses
from pathlib import Path

from tinylm.base.config import InputError, parse_yaml, read_section, setting

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
    """One exercise of course.yaml.

    minutes: expected time. avoid: names that the student's code may not use. project: where the
    project has this part, as `path name`.
    """

    name: str
    folder: str
    title: str
    minutes: int
    avoid: tuple[str, ...]
    project: tuple[str, ...]
    part: str = setting(choices=tuple(PARTS))

    @property
    def file(self) -> Path:
        """The student's file."""
        return WORK / f"{self.name}.py"

    def path(self, name: str) -> Path:
        """A file of the exercise's folder."""
        return Path(self.folder, name)

    def read(self, name: str) -> str:
        """The text of a file of the folder. Raises InputError if it is missing."""
        try:
            return self.path(name).read_text(encoding="utf-8")
        except OSError as error:
            raise InputError(f"{self.path(name)}: {error.strerror}") from None

    def task(self) -> str:
        """The task, without its hints."""
        return self.read("task.md").partition(_HINT)[0].strip()

    def hints(self) -> list[str]:
        """The hints, in the order in which they are shown."""
        return [hint.strip() for hint in self.read("task.md").split(_HINT)[1:]]

    def start(self) -> str:
        """The file that the student begins with: the task as its docstring, then start.py."""
        return f'r"""{self.task()}\n"""\n\n{self.read("start.py")}'

    def solution(self) -> str:
        """The project's own part behind the student's signature; for a clinic, the fixed code."""
        if self.part != "diagnose":
            return self.read("reference.py")
        wrong, right = self.read("fix.txt").split("=>\n")
        code = self.read("start.py")
        if code.count(wrong) != 1:
            raise InputError(f"{self.path('fix.txt')}: its first part must be once in start.py")
        return code.replace(wrong, right)


def load_course(folder: str | Path = COURSE) -> dict[str, Exercise]:
    """The exercises of a course by name, in their order. Raises InputError if course.yaml is wrong."""
    path = Path(folder, "course.yaml")
    try:
        rows = parse_yaml(path.read_text(encoding="utf-8"), str(path))
    except OSError as error:
        raise InputError(f"{path}: {error.strerror}; allowed: a folder with course.yaml") from None
    for name, row in rows.items():
        if isinstance(row, dict):
            row |= {"name": name, "folder": str(path.parent / name)}
    return {name: read_section(rows, name, Exercise, str(path)) for name in rows}
