"""What stage evaluate measures: the loss, continuations and attention; and how it writes its tables."""

import dataclasses
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from tinylm.base import paths
from tinylm.base.files import TableFile, atomic_write
from tinylm.decoding.settings import CacheSettings, DecodeSettings
from tinylm.evaluate.ablation import ablate
from tinylm.evaluate.attention_maps import attention, passages, write_maps
from tinylm.evaluate.baselines import floor, less_than_ngrams, ngram_loss, uniform_loss
from tinylm.evaluate.continuations import continue_prompts, measure_samples
from tinylm.evaluate.head_roles import MARGIN, MIN_POSITIONS, HeadRoles
from tinylm.evaluate.memorised import measure_memorised
from tinylm.evaluate.plausibility import measure_plausibility
from tinylm.evaluate.settings import RESAMPLES, SEED, TABLE_DECIMALS, EvaluateSettings, Rows, Tables
from tinylm.evaluate.split_score import score_split
from tinylm.evaluate.trained_run import TrainedRun
from tinylm.run.evaluated import (
    AblationOfHeads,
    Baselines,
    Heads,
    KneserNeyLoss,
    Memorised,
    Plausibility,
    Samples,
    SplitLoss,
)
from tinylm.run.role_pairs import ROLES, role_pairs
from tinylm.text.stories import HELD_OUT_IS_EVALUATION, NO_OFFICIAL_EVALUATION

DRAWN_SENTENCES = 3  # whose attention is drawn as heat maps
ROLE_STORIES = 200  # on which the roles of heads are measured; all where the split has fewer
ABLATION_STORIES = 40  # whose loss is measured with each head switched off


def measure_loss(run: TrainedRun) -> tuple[SplitLoss, Baselines, Tables]:
    """The loss of the model and of the baselines on the evaluation split, and a table of its stories."""
    loss, stories, scored_once = score_split(
        run.model, run.tokenizer, run.evaluation, run.layout, paths.STORIES
    )
    if run.corpus.evaluation_split == NO_OFFICIAL_EVALUATION["tokens"]:
        loss = dataclasses.replace(loss, warnings=[*loss.warnings, HELD_OUT_IS_EVALUATION])
    log_prob = run.corpus.splits["evaluation"].log_prob_nats
    if loss.unknown_share:  # the generator scores the words behind <unk>, the model does not
        log_prob = None
    difference = less_than_ngrams(
        scored_once, stories["text_id"].tolist(), run.evaluation, run.layout, run.ngrams
    )
    kneser_ney = KneserNeyLoss(
        **vars(ngram_loss(run.ngrams, run.evaluation, run.layout)),
        order=run.ngrams.order,
        counted_tokens=run.ngrams.tokens,
        train_tokens=len(run.train.ids),
        difference=difference,
    )
    baselines = Baselines(
        uniform=uniform_loss(run.evaluation, run.layout),
        unigram=ngram_loss(run.unigrams, run.evaluation, run.layout),
        kneser_ney=kneser_ney,
        floor=None if log_prob is None else floor(run.evaluation, run.layout, log_prob),
    )
    return loss, baselines, {"stories": stories}


class Continuations(NamedTuple):
    """Measurements of the model's continuations; plausibility is None if the generator cannot judge them."""

    samples: Samples
    memorised: Memorised
    plausibility: Plausibility | None


def measure_continuations(
    run: TrainedRun, settings: EvaluateSettings, decode: DecodeSettings, cache: CacheSettings
) -> tuple[Continuations, Tables]:
    """Perplexity, BLEU, diversity, memorisation and plausibility of samples.

    The generator of a world, such as the storybook, judges plausibility if it wrote the corpus and
    prompts are starts of stories.
    """
    tables: Tables = {}
    samples = continue_prompts(run.model, run.tokenizer, run.prompts, settings, decode, cache.slide)
    measured, tables["samples"] = measure_samples(samples, settings, decode)
    memorised = measure_memorised(samples, run.tokenizer, run.train)
    plausibility = None
    if run.world and settings.prompts == "starts":
        plausibility, tables["sense"] = measure_plausibility(
            samples, run.world, run.tokenizer.kind != "words"
        )
    return Continuations(measured, memorised, plausibility), tables


def measure_attention(run: TrainedRun) -> tuple[Heads, Tables]:
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
    heads = Heads(
        margin=MARGIN,
        not_measured={role: reason for role in ROLES if role not in measured},
        ablation=AblationOfHeads(len(ablated)),
    )
    return heads, {"roles": roles, "ablation": ablation}


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
    """Write each table to data/evaluate/NAME.csv, with `TABLE_DECIMALS` decimals."""
    for name, table in tables.items():
        with atomic_write(paths.evaluated(f"{name}.csv")) as handle:
            pd.DataFrame(table).to_csv(
                TableFile(handle),  # type: ignore[call-overload]
                index=False,
                float_format=f"%.{TABLE_DECIMALS}f",
                lineterminator=TableFile.ROW_END,
            )
