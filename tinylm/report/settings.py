"""Settings of the report."""

import dataclasses

from tinylm.base.config import setting


def is_hub_path(text: str) -> bool:
    """Whether the Hugging Face hub accepts it as OWNER/NAME of a repository."""
    from huggingface_hub.errors import HFValidationError
    from huggingface_hub.utils import validate_repo_id

    try:
        validate_repo_id(text)
    except HFValidationError:
        return False
    return "/" in text


@dataclasses.dataclass(frozen=True, kw_only=True)
class ReportSettings:
    """Section `report`."""

    title: str | None = setting()
    author: str | None = setting()
    hub_path: str | None = setting()
    prompts: tuple[str, ...] = setting()
    sentences: tuple[str, ...] = setting()
    observations: tuple[str, ...] = setting()

    def problems(self) -> list[str]:
        """Values that the report cannot show."""
        lines = []
        if self.hub_path is not None and not is_hub_path(self.hub_path):
            lines.append(f"hub_path: expected OWNER/NAME or null, got {self.hub_path!r}")
        if self.title is not None and not self.title.strip():
            lines.append(f"title: expected at least one word or null, got {self.title!r}")
        for key in ("prompts", "sentences", "observations"):
            if not all(text.strip() for text in getattr(self, key)):
                lines.append(f"{key}: expected texts with at least one word, got an empty one")
        return lines
