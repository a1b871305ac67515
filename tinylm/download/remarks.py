"""Notes on how a corpus was read: rows in no split, and files read in an unexpected way."""

from collections.abc import Mapping
from typing import Any

from tinylm.storybook.check import DRAWN
from tinylm.text.stories import HELD_OUT_IS_EVALUATION, NO_OFFICIAL_EVALUATION

DROPPED = {  # why a story is in no split
    "empty": "stories without text",
    "in_evaluation": "train stories that are the same as evaluation stories",
    "beyond_evaluation_stories": "stories set apart for evaluation, beyond data.evaluation_stories",
}
MANY_REPEATS = 3  # of DRAWN stories of a world
SHOWN_FILES = 5  # of those that are not read, in a remark


def remarks(corpus: Mapping[str, Any]) -> list[str]:
    """A line for each kind of text that is in no split, and if held-out is also evaluation.

    corpus: what `write_stories` returns, or the description of a source that is not read yet.
    """
    lines = []
    if unread := corpus.get("not_read"):
        shown = [f"{file} ({reason})" for file, reason in unread.items()][:SHOWN_FILES]
        more = f" and {len(unread) - len(shown)} more" if len(unread) > len(shown) else ""
        lines.append(
            f"data.{'hub' if corpus['source'] == 'hub' else 'path'}: not read: {', '.join(shown)}{more}"
        )
    if corpus.get("repeats", 0) > MANY_REPEATS:
        lines.append(
            f"{corpus['path']}: {corpus['repeats']} of {DRAWN} stories are repeats, of which one is "
            "kept; so stories that are told often are rarer here, and the floor is a little high"
        )
    for file in corpus.get("capital_names", ())[:SHOWN_FILES]:
        lines.append(
            f"{file} is read as train; in lower case its name would make it a split of its own"
        )
    if corpus["evaluation_split"] == NO_OFFICIAL_EVALUATION["tokens"]:
        lines.append(HELD_OUT_IS_EVALUATION)
    for role, count in corpus.get("read_first", {}).items():
        read = "train and held-out together had" if role == "train" else "evaluation had"
        lines.append(f"read until {read} {count:,} stories; data.{role}_stories: null reads all")
    for reason, count in corpus.get("dropped", {}).items():
        if count:
            lines.append(f"dropped: {count:,} {DROPPED[reason]}")
    return lines
