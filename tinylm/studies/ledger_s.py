"""What the assignment itself says, as claims; see claims.py."""

from tinylm.report.figures import Figures, cache_runs, checkpoint_runs, listing
from tinylm.studies.claims import CONTRADICTED, DEPENDS, REPRODUCED, Claim, by_trials, reproduced_if


def head_width(theirs: Figures, ours: Figures) -> Claim:
    model, evaluated = theirs.model, ours.evaluate
    heads, (narrow, wide) = model.heads, model.head_widths
    unigram = evaluated.baselines.unigram.perplexity
    yield f"{heads} heads work on width {model.width} with a head width of {narrow} or {wide}."
    yield (
        f"{model.width} / {heads} is {model.width / heads}; {heads} x {narrow} = {heads * narrow}, {heads} x {wide} = "
        f"{heads * wide}."
    )
    yield (
        f"Ours, both widths side by side, trains to perplexity {evaluated.perplexity:.2f} (unigram {unigram:.0f})."
    )
    if evaluated.perplexity >= unigram:
        yield CONTRADICTED
    else:
        yield REPRODUCED if ours.train.updates > 0 else DEPENDS


def cache(theirs: Figures, ours: Figures) -> Claim:
    without, cached = cache_runs(ours, 32)
    yield f"A KV cache makes the decoding of {theirs.cache.prompts} texts faster."
    yield (
        f"Ours: {without.tokens_per_s:,.0f} tokens/s without, {cached.tokens_per_s:,.0f} with, at {cached.new_tokens} "
        "new tokens."
    )
    yield from by_trials(
        lambda: reproduced_if(cached.low_tokens_per_s > without.high_tokens_per_s),
        "tokens_per_s",
        without,
        cached,
    )


def recompute(theirs: Figures, ours: Figures) -> Claim:
    plain, recomputing = checkpoint_runs(ours, theirs.model.layers)
    yield "Gradient checkpointing trades time for memory."
    yield (
        f"Ours: peak {plain.peak_mib:.0f} MiB and {plain.step_s:.2f} s per step without, "
        f"{recomputing.peak_mib:.0f} MiB and {recomputing.step_s:.2f} s with."
    )
    yield from by_trials(
        lambda: reproduced_if(
            recomputing.peak_mib < 0.9 * plain.peak_mib
            and recomputing.low_step_s > plain.high_step_s
        ),
        "step_s",
        plain,
        recomputing,
    )


def vectors(embeddings: Figures) -> Claim:
    random = embeddings["random, tuned"].held_out_loss
    frozen, tuned = (embeddings[f"pretrained, {how}"].held_out_loss for how in ("frozen", "tuned"))
    yield "Pretrained vectors help, frozen or fine-tuned."
    yield f"Held-out loss after equal tokens: {listing(embeddings, 'held_out_loss')}."
    if frozen < random and tuned < random:
        yield REPRODUCED
    else:
        yield CONTRADICTED if frozen >= random and tuned >= random else DEPENDS
