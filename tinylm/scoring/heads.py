"""Every attention head over evaluation stories: where it looks, which role it has, what it contributes."""

from typing import Any, NamedTuple

import numpy as np

from tinylm.model.transformer import TinyLM
from tinylm.scoring.ablation import ablate, summarise_ablation
from tinylm.scoring.attention_maps import look, passages
from tinylm.scoring.continuations import EvaluateSettings
from tinylm.scoring.head_distance import PASSAGES, HeadDistances
from tinylm.scoring.head_roles import HeadRoles, role_pairs, summarise_roles
from tinylm.scoring.head_tendencies import HeadTendencies
from tinylm.scoring.word_classes import WordReader
from tinylm.text.tokens.token_store import TokenStore
from tinylm.text.tokens.tokenizer import Tokenizer


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


def measure_heads(model: TinyLM, tokenizer: Tokenizer, store: TokenStore, settings: EvaluateSettings) -> Heads:
    """Tendencies and roles over `tendency_sentences` passages, ablation over `ablation_stories` of them."""
    context = model.settings.context
    tendencies = HeadTendencies(sorted(set(tokenizer.specials) - {tokenizer.unk_id}))
    distances, roles, reader = HeadDistances(), HeadRoles(context), WordReader(tokenizer)
    embedding = model.embedding.detach()
    middle = embedding.mean(dim=0)
    told = words = classified = 0
    stories = passages(store, settings.tendency_sentences, context)
    for number, ids in enumerate(stories):
        maps = look(model, ids).maps
        tendencies.add(list(maps), ids)
        if number < PASSAGES:
            distances.add(maps)
        row = reader.read(ids.tolist())
        vectors = (embedding[ids.astype(np.int64)] - middle).cpu().numpy()
        roles.add(maps, row.text, role_pairs(row, vectors))
        told += row.is_told
        words += len(row.words)
        classified += sum(word.name != "" for word in row.words)
    table = roles.table(settings.bootstrap, settings.seed)
    rows = passages(store, settings.ablation_stories, context)
    whole, ablation = ablate(model, rows, settings.bootstrap, settings.seed)
    figures = {
        "passages": len(stories),
        "told_by_generator": told,
        "classified_share": classified / words if words else None,
        **summarise_roles(table, roles),
        "ablation": summarise_ablation(whole, ablation, len(rows)),
    }
    return Heads(tendencies.table(), distances.table(), table, ablation, figures)
