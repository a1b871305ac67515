"""Attention on the evaluation stories: maps, the heads' roles and ablation, and the logit lens."""

import numpy as np

from tinylm.evaluate.ablation import ablate
from tinylm.evaluate.attention_maps import attention, passages, write_maps
from tinylm.evaluate.head_roles import MARGIN, MIN_POSITIONS, ROLES, HeadRoles, role_pairs
from tinylm.evaluate.logit_lens import logit_lens
from tinylm.evaluate.settings import EvaluateSettings, Part, Rows
from tinylm.evaluate.trained_run import TrainedRun


def measure_attention(run: TrainedRun, settings: EvaluateSettings) -> Part:
    """What the heads and layers do; writes the attention maps of some sentences."""
    model = run.model
    tokenizer = run.tokenizer
    shown = [tokenizer.shown(token) for token in range(len(tokenizer))]
    write_maps(model, run.checkpoints, shown, run.evaluation, settings.attention_sentences)
    roles = _roles(run, settings)
    measured = {row["role"] for row in roles}
    reason = f"fewer than {MIN_POSITIONS} comparable positions"
    ablated = passages(run.evaluation, settings.ablation_stories, model.settings.context)
    ablation = ablate(model, ablated, settings.bootstrap, settings.seed)
    metrics = {
        "margin": MARGIN,
        "not_measured": {role: reason for role in ROLES if role not in measured},
        "ablation": {"stories": len(ablated)},
        "logit_lens": logit_lens(model, ablated),
    }
    return {"heads": metrics}, {"roles": roles, "ablation": ablation}


def _roles(run: TrainedRun, settings: EvaluateSettings) -> Rows:
    """The rows of roles.csv, over `tendency_sentences` passages."""
    context = run.model.settings.context
    special = list(run.tokenizer.specials)
    roles = HeadRoles(context)
    for ids in passages(run.evaluation, settings.tendency_sentences, context):
        is_text = ~np.isin(ids, special)
        roles.add(attention(run.model, ids).maps, is_text, role_pairs(ids, is_text))
    return roles.table(settings.bootstrap, settings.seed)
