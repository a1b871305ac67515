"""What stage evaluate measures: the loss, continuations and attention; and how it writes its tables."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd

from tinylm.base import paths
from tinylm.base.files import TableFile, atomic_write
from tinylm.decoding.settings import CacheSettings, DecodeSettings
from tinylm.download.remarks import HELD_OUT_IS_EVALUATION
from tinylm.download.source import NO_OFFICIAL_EVALUATION
from tinylm.evaluate.ablation import ablate
from tinylm.evaluate.attention_maps import attention, passages, write_maps
from tinylm.evaluate.baselines import baselines, less_than_ngrams
from tinylm.evaluate.continuations import continue_prompts, measure_samples
from tinylm.evaluate.head_roles import MARGIN, MIN_POSITIONS, ROLES, HeadRoles, role_pairs
from tinylm.evaluate.memorised import measure_memorised
from tinylm.evaluate.sense import measure_sense
from tinylm.evaluate.settings import (
    RESAMPLES,
    SEED,
    EvaluateSettings,
    Metrics,
    MetricsAndTables,
    Rows,
)
from tinylm.evaluate.split_score import score_split
from tinylm.evaluate.trained_run import TrainedRun
from tinylm.evaluate.truth import measure_truth

DRAWN_SENTENCES = 3  # whose attention is drawn as heat maps
ROLE_STORIES = 200  # on which the roles of heads are measured; all where the split has fewer
ABLATION_STORIES = 40  # whose loss is measured with each head switched off


def measure_loss(run: TrainedRun) -> MetricsAndTables:
    """Perplexity and bits per byte of the split and its stories, and of the baselines."""
    metrics, stories, once = score_split(
        run.model, run.tokenizer, run.evaluation, run.layout, paths.STORIES
    )
    if run.corpus["evaluation_split"] == NO_OFFICIAL_EVALUATION["tokens"]:
        metrics["warnings"].append(HELD_OUT_IS_EVALUATION)
    texts = stories["text_id"].tolist()
    floor = run.corpus["splits"]["evaluation"].get("log_prob_nats")
    if metrics["unknown_share"]:  # the generator scores the words behind <unk>, the model does not
        floor = None
    metrics["baselines"] = baselines(run.evaluation, run.layout, run.ngrams, run.unigrams, floor)
    metrics["baselines"]["kneser_ney"]["train_tokens"] = len(run.train.ids)
    metrics["baselines"]["kneser_ney"]["difference"] = less_than_ngrams(
        once, texts, run.evaluation, run.layout, run.ngrams
    )
    truth, tables = measure_truth(run)
    return metrics | truth, tables | {"stories": stories}


def measure_continuations(
    run: TrainedRun, settings: EvaluateSettings, decode: DecodeSettings, cache: CacheSettings
) -> MetricsAndTables:
    """Perplexity, BLEU, variety, memorisation and sense of samples.

    Sense is judged only if the corpus is the storybook and prompts are starts of stories.
    """
    metrics: Metrics = {}
    tables: dict[str, Any] = {}
    samples = continue_prompts(run.model, run.tokenizer, run.prompts, settings, decode, cache.slide)
    metrics["samples"], tables["samples"] = measure_samples(samples, settings, decode)
    metrics["memorised"] = measure_memorised(samples, run.tokenizer, run.train)
    if run.corpus["source"] == "storybook" and settings.prompts == "starts":
        metrics["sense"], tables["sense"] = measure_sense(samples)
    return metrics, tables


def measure_attention(run: TrainedRun) -> MetricsAndTables:
    """Attention maps, which are written; the heads' roles and ablation."""
    model = run.model
    tokenizer = run.tokenizer
    shown = [tokenizer.shown(token) for token in range(len(tokenizer))]
    write_maps(model, shown, run.evaluation, DRAWN_SENTENCES)
    roles = _roles(run)
    measured = {row["role"] for row in roles}
    reason = f"fewer than {MIN_POSITIONS} comparable positions"
    chosen = passages(run.evaluation, ABLATION_STORIES, model.settings.context)
    ablated = [ids for ids in chosen if len(ids) > 1]  # one token alone has no loss
    ablation = ablate(model, ablated, RESAMPLES, SEED)
    metrics = {
        "margin": MARGIN,
        "not_measured": {role: reason for role in ROLES if role not in measured},
        "ablation": {"stories": len(ablated)},
    }
    return {"heads": metrics}, {"roles": roles, "ablation": ablation}


def _roles(run: TrainedRun) -> Rows:
    """The rows of roles.csv, over `ROLE_STORIES` passages."""
    context = run.model.settings.context
    special = list(run.tokenizer.specials)
    roles = HeadRoles()
    for ids in passages(run.evaluation, ROLE_STORIES, context):
        is_text = ~np.isin(ids, special)
        roles.add(attention(run.model, ids).maps, is_text, role_pairs(ids, is_text))
    return roles.table(RESAMPLES, SEED)


def write_tables(tables: Mapping[str, Any]) -> None:
    """Write each table to data/evaluate/NAME.csv, with five decimals."""
    for name, table in tables.items():
        with atomic_write(paths.evaluated(f"{name}.csv")) as handle:
            pd.DataFrame(table).to_csv(
                TableFile(handle),  # type: ignore[call-overload]
                index=False,
                float_format="%.5f",
                lineterminator=TableFile.ROW_END,
            )
