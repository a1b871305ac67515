"""A course: a folder with course.yaml and, for each exercise, a folder of data.

task.md      the task, then its hints, each below a heading `## Hint`
start.py     what the student begins with: a signature, or code with a bug
check.py     one function per property that is graded (`tinylm.learn.worker` calls them)
use.py       a run, and what the student's part replaces in it (`tinylm.learn.use`); optional
reference.py the project's own part behind the same signature; a clinic has fix.txt instead
run.csv      the curves of a run with the bug (clinic); samples.txt has what it wrote
"""

import dataclasses
from pathlib import Path

from tinylm.base.config import parse_yaml, read_section, setting

COURSE = Path(__file__).with_name("exercises")
WORK = Path("exercises")  # the student's files, in the current folder
PARTS = ("implement", "bonus", "diagnose")  # diagnose: find the bug in a copy of the code


@dataclasses.dataclass(frozen=True)
class Exercise:
    """One exercise of course.yaml.

    session: of the course in docs/teach.md, None if it fits into any. minutes: expected time. avoid:
    names that the student's code may not use. project: where the project has this part, as `path name`.
    """

    name: str
    title: str
    session: int | None
    minutes: int
    avoid: tuple[str, ...]
    project: tuple[str, ...]
    part: str = setting(choices=PARTS)

    @property
    def file(self) -> Path:
        """The student's file."""
        return WORK / f"{self.name}.py"

    @property
    def folder(self) -> Path:
        """The exercise's data."""
        return COURSE / self.name

    def path(self, name: str) -> Path:
        """A file of the exercise's folder."""
        return self.folder / name

    def read(self, name: str) -> str:
        """The text of a file of the folder."""
        return self.path(name).read_text(encoding="utf-8")

    def texts(self) -> list[str]:
        """The task, then its hints in the order in which they are shown."""
        return [text.strip() for text in self.read("task.md").split("## Hint")]

    def start(self) -> str:
        """The file that the student begins with: the task as its docstring, then start.py."""
        return f'r"""{self.texts()[0]}\n"""\n\n{self.read("start.py")}'

    def solution(self) -> str:
        """The project's own part behind the student's signature; for a clinic, the fixed code."""
        if self.part != "diagnose":
            return self.read("reference.py")
        wrong, right = self.read("fix.txt").split("=>\n")
        return self.read("start.py").replace(wrong, right)


def load_course() -> dict[str, Exercise]:
    """The exercises by name, in their order. Raises InputError if course.yaml is wrong."""
    path = COURSE / "course.yaml"
    rows = parse_yaml(path.read_text(encoding="utf-8"), str(path))
    for name, row in rows.items():
        row["name"] = name
    return {name: read_section(rows, name, Exercise, str(path)) for name in rows}
