"""All attention heads over evaluation stories: statistics, roles, contribution, over training."""

from collections.abc import Collection, Sequence
from typing import Any, NamedTuple

import numpy as np

from tinylm.evaluate.ablation import ablate, summarise_ablation
from tinylm.evaluate.attention_maps import attention, passages
from tinylm.evaluate.head_roles import HeadRoles, RolePairs, gain, role_pairs, summarise_roles
from tinylm.evaluate.probes import induction, logit_lens
from tinylm.evaluate.settings import EvaluateSettings
from tinylm.evaluate.word_classes import Row, read_row
from tinylm.model.transformer import TinyLM
from tinylm.vocab.token_store import TokenStore
from tinylm.vocab.tokenizer import Tokenizer

MEASURES = ("first", "self", "entropy_nats", "distance_tokens")
PASSAGES = 50  # stories over which the heads of each checkpoint are measured
Checkpoints = Sequence[tuple[float | None, TinyLM]]  # epochs (None: the end) and the model


class _Passage(NamedTuple):
    """The start of a story: its ids, its words, and the pairs of each role."""

    ids: np.ndarray
    row: Row
    pairs: RolePairs


def _read(
    tokenizer: Tokenizer, vectors: np.ndarray, stories: Sequence[np.ndarray]
) -> list[_Passage]:
    centre = vectors.mean(axis=0)
    result = []
    for ids in stories:
        row = read_row(tokenizer, ids.tolist())
        embedded = vectors[ids.astype(np.int64)] - centre
        result.append(_Passage(ids, row, role_pairs(row, embedded)))
    return result


def sums_over_queries(maps: np.ndarray, ids: np.ndarray, boundary: Collection[int]) -> np.ndarray:
    """Each of MEASURES, summed over the queries of one sentence: (layers, H, measures).

    maps (layers, H, T, T) [query, key]; ids (T,). For a query at position i with keys 0..i:
      first             weight on key 0 and on the keys whose ids are in `boundary`: <sos>, <eos>
      self              weight on key i
      entropy_nats      - sum of w ln w; exp of it is the number of tokens in view
      distance_tokens   sum of w * (i - key)
    Query 0 sees only itself and is left out.
    """
    length = len(ids)
    weights = maps[..., 1:, :].astype(np.float64)  # (layers, H, queries, T)
    first = np.isin(ids, list(boundary))
    first[0] = True
    positive = np.where(weights > 0, weights, 1.0)
    distances = np.subtract.outer(np.arange(1, length), np.arange(length))
    sums = [
        (weights * first).sum(axis=(-2, -1)),
        weights.diagonal(1, axis1=-2, axis2=-1).sum(axis=-1),
        -(positive * np.log(positive)).sum(axis=(-2, -1)),
        (weights * distances).sum(axis=(-2, -1)),
    ]
    return np.stack(sums, axis=-1)


def _measure_attention(
    model: TinyLM, tokenizer: Tokenizer, stories: Sequence[_Passage]
) -> tuple[list[dict[str, Any]], HeadRoles]:
    """(a row of statistics for each head, roles) of a model over the same passages."""
    layers = model.settings.layers
    heads = model.settings.heads
    boundary = set(tokenizer.specials) - {tokenizer.unk_id}
    sums = np.zeros((layers, heads, len(MEASURES)))
    queries = 0
    roles = HeadRoles(model.settings.context)
    for ids, row, pairs in stories:
        maps = attention(model, ids).maps
        sums += sums_over_queries(maps, ids, boundary)
        queries += len(ids) - 1
        roles.add(maps, row.text, pairs)
    rows = []
    for layer, head in np.ndindex(layers, heads):
        means = (sums[layer, head] / max(queries, 1)).tolist()
        measures = dict(zip(MEASURES, means, strict=True))
        rows.append({"layer": layer + 1, "head": head + 1, **measures})
    return rows, roles


def measure_heads(
    model: TinyLM,
    tokenizer: Tokenizer,
    store: TokenStore,
    vectors: np.ndarray,
    settings: EvaluateSettings,
) -> tuple[dict[str, Any], dict[str, list[dict[str, Any]]]]:
    """(metrics, rows of heads.csv, roles.csv and ablation.csv by name).

    Statistics and roles are over `tendency_sentences` passages, ablation is over
    `ablation_stories`. vectors (V, D): the words' vectors before training (fastText's), by which
    words are similar.
    """
    context = model.settings.context
    stories = _read(tokenizer, vectors, passages(store, settings.tendency_sentences, context))
    rows = [story.row for story in stories]
    words = [word for row in rows for word in row.words]
    statistics, roles = _measure_attention(model, tokenizer, stories)
    role_rows = roles.table(settings.bootstrap, settings.seed)
    ablated = passages(store, settings.ablation_stories, context)
    whole, ablation_rows = ablate(model, ablated, settings.bootstrap, settings.seed)
    text_ids = set(np.unique(store.ids).tolist()) - tokenizer.specials - {tokenizer.unk_id}
    start = [] if tokenizer.sos_id is None else [tokenizer.sos_id]
    classified = sum(word.name != "" for word in words)
    metrics = {
        "passages": len(stories),
        "told_by_generator": sum(row.is_told for row in rows),
        "classified_share": classified / len(words) if words else None,
        **summarise_roles(role_rows),
        "ablation": summarise_ablation(whole, ablation_rows, len(ablated)),
        "induction": induction(model, sorted(text_ids), start, settings.bootstrap, settings.seed),
        "logit_lens": logit_lens(model, ablated),
    }
    return metrics, {"heads": statistics, "roles": role_rows, "ablation": ablation_rows}


def heads_over_training(
    checkpoints: Checkpoints,
    tokenizer: Tokenizer,
    store: TokenStore,
    vectors: np.ndarray,
    settings: EvaluateSettings,
) -> list[dict[str, Any]]:
    """A row for each checkpoint and head: its statistics and, for each role, score - baseline.

    Over `PASSAGES` passages. epochs is None at the end of training.
    """
    context = checkpoints[0][1].settings.context
    stories = _read(tokenizer, vectors, passages(store, PASSAGES, context))
    rows: list[dict[str, Any]] = []
    for epochs, model in checkpoints:
        statistics, roles = _measure_attention(model, tokenizer, stories)
        gains: dict[tuple[int, int], dict[str, float]] = {}
        for role in roles.table(1, settings.seed):  # the interval is not used
            of_head = gains.setdefault((role["layer"], role["head"]), {})
            of_head[role["role"]] = gain(role)
        for row in statistics:
            of_head = gains.get((row["layer"], row["head"]), {})
            rows.append({"epochs": epochs, **row, **of_head})
    return rows
