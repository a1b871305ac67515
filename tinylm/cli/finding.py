"""One line of the table that `tinylm check` prints."""

import dataclasses


@dataclasses.dataclass(frozen=True)
class Finding:
    """What was checked, its value, and what is wrong with it or worth a note."""

    what: str
    value: str
    problem: str = ""
    note: str = ""

    @property
    def verdict(self) -> str:
        """ok, the note or the problem."""
        if self.problem:
            return f"problem: {self.problem}"
        return f"note: {self.note}" if self.note else "ok"
