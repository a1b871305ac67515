"""Attention heads on evaluation stories: roles and ablation."""

import dataclasses
from collections.abc import Sequence

import numpy as np

from tinylm.evaluate.ablation import ablate
from tinylm.evaluate.attention_maps import attention, passages
from tinylm.evaluate.head_roles import HeadRoles, RolePairs, role_pairs, summarise_roles
from tinylm.evaluate.settings import EvaluateSettings, Metrics, Rows
from tinylm.evaluate.word_classes import read_row
from tinylm.model.transformer import TinyLM
from tinylm.vocab.token_store import TokenStore
from tinylm.vocab.tokenizer import Tokenizer


@dataclasses.dataclass(frozen=True)
class _Passage:
    """The start of a story: its ids (T,), which of them are text, and the pairs of each role."""

    ids: np.ndarray
    is_text: list[bool]
    pairs: RolePairs


def _read(
    tokenizer: Tokenizer, vectors: np.ndarray, stories: Sequence[np.ndarray]
) -> list[_Passage]:
    centre = vectors.mean(axis=0)
    result = []
    for ids in stories:
        row = read_row(tokenizer, ids.tolist())
        embedded = vectors[ids.astype(np.int64)] - centre
        passage = _Passage(ids, row.text, role_pairs(row, embedded))
        result.append(passage)
    return result


def _measure_roles(model: TinyLM, stories: Sequence[_Passage]) -> HeadRoles:
    roles = HeadRoles(model.settings.context)
    for story in stories:
        maps = attention(model, story.ids).maps
        roles.add(maps, story.is_text, story.pairs)
    return roles


def measure_heads(
    model: TinyLM,
    tokenizer: Tokenizer,
    store: TokenStore,
    vectors: np.ndarray,
    settings: EvaluateSettings,
) -> tuple[Metrics, dict[str, Rows]]:
    """(metrics, rows of roles.csv and ablation.csv by name).

    Roles use `tendency_sentences` passages, ablation uses `ablation_stories`.
    vectors (V, D): word vectors before training (fastText's), for the similarity of words.
    """
    context = model.settings.context
    stories = _read(tokenizer, vectors, passages(store, settings.tendency_sentences, context))
    role_rows = _measure_roles(model, stories).table(settings.bootstrap, settings.seed)
    ablated = passages(store, settings.ablation_stories, context)
    whole_loss, ablation_rows = ablate(model, ablated, settings.bootstrap, settings.seed)
    metrics = {
        "passages": len(stories),
        **summarise_roles(role_rows),
        "ablation": {"stories": len(ablated), "nats_per_token": whole_loss},
    }
    return metrics, {"roles": role_rows, "ablation": ablation_rows}
