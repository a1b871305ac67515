"""Attention on the evaluation stories: maps, and the heads' roles, ablation and probes."""

import numpy as np

from tinylm.evaluate.ablation import ablate
from tinylm.evaluate.attention_maps import attention, passages, write_maps
from tinylm.evaluate.head_roles import MARGIN, MIN_POSITIONS, ROLES, HeadRoles, role_pairs
from tinylm.evaluate.probes import induction, logit_lens
from tinylm.evaluate.settings import EvaluateSettings, Part, Rows
from tinylm.evaluate.trained_run import TrainedRun
from tinylm.evaluate.word_classes import read_row


def measure_attention(run: TrainedRun, settings: EvaluateSettings) -> Part:
    """Roles, contribution and probes of the heads; writes the attention maps of some sentences."""
    model = run.model
    tokenizer = run.tokenizer
    shown = [tokenizer.shown(token) for token in range(len(tokenizer))]
    write_maps(model, run.checkpoints, shown, run.evaluation, settings.attention_sentences)
    roles = _roles(run, settings)
    measured = {row["role"] for row in roles}
    reason = f"fewer than {MIN_POSITIONS} comparable positions"
    ablated = passages(run.evaluation, settings.ablation_stories, model.settings.context)
    ablation = ablate(model, ablated, settings.bootstrap, settings.seed)
    text_ids = set(np.unique(run.evaluation.ids).tolist())
    text_ids -= {*tokenizer.specials, tokenizer.unk_id}
    start = [] if tokenizer.sos_id is None else [tokenizer.sos_id]
    metrics = {
        "margin": MARGIN,
        "not_measured": {role: reason for role in ROLES if role not in measured},
        "ablation": {"stories": len(ablated)},
        "induction": induction(model, sorted(text_ids), start, settings),
        "logit_lens": logit_lens(model, ablated),
    }
    return {"heads": metrics}, {"roles": roles, "ablation": ablation}


def _roles(run: TrainedRun, settings: EvaluateSettings) -> Rows:
    """The rows of roles.csv, over `tendency_sentences` passages."""
    context = run.model.settings.context
    centre = run.vectors.mean(axis=0)
    roles = HeadRoles(context)
    for ids in passages(run.evaluation, settings.tendency_sentences, context):
        row = read_row(run.tokenizer, ids.tolist())
        embedded = run.vectors[ids.astype(np.int64)] - centre
        roles.add(attention(run.model, ids).maps, row.text, role_pairs(row, embedded))
    return roles.table(settings.bootstrap, settings.seed)
