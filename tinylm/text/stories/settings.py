"""Settings of the data: section `data` of params.yaml. It imports little, since two stages read it."""

from dataclasses import dataclass

from tinylm.base.config import setting


@dataclass(frozen=True, kw_only=True)
class DataSettings:
    """Section `data` of params.yaml."""

    source: str = setting(choices=("storybook", "local", "hub"))
    path: str = setting()
    hub_id: str = setting("")
    hub_revision: str = setting("")
    column: str = setting("text")
    drop_first_line: bool = setting(False)
    train_stories: int | None = setting(None, low=1)
    evaluation_stories: int | None = setting(None, low=1)
    held_out: str = setting("hash", choices=("hash", "tokens"))
    held_out_share: float = setting(0.1, above=0, high=0.4)
    overlap: int = setting(0, low=0, high=1_000_000)
    repair_quotes: bool = setting(True)
    seed: int = setting(1, low=0)

    def problems(self) -> list[str]:
        """Rules between the fields, each line beginning with a field's name."""
        found = []
        if self.source == "storybook":
            for name in ("train_stories", "evaluation_stories"):
                if getattr(self, name) is None:
                    found.append(f"{name} = null; allowed with source: storybook: a whole number >= 1")
            if self.drop_first_line:  # log-probabilities are those of whole stories
                found.append("drop_first_line = True; allowed with source: storybook: false")
        if self.overlap and self.held_out == "hash":
            found.append(f"overlap = {self.overlap}; allowed with held_out: hash: 0")
        needed = {"local": ("path", "column"), "hub": ("hub_id", "hub_revision", "column")}.get(self.source, ())
        found += [f"{name} is empty; needed with source: {self.source}" for name in needed if not getattr(self, name)]
        return found
