"""The claims of the homework notebook (E); see claims.py."""

from collections.abc import Callable, Iterable
from functools import partial
from math import ceil, exp
from typing import Any

from tinylm.report.figures import (
    Figures,
    best,
    column,
    count,
    highest,
    listing,
    lowest,
    per_seed,
    spread,
    values,
)
from tinylm.studies.claims import CONTRADICTED, DEPENDS, REPRODUCED, Claim, reproduced_if

LOSS = "held_out_loss"


def _as_near_as_seeds(own: Any, said: float) -> str:
    """Reproduced if within twice the standard deviation over seeds, or half a percent."""
    return reproduced_if(abs(own - said) <= max(2 * spread(own), 0.005 * said))


def epoch_1_perplexity(theirs: Figures, epoch_1: Figures) -> Claim:
    said, own = theirs.epochs[0].perplexity, epoch_1["as published"].held_out_perplexity
    low, high = min(values(own), default=own), max(values(own), default=own)
    yield f"Validation perplexity after one epoch is {said:.2f}."
    yield (
        f"Ours: {own:.2f} ± {spread(own):.2f} over {len(values(own))} seeds, {low:.2f} to {high:.2f}."
    )
    yield _as_near_as_seeds(own, said)


def epoch_1_train_loss(theirs: Figures, epoch_1: Figures) -> Claim:
    said, own = theirs.epochs[0].train_loss, epoch_1["as published"].epoch_train_loss
    yield f"Mean training loss of the first epoch is {said:.4f}."
    yield f"Ours: {own:.4f} ± {spread(own):.4f} over {len(values(own))} seeds."
    yield _as_near_as_seeds(own, said)


def later_epochs(theirs: Figures, ours: Figures) -> Claim:
    second, fifth, epochs = theirs.epochs[1], theirs.epochs[4], ours.train.by_epoch
    yield (
        f"After {second.epoch} epochs the perplexity is {second.perplexity:.2f}, after {fifth.epoch} "
        f"{fifth.perplexity:.2f}."
    )
    yield f"Ours after {second.epoch}: {epochs[1].held_out_perplexity:.2f}."
    yield f"Ours after {fifth.epoch}: {epochs[4].held_out_perplexity:.2f}."
    yield f"Ours at the end, after {epochs[-1].epoch:.0f}: {epochs[-1].held_out_perplexity:.2f}."
    yield reproduced_if(abs(epochs[1].held_out_perplexity / second.perplexity - 1) < 0.01)


def best_perplexity(theirs: Figures, ours: Figures) -> Claim:
    said, epochs, own = theirs.best_perplexity, theirs.epochs, ours.train.by_epoch
    yield f"The best perplexity is {said:.2f}, an epoch before the last."
    yield (
        f"Its table has it after epoch {epochs[18].epoch}; the last epoch gives {epochs[19].perplexity:.2f}, while the "
        f"train loss falls to {theirs.last_train_loss}."
    )
    yield f"Ours, lowest of {count(own)} epochs: {lowest(own, 'held_out_perplexity'):.2f}."
    yield reproduced_if(lowest(epochs, "perplexity") == said and epochs[18].perplexity == said)


def parameters(theirs: Figures, ours: Figures) -> Claim:
    model, words = theirs.model, theirs.data.vocabulary
    width, hidden = model.width, model.feed_forward
    block = 4 * width * (width + 1) + 2 * width * hidden + hidden + width + 2 * width
    counted = 2 * words * width + model.layers * block + width
    yield f"The model has {model.parameters:,} parameters."
    yield f"Embedding and head of {words} x {width}, {model.layers} blocks and a final gain make {counted:,}."
    yield f"Ours: {ours.train.parameters:,}."
    if counted != model.parameters:
        yield CONTRADICTED
    else:
        yield REPRODUCED if ours.train.parameters == model.parameters else DEPENDS


def windows(theirs: Figures, ours: Figures) -> Claim:
    data, context, tokens = theirs.data, theirs.model.context, ours.vocab.tokens
    total = data.train_windows + data.held_out_windows
    train, held_out = tokens.train - context, tokens.held_out - context
    yield (
        f"The corpus gives {data.windows:,} windows, {data.train_windows:,} for training and {data.held_out_windows:,} "
        "for validation."
    )
    yield f"{data.train_windows:,} + {data.held_out_windows:,} = {total:,}."
    yield f"Ours: {train:,.0f} and {held_out:,.0f}."
    if total != data.windows:
        yield CONTRADICTED
    else:
        same = train == data.train_windows and held_out == data.held_out_windows
        yield REPRODUCED if same else DEPENDS


def batches(theirs: Figures) -> Claim:
    windows, rows, said = (
        theirs.data.train_windows,
        theirs.train.batch_size,
        theirs.train.batches_an_epoch,
    )
    yield f"An epoch has {said:,} batches."
    yield f"{windows:,} / {rows} is {windows / rows:,.1f}, the last batch short."
    yield reproduced_if(ceil(windows / rows) == said)


def encoding(theirs: Figures) -> Claim:
    said, checked = theirs.data.windows, theirs.checked
    small, written = checked.merge_order_windows, checked.merge_order_windows_as_written
    yield "The text is encoded by byte-pair encoding."
    yield (
        f"Applying the merges in their order gives {written:,} windows, or {small:,} if words in capitals are "
        f"capitalised as they are where merges are counted; greedy longest match gives the published {said:,}."
    )
    yield reproduced_if(said in (small, written))


def leakage(theirs: Figures) -> Claim:
    context, stride = theirs.model.context, theirs.data.stride
    yield "No text of the validation part leaks into training."
    yield (
        f"Windows of {context} at stride {stride} straddle the cut: {context - stride} tokens stand on both sides."
    )
    yield CONTRADICTED if context > stride else REPRODUCED if context == stride else DEPENDS


def _early(theirs: Figures, setting: Figures) -> tuple[bool, str]:
    """(whether a setting of a study saw less than half of their updates, a sentence that says how many it saw)."""
    updates, theirs_all = setting.updates, theirs.train.batches_an_epoch * theirs.train.epochs
    return (
        updates < 0.5 * theirs_all,
        f"Ours is judged after {updates:,.0f} of {theirs_all:,} updates.",
    )


def learning_rate(theirs: Figures, learning_rate: Figures) -> Claim:
    unigram = learning_rate.data.unigram_loss
    highest_rate = learning_rate["0.01"]
    yield f"Nothing is learned at a learning rate above {theirs.answers.highest_lr:g}."
    yield (
        f"Held-out loss by rate after equal tokens: {listing(learning_rate, LOSS)}; word counts alone give "
        f"{unigram:.3f}."
    )
    early, how_early = _early(theirs, highest_rate)
    yield how_early
    holds = highest_rate.diverged > 0 or highest_rate.held_out_loss > unigram - 0.05
    yield DEPENDS if early else reproduced_if(holds)


def best_rate(theirs: Figures, learning_rate: Figures) -> Claim:
    least, own = lowest(learning_rate, LOSS), learning_rate["3e-5"].held_out_loss
    yield f"{theirs.train.lr:g} is a good learning rate."
    yield (
        f"After equal tokens {best(learning_rate, LOSS)} is best with {least:.3f} nats per token, {theirs.train.lr:g} "
        f"has {own:.3f}."
    )
    early, how_early = _early(theirs, learning_rate["3e-5"])
    yield how_early
    yield DEPENDS if early else reproduced_if(own < least + 0.05)


def context(theirs: Figures, context: Figures) -> Claim:
    tokens = theirs.model.context
    updates = ", ".join(
        f"{name}: {value:,.0f}" for name, value in column(context, "updates").items()
    )
    yield f"Windows of {tokens} tokens are a good context."
    yield (
        f"Held-out loss by context after equal tokens: {listing(context, LOSS)}. Shorter windows make more updates of "
        f"the same tokens: {updates}."
    )
    early, how_early = _early(theirs, context[tokens])
    yield how_early
    yield (
        DEPENDS
        if early
        else reproduced_if(context[tokens].held_out_loss < lowest(context, LOSS) + 0.05)
    )


def weight_decay(theirs: Figures, weight_decay: Figures) -> Claim:
    decay = theirs.train.weight_decay
    none, own = weight_decay["0"], weight_decay[f"{decay:g}"]
    difference, noise = own.held_out_loss - none.held_out_loss, 2 * spread(none.held_out_loss)
    yield f"A weight decay of {decay} helps."
    yield (
        f"Held-out loss by weight decay after equal tokens: {listing(weight_decay, LOSS)}; with {decay} less that "
        f"without, {difference:+.4f} nats per token."
    )
    early, how_early = _early(theirs, own)
    yield how_early
    yield (
        DEPENDS
        if early
        else REPRODUCED
        if difference < -noise
        else CONTRADICTED
        if difference > noise
        else DEPENDS
    )


def evolution(theirs: Figures, ours: Figures) -> Claim:
    first, *_, last = theirs.moments
    early, late = (per_seed(ours.heads_training, partial(_width, at=at)) for at in (min, max))
    yield f"Its attention maps change from epoch {first} to {last}."
    yield (
        f"Tokens that a head of ours looks at, exp of the entropy, mean over heads: {early:.1f} at the first of the "
        f"kept moments, {late:.1f} at the end."
    )
    yield reproduced_if(abs(late / early - 1) > 0.1)


def _width(rows: Any, at: Callable[[Iterable[float]], float]) -> float | None:
    """Mean effective width over the heads at one of the moments of training."""
    moment = at(row["epochs"] for row in rows) if rows else None
    widths = [exp(row["entropy_nats"]) for row in rows if row["epochs"] == moment]
    return sum(widths) / len(widths) if widths else None


def what_matters(learning_rate: Figures, hidden: Figures) -> Claim:
    by_rate, by_width = (
        highest(study, LOSS) - lowest(study, LOSS) for study in (learning_rate, hidden)
    )
    yield "The learning rate matters more than the hidden width."
    yield f"The rates differ by {by_rate:.3f} nats per token, the widths by {by_width:.3f}."
    yield REPRODUCED if by_rate > 2 * by_width else CONTRADICTED if by_rate <= by_width else DEPENDS


def hidden(theirs: Figures, hidden: Figures, hidden_at_1e_3: Figures) -> Claim:
    yield f"Hidden widths of {theirs.answers.tried_hidden} behave alike."
    yield f"At its learning rate, after equal tokens: {listing(hidden, LOSS)}."
    yield f"At a rate at which more is learned: {listing(hidden_at_1e_3, LOSS)}."
    early, how_early = _early(theirs, hidden["512"])
    yield how_early
    yield (
        DEPENDS
        if early
        else reproduced_if(abs(hidden["512"].held_out_loss - hidden["16"].held_out_loss) <= 0.05)
    )


def positions(theirs: Figures, positions_at_1e_3: Figures, positions: Figures) -> Claim:
    better, unigram = positions_at_1e_3, positions_at_1e_3.data.unigram_loss
    yield "The model cannot do without positions."
    yield (
        f"At its learning rate, after equal tokens: {listing(positions, LOSS)}; word counts alone "
        f"{positions.data.unigram_loss:.3f}."
    )
    yield (
        f"At a rate at which more is learned: {listing(better, LOSS)}: the mask alone tells a position from another."
    )
    early, how_early = _early(theirs, better.none)
    yield how_early
    learns = better.none.held_out_loss < unigram - 0.5
    if early:
        yield DEPENDS
    elif learns and better.none.held_out_loss - better.sinusoids.held_out_loss < 0.2:
        yield CONTRADICTED
    else:
        yield DEPENDS if learns else REPRODUCED
