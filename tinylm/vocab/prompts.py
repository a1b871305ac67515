"""Prompts from the evaluation split, and their true continuations."""

import dataclasses
from collections.abc import Sequence

import numpy as np

from tinylm.base.seeding import derive_seed
from tinylm.vocab.token_store import TokenStore


@dataclasses.dataclass(frozen=True)
class Prompt:
    """Ids to continue, the true continuation, and the index of the prompt's story."""

    ids: list[int]
    reference: list[int]
    story: int


def choose_prompts(
    store: TokenStore,
    count: int,
    prompt_tokens: int,
    reference_tokens: int | None,
    *,
    sos_id: int | None,
) -> list[Prompt]:
    """Stories spread evenly over the split, cut after `prompt_tokens` tokens.

    Shorter stories are skipped. sos_id: stories are between <sos> and <eos>, and a prompt begins
    with <sos>, which is not counted; None: they have no marks. A split that was cut from the token
    stream may begin within a story, which is skipped: one that does not begin with <sos>, or,
    without marks, the split's first if there are others. The reference is the story's next
    `reference_tokens`, with <eos> if it is reached, or the whole rest if that is None.
    """
    marks = int(sos_id is not None)
    lengths = np.diff(store.offsets)
    long_enough = np.flatnonzero(lengths > prompt_tokens + 2 * marks)  # at least one word remains
    if sos_id is not None:
        long_enough = long_enough[store.ids[store.offsets[long_enough]] == sos_id]
    elif len(store) > 1:
        long_enough = long_enough[long_enough > 0]
    count = min(count, len(long_enough))
    spread = np.linspace(0, len(long_enough) - 1, count).astype(int)
    picked = long_enough[spread]
    prompts = []
    for story in picked.tolist():
        first, last = store.offsets[story : story + 2].tolist()
        cut = first + prompt_tokens + marks
        end = last
        if reference_tokens is not None:
            end = min(last, cut + reference_tokens)
        prompt = store.ids[first:cut].tolist()
        prompts.append(Prompt(prompt, store.ids[cut:end].tolist(), story))
    return prompts


def cut_prompts(
    store: TokenStore, count: int, prompt_tokens: int, reference_tokens: int, seed: int
) -> list[Prompt]:
    """`prompt_tokens` tokens at random positions of the split's one stream, each with what follows.

    Prompt and reference run across stories, with the <eos> and <sos> between them; no <sos> is set
    before a prompt. Positions are drawn uniformly without repetition from those with a whole
    reference, and sorted. If the stream has none, the prompt is its start.
    """
    if len(store.ids) <= prompt_tokens:
        return []
    positions = max(len(store.ids) - prompt_tokens - reference_tokens, 0) + 1
    count = min(count, positions)
    rng = np.random.default_rng(derive_seed(seed, "prompts"))
    prompts = []
    for start in sorted(rng.choice(positions, size=count, replace=False).tolist()):
        cut = start + prompt_tokens
        prompt = store.ids[start:cut].tolist()
        reference = store.ids[cut : cut + reference_tokens].tolist()
        story = int(np.searchsorted(store.offsets, start, "right")) - 1
        prompts.append(Prompt(prompt, reference, story))
    return prompts


def without_repeats(prompts: Sequence[Prompt]) -> list[Prompt]:
    """The prompts in order, only the first of those with the same ids and reference."""
    different: dict[tuple[int, ...], Prompt] = {}
    for prompt in prompts:
        different.setdefault((*prompt.ids, -1, *prompt.reference), prompt)
    return list(different.values())
