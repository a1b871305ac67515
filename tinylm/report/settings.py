"""Settings of the report."""

import dataclasses
import re

from tinylm.base.config import setting

_HUB_PATH = re.compile(r"[A-Za-z0-9][\w.-]{0,38}/[A-Za-z0-9_][\w.-]{0,55}", re.ASCII)


def is_hub_path(text: str) -> bool:
    """Whether the Hugging Face hub accepts it as OWNER/NAME of a repository."""
    odd = (
        ".." in text
        or "--" in text
        or text.endswith((".git", ".", "-"))
        or "./" in text
        or "-/" in text
    )
    return not odd and _HUB_PATH.fullmatch(text) is not None


@dataclasses.dataclass(frozen=True, kw_only=True)
class ReportSettings:
    """Section `report`."""

    title: str = setting()
    author: str | None = setting()
    hub_path: str | None = setting()
    samples: int = setting(low=0, high=1000)
    prompts: tuple[str, ...] = setting()
    sentences: tuple[str, ...] = setting()

    def problems(self) -> list[str]:
        """What no page can show: a name of several lines, a path that is none, texts without a word."""
        lines = []
        if self.author is not None and (not self.author.strip() or not self.author.isprintable()):
            lines.append(f"author = {self.author!r}; allowed: a name in one line, or null")
        if self.hub_path is not None and not is_hub_path(self.hub_path):
            lines.append(
                f"hub_path = {self.hub_path!r}; allowed: OWNER/NAME such as me/small-stories, or null"
            )
        for key, texts in (("prompts", self.prompts), ("sentences", self.sentences)):
            empty = [number for number, text in enumerate(texts, start=1) if not text.strip()]
            lines += [
                f"{key}: text {number} is empty; allowed: texts with at least a word"
                for number in empty
            ]
        return lines
