"""Prompts: the first words of stories, and what truly follows."""

import dataclasses

import numpy as np

from tinylm.text.token_store import TokenStore


@dataclasses.dataclass(frozen=True)
class Prompt:
    """The start of an evaluation story, <sos> included, and what truly follows (<eos> included where it is reached)."""

    ids: list[int]
    reference: list[int]


def choose_prompts(store: TokenStore, count: int, prompt_tokens: int, reference_tokens: int | None) -> list[Prompt]:
    """Stories spread evenly over the split, cut behind `prompt_tokens` words; too short ones are passed over.

    Each reference is cut to `reference_tokens`, or the whole rest where that is None.
    """
    long_enough = np.flatnonzero(np.diff(store.offsets) > prompt_tokens + 2)  # a word at least is left to tell
    if not len(long_enough):
        return []
    picked = long_enough[np.linspace(0, len(long_enough) - 1, min(count, len(long_enough))).astype(int)]
    prompts = []
    for story in picked:
        ids = store.story(int(story)).tolist()
        rest = ids[prompt_tokens + 1 :]
        prompts.append(Prompt(ids[: prompt_tokens + 1], rest[:reference_tokens]))
    return prompts
