"""Runs of a study: each setting and seed is a run of a sweep that ends with stage train, and so a DVC experiment."""

import math
from typing import Any

import numpy as np

from tinylm.base import paths
from tinylm.base.config import InputError
from tinylm.host.command import CommandFailed
from tinylm.presets.write import Values, flatten
from tinylm.studies.study_plan import SECTIONS, Runs, Study, workspace_problems
from tinylm.sweep import plan
from tinylm.vocab.token_store import TokenStore
from tinylm.vocab.tokenizer import open_tokenizer

NOT_FINITE = "not finite"  # in the line of a training that failed for its loss, gradients or weights: an answer too


def unigram_loss(train_ids: np.ndarray, held_out_ids: np.ndarray, vocab_size: int) -> float:
    """Held-out loss in nats per token under the train split's word counts plus one: without word order."""
    counts = np.bincount(train_ids, minlength=vocab_size).astype(np.float64) + 1
    return float(-np.log(counts / counts.sum())[np.asarray(held_out_ids[1:])].mean())


def data(params: dict[str, Any]) -> dict[str, Any]:
    """What the runs are trained and scored on."""
    tokenizer = open_tokenizer(paths.TOKENIZER)
    ids = {split: TokenStore(paths.TOKENS, split).ids for split in ("train", "held_out")}
    loss = unigram_loss(ids["train"], ids["held_out"], len(tokenizer))
    return {
        "source": params["data"]["source"],
        "vocabulary": len(tokenizer),
        "tokens": {split: len(of_split) for split, of_split in ids.items()},
        "unigram_loss": loss,
        "unigram_perplexity": math.exp(loss),
        "uniform_loss": math.log(len(tokenizer)),
    }


def planned(
    study: Study, seeds: tuple[int, ...], params: dict[str, Any], threads: int | None
) -> dict[tuple[str, int], Values]:
    """{(setting, seed): the values in which its run differs from params.yaml}; all settings with one seed first.

    Random vectors are drawn anew for each seed. Raises InputError if the workspace has other tokens.
    """
    if problems := workspace_problems(study, params):
        raise InputError(
            f"study {study.name} wants the tokens of preset {study.preset} ({'; '.join(problems[:3])}): "
            f"tinylm preset {study.preset}, then dvc repro vocab"
        )
    here, runs = flatten(params), {}
    for seed in seeds:
        for setting in study.settings:
            own = {
                key: value
                for key, value in study.values(setting).items()
                if key.partition(".")[0] in SECTIONS
            }
            own |= {"train.seed": seed} | ({} if threads is None else {"runtime.threads": threads})
            own |= {"embedding.seed": seed} if own["embedding.source"] == "random" else {}
            runs[setting, seed] = {key: value for key, value in own.items() if value != here[key]}
    return runs


def outcome(sweep: plan.Sweep, number: int) -> dict[str, Any]:
    """The figures of a run; losses in nats per token, held-out of the weights that were saved.

    Raises CommandFailed if it failed for another reason than that it did not learn.
    """
    state = sweep.state(number)
    if state["state"] != plan.DONE:
        if NOT_FINITE in state["why"]:
            return {"diverged": 1, "error": state["why"]}
        raise CommandFailed(
            f"run {number} ({sweep.label(number)}): {state['why']}; the same command tries it again"
        )
    known = sweep.figures(number)
    trained = known["train"]
    epochs = trained.get("by_epoch") or [{}]
    return {
        "diverged": 0,
        "held_out_loss": math.log(trained["held_out_perplexity"]),
        "epoch_train_loss": epochs[0].get("train_loss"),
        **{
            key: trained[key]
            for key in (
                "held_out_perplexity",
                "train_loss",
                "updates",
                "tokens",
                "epochs",
                "parameters",
            )
        },
        **({"conditions": known["conditions"]} if "conditions" in known else {}),
    }


def results(sweep: plan.Sweep, runs: dict[tuple[str, int], Values]) -> Runs:
    """{setting: {seed: figures}} of a sweep that has ended."""
    found: Runs = {}
    for number, (setting, seed) in enumerate(runs, 1):
        found.setdefault(setting, {})[str(seed)] = outcome(sweep, number)
    return found
