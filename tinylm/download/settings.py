"""Section `data` of params.yaml: where the stories come from, and how they are split."""

from dataclasses import dataclass

from tinylm.base.config import setting
from tinylm.base.hub import hub_problem

GENERATED = ("storybook", "world")  # sources that are told here and have no end
TOLD_STORIES = (20_000, 500)  # for train and evaluation, unless the settings give a number


@dataclass(frozen=True, kw_only=True)
class DataSettings:
    """Section `data` of params.yaml."""

    source: str = setting(choices=("storybook", "world", "local", "hub"))
    path: str = setting()
    hub: str = setting("")
    column: str = setting("text")
    drop_first_line: bool = setting(False)
    train_stories: int | None = setting(None, low=1)
    evaluation_stories: int | None = setting(None, low=1)
    held_out: str = setting("hash", choices=("hash", "tokens"))
    held_out_share: float = setting(0.1, above=0, high=0.4)
    overlap: int = setting(0, low=0, high=1_000_000)
    seed: int = setting(1, low=0)

    def limits(self) -> tuple[int | None, int | None]:
        """(train, evaluation): at most how many stories are written or read; None for all."""
        if self.source in GENERATED:
            train, evaluation = TOLD_STORIES
            return self.train_stories or train, self.evaluation_stories or evaluation
        return self.train_stories, self.evaluation_stories

    def problems(self) -> list[str]:
        """Rules between the fields, each line beginning with a field's name."""
        problems = []
        # Log-probabilities are those of whole stories.
        if self.source in GENERATED and self.drop_first_line:
            problems.append(f"drop_first_line: expected false with source: {self.source}, got true")
        if self.overlap and self.held_out == "hash":
            problems.append(f"overlap: expected 0 with held_out: hash, got {self.overlap}")
        needed = {"world": ("path",), "local": ("path", "column"), "hub": ("hub", "column")}
        for name in needed.get(self.source, ()):
            if not getattr(self, name):
                problems.append(f"{name}: expected a value with source: {self.source}, got none")
        if self.source == "hub" and self.hub:
            problems += hub_problem(self.hub)
        return problems
