"""Attention heads on evaluation stories: roles and ablation, also over training."""

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np

from tinylm.evaluate.ablation import ablate, summarise_ablation
from tinylm.evaluate.attention_maps import attention, head_table, passages
from tinylm.evaluate.head_roles import HeadRoles, RolePairs, gain, role_pairs, summarise_roles
from tinylm.evaluate.probes import induction, logit_lens
from tinylm.evaluate.settings import EvaluateSettings, Metrics, Rows
from tinylm.evaluate.word_classes import read_row
from tinylm.model.transformer import TinyLM
from tinylm.vocab.token_store import TokenStore
from tinylm.vocab.tokenizer import Tokenizer

PASSAGES = 50  # stories on which the heads of each checkpoint are measured
Checkpoints = Sequence[tuple[float | None, TinyLM]]  # epochs (None: end of training) and model


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
    text_ids = set(np.unique(store.ids).tolist())
    text_ids -= {*tokenizer.specials, tokenizer.unk_id}
    start = [] if tokenizer.sos_id is None else [tokenizer.sos_id]
    metrics = {
        "passages": len(stories),
        **summarise_roles(role_rows),
        "ablation": summarise_ablation(whole_loss, ablation_rows, len(ablated)),
        "induction": induction(model, sorted(text_ids), start, settings),
        "logit_lens": logit_lens(model, ablated),
    }
    return metrics, {"roles": role_rows, "ablation": ablation_rows}


def heads_over_training(
    checkpoints: Checkpoints,
    tokenizer: Tokenizer,
    store: TokenStore,
    vectors: np.ndarray,
    settings: EvaluateSettings,
) -> Rows:
    """A row for each checkpoint and head: for each role, score - baseline on `PASSAGES` passages.

    epochs is None at the end of training.
    """
    shape = checkpoints[0][1].settings
    stories = _read(tokenizer, vectors, passages(store, PASSAGES, shape.context))
    rows: Rows = []
    for epochs, model in checkpoints:
        heads = head_table(shape.layers, shape.heads).to_dict("records")
        roles = _measure_roles(model, stories).table(1, settings.seed)  # without intervals
        for head in heads:
            row: dict[Any, Any] = {"epochs": epochs, **head}
            for role in roles:
                if head.items() <= role.items():
                    row[role["role"]] = gain(role)
            rows.append(row)
    return rows
