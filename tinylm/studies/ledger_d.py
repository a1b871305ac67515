"""The claims of coding report (D); see claims.py."""

from math import ceil, log

from tinylm.report.figures import Figures, at, lowest
from tinylm.studies.claims import (
    CONTRADICTED,
    DEPENDS,
    REPRODUCED,
    UNTESTABLE,
    Claim,
    contradicted_if,
    reproduced_if,
)


def parameters(theirs: Figures, ours: Figures) -> Claim:
    model, parts = theirs.model, theirs.model.parameters_by_part
    named = parts.embedding + parts.blocks + parts.output
    yield (
        f"{model.parameters:,} parameters are {parts.embedding:,} + {parts.blocks:,} + {parts.output:,} in embedding, "
        "blocks and output."
    )
    yield f"The three make {named:,}; the final norm's {2 * model.width:,} are the rest."
    yield f"Ours: {ours.train.parameters:,}."
    if named + 2 * model.width != model.parameters:
        yield CONTRADICTED
    else:
        yield REPRODUCED if ours.train.parameters == model.parameters else DEPENDS


def embedding(theirs: Figures) -> Claim:
    words, width, parts = (
        theirs.data.vocabulary,
        theirs.model.width,
        theirs.model.parameters_by_part,
    )
    with_bias = words * (width + 1)
    yield f"The embedding has {parts.embedding:,} parameters, the output layer {parts.output:,}."
    yield f"{words:,} x {width} = {words * width:,}, and a bias for each id: {with_bias:,}."
    yield reproduced_if(words * width == parts.embedding and with_bias == parts.output)


def first_loss(theirs: Figures, ours: Figures) -> Claim:
    said, uniform = theirs.losses[0].held_out, log(theirs.data.vocabulary)
    first = at(ours.curves.held_out, 0)
    yield f"The loss before training is {said}."
    yield f"ln V is {uniform:.2f}; PyTorch's default initialisation adds a sixth: {uniform + 1 / 6:.2f}."
    yield f"Ours: {first:.2f}."
    if abs(said - uniform - 1 / 6) > 0.1:
        yield CONTRADICTED
    else:
        yield REPRODUCED if abs(first - said) < 0.1 else DEPENDS


def loss_500(theirs: Figures, ours: Figures) -> Claim:
    said, curves = theirs.losses[1], ours.curves
    held_out, train = at(curves.held_out, said.iteration), at(curves.train, said.iteration)
    yield f"After {said.iteration} iterations the validation loss is {said.held_out}."
    yield f"Ours: {held_out:.2f}, train {train:.2f} against {said.train}."
    own, published = ours.vocab.tokens.train, theirs.tokens.train
    yield f"Its stories have {published:,} training tokens, ours {own:,}."
    if abs(held_out - said.held_out) < 0.1:
        yield REPRODUCED
    else:  # other stories, other losses
        yield CONTRADICTED if own == published else DEPENDS


def dropout(theirs: Figures) -> Claim:
    said, printed = theirs.model.dropout, theirs.model.printed_dropout
    yield f"Dropout is {said}."
    yield f"Its printed model says {printed}."
    yield reproduced_if(said == printed)


def early_stopping(theirs: Figures) -> Claim:
    best, last, train = theirs.best, theirs.losses[-1], theirs.train
    evaluations = ceil((last.iteration - best.iteration) / train.evaluate_every)
    yield f"Early stopping after {train.patience} evaluations without improvement guards against overfitting."
    yield (
        f"It never fired: {evaluations} evaluations followed the best, in which the loss rose from {best.held_out} to "
        f"{last.held_out:.2f}."
    )
    rose = last.held_out > best.held_out
    yield REPRODUCED if not rose else CONTRADICTED if evaluations < train.patience else DEPENDS


def best(theirs: Figures) -> Claim:
    said, train, least = theirs.best, theirs.train, lowest(theirs.losses, "held_out")
    passes = said.iteration * train.batch_size * train.context / theirs.tokens.train
    yield f"The validation loss is lowest, {said.held_out}, after {said.iteration:,} iterations."
    yield (
        f"The lowest of its table; by then it had read its tokens {passes:.1f} times, and the train loss fell on to "
        f"{theirs.losses[-1].train}."
    )
    yield (
        REPRODUCED if least == said.held_out else CONTRADICTED if least < said.held_out else DEPENDS
    )


def stable(theirs: Figures) -> Claim:
    said, last = theirs.stable_loss, theirs.losses[-1]
    yield f"The validation loss stabilises at {said}."
    yield f"It is {last.held_out} after the last iteration: higher by {last.held_out - said:.3f}, and rising."
    yield contradicted_if(last.held_out > said + 0.05)


def split(theirs: Figures, ours: Figures) -> Claim:
    train, said = theirs.tokens.train, theirs.data.train_share
    total = train + theirs.tokens.held_out
    yield f"{said:.0%} of the tokens are for training."
    yield f"{train:,} of {total:,} are {train / total:.2%}."
    yield f"Ours from as many stories: {ours.vocab.tokens.train:,} and {ours.vocab.tokens.held_out:,}."
    yield reproduced_if(abs(train / total - said) < 0.001)


def time(theirs: Figures, ours: Figures) -> Claim:
    train = theirs.train
    rate = train.iterations * train.batch_size * train.context / train.seconds_s
    yield f"{train.iterations:,} iterations take {train.seconds_s} s."
    yield f"That is {rate:,.0f} tokens/s, a card's rate."
    yield (
        f"Ours: {ours.train_time.tokens_per_s:,.0f} tokens/s on {ours.conditions.threads} of {ours.conditions.cores} "
        "cores without one."
    )
    yield UNTESTABLE
