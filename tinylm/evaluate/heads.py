"""Every attention head over evaluation stories: where it looks, which role it has, what it contributes."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from tinylm.evaluate.ablation import ablate, summarise_ablation
from tinylm.evaluate.attention_maps import look, passages
from tinylm.evaluate.continuations import EvaluateSettings
from tinylm.evaluate.head_distance import PASSAGES, HeadDistances
from tinylm.evaluate.head_roles import HeadRoles, RolePairs, role_pairs, summarise_roles
from tinylm.evaluate.head_tendencies import FIGURES, HeadTendencies
from tinylm.evaluate.probes import induction, logit_lens
from tinylm.evaluate.word_classes import Row, WordReader
from tinylm.model.transformer import TinyLM
from tinylm.storybook.classes import look_up
from tinylm.vocab.token_store import TokenStore
from tinylm.vocab.tokenizer import Tokenizer


class Heads(NamedTuple):
    """Rows of heads.csv, head_distances.csv, roles.csv and ablation.csv, and the figures of metrics/evaluate.json."""

    tendencies: list[dict[str, Any]]
    distances: list[dict[str, Any]]
    roles: list[dict[str, Any]]
    ablation: list[dict[str, Any]]
    figures: dict[str, Any]

    def tables(self) -> dict[str, list[dict[str, Any]]]:
        """The rows of each file by its name."""
        rows = {"heads": self.tendencies, "head_distances": self.distances}
        return rows | {"roles": self.roles, "ablation": self.ablation}


class _Passage(NamedTuple):
    """The start of a story: its ids, its words, and who should look at whom for each role."""

    ids: np.ndarray
    row: Row
    pairs: RolePairs


def _read(
    tokenizer: Tokenizer, vectors: np.ndarray, stories: Sequence[np.ndarray]
) -> list[_Passage]:
    reader, middle = WordReader(tokenizer), vectors.mean(axis=0)
    rows = [reader.read(ids.tolist()) for ids in stories]
    return [
        _Passage(ids, row, role_pairs(row, vectors[ids.astype(np.int64)] - middle))
        for ids, row in zip(stories, rows, strict=True)
    ]


class _Watched:
    """All measures of a model's attention over the same passages."""

    def __init__(self, model: TinyLM, tokenizer: Tokenizer, stories: Sequence[_Passage]) -> None:
        self.tendencies = HeadTendencies(sorted(set(tokenizer.specials) - {tokenizer.unk_id}))
        self.distances, self.roles = HeadDistances(), HeadRoles(model.settings.context)
        for number, (ids, row, pairs) in enumerate(stories):
            maps = look(model, ids).maps
            self.tendencies.add(list(maps), ids, row.marks, row.groups)
            if number < PASSAGES:
                self.distances.add(maps)
            self.roles.add(maps, row.text, pairs)


def _tagger(rows: Sequence[Row]) -> dict[str, Any] | None:
    """How often the look-up of a word's class is right, where the generator knows it; None if it never does."""
    known = [word for row in rows if row.is_told for word in row.words]
    looked_up = [
        name for row in rows if row.is_told for name in look_up([word.text for word in row.words])
    ]
    right = sum(name == word.name for name, word in zip(looked_up, known, strict=True))
    share = (
        {"right": right / len(known), "unknown": looked_up.count("") / len(known)} if known else {}
    )
    return {"words": len(known), **share} if known else None


def measure_heads(
    model: TinyLM,
    tokenizer: Tokenizer,
    store: TokenStore,
    vectors: np.ndarray,
    settings: EvaluateSettings,
) -> Heads:
    """Tendencies and roles over `tendency_sentences` passages, ablation over `ablation_stories` of them.

    vectors (V, D): the words' vectors before training (fastText's), by which words are similar.
    """
    context = model.settings.context
    stories = _read(tokenizer, vectors, passages(store, settings.tendency_sentences, context))
    read, words = (
        [story.row for story in stories],
        [word for story in stories for word in story.row.words],
    )
    seen = _Watched(model, tokenizer, stories)
    table = seen.roles.table(settings.bootstrap, settings.seed)
    rows = passages(store, settings.ablation_stories, context)
    whole, ablation = ablate(model, rows, settings.bootstrap, settings.seed)
    drawn = sorted(set(np.unique(store.ids).tolist()) - tokenizer.specials - {tokenizer.unk_id})
    start = [] if tokenizer.sos_id is None else [tokenizer.sos_id]
    figures = {
        "passages": len(stories),
        "told_by_generator": sum(row.is_told for row in read),
        "classified_share": sum(word.name != "" for word in words) / len(words) if words else None,
        "tagger": _tagger(read),
        **summarise_roles(table, seen.roles),
        "ablation": summarise_ablation(whole, ablation, len(rows)),
        "induction": induction(model, drawn, start, settings.bootstrap, settings.seed),
        "logit_lens": logit_lens(model, rows),
    }
    return Heads(seen.tendencies.table(), seen.distances.table(), table, ablation, figures)


def heads_over_training(
    moments: Sequence[tuple[float | None, TinyLM]],
    tokenizer: Tokenizer,
    store: TokenStore,
    vectors: np.ndarray,
    settings: EvaluateSettings,
) -> list[dict[str, Any]]:
    """A row for each moment and head: epochs (None: the end), its tendencies, its mean divergence (bits) from the
    other heads of its layer, and for each role the score above the baseline; over `PASSAGES` passages."""
    found: list[dict[str, Any]] = []
    stories = _read(tokenizer, vectors, passages(store, PASSAGES, moments[0][1].settings.context))
    for epochs, model in moments:
        seen = _Watched(model, tokenizer, stories)
        roles = seen.roles.table(1, settings.seed)  # its interval is not used
        apart = seen.distances.within_layers()
        for head in seen.tendencies.table():
            place = head["layer"], head["head"]
            gains = {
                row["role"]: row["score"] - row["baseline"]
                for row in roles
                if (row["layer"], row["head"]) == place
            }
            row = {"epochs": epochs, "layer": place[0], "head": place[1]} | {
                name: head[name] for name in FIGURES
            }
            found.append(
                row | {"bits_from_layer": float(apart[place[0] - 1, place[1] - 1])} | gains
            )
    return found
