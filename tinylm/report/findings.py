"""What the numbers of a run say and do not say: every sentence follows from figures by a rule in this file.

A rule looks at a run and returns sentences; if its figures are absent it returns none. Two intervals that
overlap never support a claim.
"""

import math
from collections.abc import Callable

from tinylm.report.cost_findings import COST_RULES
from tinylm.report.head_training import TRAINING_RULES
from tinylm.report.heads import HEAD_RULES
from tinylm.report.pair_sections import PAIR_RULES
from tinylm.report.sense_sections import SENSE_RULES
from tinylm.report.sources import Run, as_number
from tinylm.report.text_findings import TEXT_RULES
from tinylm.report.wording import Finding, count, figure, interval, loss, not_said, said, share

NEAR_FLOOR, GAP, RISE = (
    0.10,
    0.10,
    0.02,
)  # nats per token: below these, "close", "no gap", "no rise"


def compare_with_baselines(run: Run) -> list[Finding]:
    """Does the model predict better than counting words does, and by which factor?"""
    figures = run.scored_once()
    model = as_number(figures.get("perplexity"))
    other = as_number(run.get("evaluate", "baselines", "kneser_ney", "perplexity"))
    order = run.get("evaluate", "baselines", "kneser_ney", "order")
    ends = interval(figures.get("perplexity_interval"))
    if model is None or other is None or model <= 0 or other <= 0:
        return []
    name = f"the Kneser-Ney {count(order)}-gram model"
    protocol = _protocol(run)
    if ends and ends[0] <= other <= ends[1]:
        return [
            not_said(
                f"Whether the model beats {name} is open: the baseline's perplexity {figure(other)} lies "
                f"inside the model's interval of {figure(ends[0])} to {figure(ends[1])}{protocol}."
            )
        ]
    if model < other:
        return [
            said(
                f"The model beats {name}: perplexity {figure(model)} against {figure(other)}, lower by the "
                f"factor {figure(other / model)}{protocol}. It has learnt more than short word sequences."
            )
        ]
    return [
        said(
            f"The model does not beat {name}: perplexity {figure(model)} against {figure(other)}, higher by the "
            f"factor {figure(model / other)}{protocol}. Counting short word sequences predicts this text better."
        )
    ]


def _protocol(run: Run) -> str:
    if not run.mapping("evaluate", "once"):
        return ""
    every = figure(run.get("evaluate", "perplexity"))
    return (
        f" (each target scored once; the {every} over every window of stride 1 is another protocol)"
    )


def compare_with_floor(run: Run) -> list[Finding]:
    """How far is the model from the generator that wrote the text?"""
    model = as_number(run.scored_once().get("nats_per_token"))
    floor = as_number(run.get("evaluate", "baselines", "floor", "nats_per_token"))
    if model is None:
        return []
    if floor is None:
        return [not_said("How much better a model could get: this text has no known floor.")]
    gap = model - floor
    if gap < 0:
        return [
            said(
                f"The loss lies {loss(-gap)} nats per token below the generator's own floor, which nothing honest "
                "can do: the evaluation text leaks into training, or a measurement is wrong."
            )
        ]
    where = "close to" if gap < NEAR_FLOOR else "well above"
    return [
        said(
            f"The model is {where} the generator's floor: {loss(gap)} nats per token above it "
            f"({loss(model)} against {loss(floor)})."
        )
    ]


def judge_fit(run: Run) -> list[Finding]:
    """Over- or underfitting, from the gap between train and held-out and from where the best loss was."""
    train, last = (
        as_number(run.get("train", "train_loss")),
        as_number(run.get("train", "held_out_loss_last")),
    )
    best, at = (
        as_number(run.get("train", "held_out_loss_best")),
        as_number(run.get("train", "best_update")),
    )
    updates = as_number(run.get("train", "updates"))
    if train is None or last is None:
        return []
    figures = f"train {loss(train)}, held-out {loss(last)} nats per token at the end"
    gap = last - train
    rose = best is not None and last - best > RISE
    if rose:
        return [
            said(
                f"The model overfits: the held-out loss was lowest ({loss(best)}) at update {count(at)} and has "
                f"risen since ({figures})."
            )
        ]
    found = []
    if gap > GAP:
        found.append(
            said(
                f"The model knows the training text better than unseen text ({figures}, a gap of {loss(gap)}): "
                "it begins to overfit."
            )
        )
    else:
        once = (as_number(run.get("train", "epochs")) or 2.0) <= 1
        seen = (
            " No story was read twice, so that the train loss is one of unseen text as well."
            if once
            else ""
        )
        found.append(
            said(f"There is no sign of overfitting: {figures}, a gap of {loss(gap)}.{seen}")
        )
    if at is not None and updates is not None and at >= updates:
        found.append(
            said(
                "The last held-out loss is the lowest of the run: it had not begun to rise when the run ended."
            )
        )
    return found


def judge_unknown(run: Run) -> list[Finding]:
    """Is the perplexity made easier by unknown words?"""
    unknown = as_number(run.get("evaluate", "unknown_share"))
    if unknown is None or run.token() != "word":
        return []
    if unknown > 0.01:
        return [
            not_said(
                f"How well rare words are predicted: {share(unknown)} of the evaluation words are <unk>, "
                "which is easier to predict than the words it stands for."
            )
        ]
    return [
        said(
            f"Unknown words hardly flatter the perplexity: {share(unknown)} of the evaluation words are <unk>."
        )
    ]


def limits(run: Run) -> list[Finding]:
    """What one run can never say."""
    found = [_seeds(run)]
    if run.param("data", "source") == "storybook":
        found.append(
            not_said(
                "How the model would do on natural stories: it has read and was evaluated on generated ones alone."
            )
        )
    perplexity = as_number(run.get("evaluate", "perplexity"))
    if perplexity is not None:
        found.append(
            not_said(
                "How the model compares with published ones: perplexity depends on the vocabulary; only bits "
                "per byte compare across tokenizers, and only on the same text."
            )
        )
        held_out = as_number(run.get("train", "held_out_loss_best"))
        if held_out is not None and abs(math.log(perplexity) - held_out) > GAP:
            same = run.evaluates_held_out()
            why = (
                "they are the same text, scored differently"
                if same
                else "they are different stories"
            )
            found.append(
                not_said(
                    f"Why held-out ({loss(held_out)}) and evaluation ({loss(math.log(perplexity))} nats per "
                    f"token) differ: {why}."
                )
            )
    return found


def _seeds(run: Run) -> Finding:
    """What another seed would have changed."""
    difference = as_number(run.get("seeds", "perplexity", "difference"))
    if difference is None:
        return not_said(
            "Whether a small difference to another run is real: this is one run with one seed, and other "
            "seeds give other figures. The intervals cover the choice of stories only."
        )
    mean, spread = run.get("seeds", "perplexity", "mean"), run.get("seeds", "perplexity", "sd")
    return said(
        f"Over {count(run.get('seeds', 'n'))} seeds the perplexity is {figure(mean)} ± {figure(spread)} (standard "
        f"deviation): two single runs whose perplexities differ by less than {figure(difference)} may differ by their "
        "seeds alone."
    )


RULES: tuple[Callable[[Run], list[Finding]], ...] = (
    compare_with_baselines,
    compare_with_floor,
    judge_fit,
    judge_unknown,
    *TEXT_RULES,
    *SENSE_RULES,
    *PAIR_RULES,
    *HEAD_RULES,
    *TRAINING_RULES,
    *COST_RULES,
    limits,
)


def findings(run: Run) -> list[Finding]:
    """All sentences that this run supports, in the order of the page."""
    return [finding for rule in RULES for finding in rule(run)]
