"""Attention heads on evaluation stories: roles, ablation and probes."""

import numpy as np

from tinylm.evaluate.ablation import ablate
from tinylm.evaluate.attention_maps import attention, passages
from tinylm.evaluate.head_roles import HeadRoles, role_pairs, summarise_roles
from tinylm.evaluate.probes import induction, logit_lens
from tinylm.evaluate.settings import EvaluateSettings, Metrics, Rows
from tinylm.evaluate.word_classes import read_row
from tinylm.model.transformer import TinyLM
from tinylm.vocab.token_store import TokenStore
from tinylm.vocab.tokenizer import Tokenizer


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
    centre = vectors.mean(axis=0)
    stories = passages(store, settings.tendency_sentences, context)
    roles = HeadRoles(context)
    for ids in stories:
        row = read_row(tokenizer, ids.tolist())
        embedded = vectors[ids.astype(np.int64)] - centre
        roles.add(attention(model, ids).maps, row.text, role_pairs(row, embedded))
    role_rows = roles.table(settings.bootstrap, settings.seed)
    ablated = passages(store, settings.ablation_stories, context)
    whole_loss, ablation_rows = ablate(model, ablated, settings.bootstrap, settings.seed)
    text_ids = set(np.unique(store.ids).tolist())
    text_ids -= {*tokenizer.specials, tokenizer.unk_id}
    start = [] if tokenizer.sos_id is None else [tokenizer.sos_id]
    metrics = {
        "passages": len(stories),
        **summarise_roles(role_rows),
        "ablation": {"stories": len(ablated), "nats_per_token": whole_loss},
        "induction": induction(model, sorted(text_ids), start, settings),
        "logit_lens": logit_lens(model, ablated),
    }
    return metrics, {"roles": role_rows, "ablation": ablation_rows}
