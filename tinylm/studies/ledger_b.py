"""The claims of course report (B); see claims.py."""

from math import exp

from tinylm.report.figures import Figures, cache_runs, checkpoint_runs, count, listing, per_seed
from tinylm.studies.claims import (
    CONTRADICTED,
    DEPENDS,
    REPRODUCED,
    UNTESTABLE,
    Claim,
    by_trials,
    contradicted_if,
    reproduced_if,
)


def head_width(theirs: Figures) -> Claim:
    heads, own, width = theirs.model.heads, theirs.model.head_width, theirs.model.width
    yield f"{heads} heads share out width {width}."
    yield f"{heads} x {own} = {heads * own}."
    yield reproduced_if(heads * own == width)


def parameters(theirs: Figures, ours: Figures) -> Claim:
    model = theirs.model
    block = 4 * model.width * model.heads * model.head_width + 2 * model.width * model.feed_forward
    elements = 2 * theirs.data.vocabulary * model.width + model.layers * block
    yield f"The model has {model.parameters_millions} million parameters."
    yield (
        f"Its shape gives {elements / 1000000:.1f} million matrix elements with an output layer of its own, fewer with "
        "a tied one."
    )
    yield f"Ours: {ours.train.parameters:,} with {ours.vocab.size:,} ids."
    yield contradicted_if(abs(elements - 1000000 * model.parameters_millions) > 1000000)


def held_out_perplexity(theirs: Figures) -> Claim:
    loss, perplexity = theirs.train.held_out_loss, theirs.train.held_out_perplexity
    yield f"Validation loss {loss:.2f} is perplexity {perplexity}."
    yield f"exp of the rounded loss is {exp(loss):.2f}."
    yield reproduced_if(exp(loss - 0.005) <= perplexity <= exp(loss + 0.005))


def level(theirs: Figures, ours: Figures) -> Claim:
    said, perplexity = theirs.train.held_out_perplexity, ours.train.held_out_perplexity
    yield f"This model reaches a validation perplexity of {said}."
    yield (
        f"Ours: {perplexity:.2f} after {ours.train.updates:,} updates of {theirs.train.steps:,}, on "
        f"{ours.download.splits.train.stories:,} stories."
    )
    yield REPRODUCED if abs(perplexity - said) < 0.5 else DEPENDS


def bleu(theirs: Figures, ours: Figures) -> Claim:
    said, checked, cut = theirs.samples.bleu, theirs.checked.bleu, theirs.checked.bleu_cut
    own = ours.evaluate.samples
    yield f"Its samples have BLEU of {said[0]}, {said[1]}, {said[2]} and {said[3]} for one to four words."
    yield (
        f"Its own printed samples, scored again, give {checked}; with references cut to the continuation's length "
        f"{cut[0]} to {cut[3]}; the first printed figure is near their unigram precision, "
        f"{theirs.checked.unigram_precision}."
    )
    yield "Ours: " + ", ".join(f"{own[f'bleu{words}'].value:.3f}" for words in (1, 2, 3, 4)) + "."
    yield contradicted_if(checked[0] < 0.5 * said[0] and checked[3] < 0.5 * said[3])


def sample_perplexity(theirs: Figures, ours: Figures) -> Claim:
    samples = theirs.samples
    yield f"The mean perplexity of its {samples.count} samples is {samples.perplexity}."
    yield (
        f"Its table of single samples runs from {samples.lowest_perplexity} to {samples.highest_perplexity}, with a "
        f"mean of {theirs.checked.sample_perplexity}: no mean lies above its largest part."
    )
    yield f"Ours: {ours.evaluate.samples.continuation_perplexity.value:.2f}."
    yield contradicted_if(samples.perplexity > samples.highest_perplexity)


def case(theirs: Figures) -> Claim:
    yield f"The text is {theirs.data.prose_case}."
    yield f"The samples in its table are {theirs.data.sample_case}."
    yield reproduced_if(theirs.data.prose_case == theirs.data.sample_case)


def card(theirs: Figures) -> Claim:
    yield "The whole run was made on one card."
    yield f"It names {theirs.train.cards} different ones."
    yield contradicted_if(theirs.train.cards > 1)


def rate(theirs: Figures, ours: Figures) -> Claim:
    train = theirs.train
    measured = train.steps * train.batch_size * theirs.model.context / (3600 * train.hours_h)
    yield f"Training runs at about {train.tokens_per_s:,} tokens/s."
    yield (
        f"{train.steps:,} steps of {train.batch_size} x {theirs.model.context} tokens in {train.hours_h} h are "
        f"{measured:,.0f} tokens/s."
    )
    yield (
        f"Ours: {ours.train_time.tokens_per_s:,.0f} tokens/s on {ours.conditions.threads} of {ours.conditions.cores} "
        "cores."
    )
    yield contradicted_if(measured > 1.5 * train.tokens_per_s)


def epoch_time(theirs: Figures, course_a: Figures) -> Claim:
    train, stories = theirs.train, course_a.data.all_stories
    epochs = 60 * train.hours_h / train.epoch_min
    rows = train.steps * train.batch_size / epochs
    yield f"An epoch takes {train.epoch_min} minutes, the whole training {train.hours_h} hours."
    yield f"That makes {epochs:.1f} epochs of {rows:,.0f} rows each, where the train split has {stories:,} stories."
    yield contradicted_if(rows < 0.5 * stories)


def coverage(theirs: Figures, ours: Figures) -> Claim:
    said, unknown = theirs.data.coverage_share, ours.vocab.unknown_share
    yield f"The {theirs.data.vocabulary:,} most frequent words cover {said:.1%} of the text."
    yield (
        f"Ours, cased with punctuation on its word: {1 - unknown.train:.1%} of train and {1 - unknown.evaluation:.1%} "
        "of evaluation; the counting rule decides it."
    )
    yield reproduced_if(abs(1 - unknown.evaluation - said) < 0.01)


def mean_length(theirs: Figures, ours: Figures) -> Claim:
    said, own = theirs.data.mean_length_tokens, ours.vocab.sequence_length.mean
    yield f"A story has {said} tokens on average."
    yield f"Ours have {own:.0f}; {said} may be that of rows of at most {theirs.model.context}."
    yield reproduced_if(abs(own / said - 1) < 0.15)


def cache_ratio(theirs: Figures, ours: Figures) -> Claim:
    said = theirs.cache
    without, cached = cache_runs(ours, 32)
    measured = cached.tokens_per_s / without.tokens_per_s
    yield f"The KV cache makes sampling {said.ratio} times as fast."
    yield (
        f"{said.with_tokens_per_s} / {said.without_tokens_per_s} is "
        f"{said.with_tokens_per_s / said.without_tokens_per_s:.2f}."
    )
    yield (
        f"Ours inside the context: {measured:.2f} times: it grows with the length, and with how little a step costs "
        "beside its positions."
    )
    yield from by_trials(
        lambda: (
            REPRODUCED
            if abs(measured / said.ratio - 1) < 0.25
            else CONTRADICTED
            if measured < 1.1
            else DEPENDS
        ),
        "tokens_per_s",
        without,
        cached,
    )


def cache_memory(theirs: Figures, ours: Figures) -> Claim:
    without, cached = cache_runs(ours, 32)
    yield f"The KV cache lowers memory from {theirs.cache.without_gb} to {theirs.cache.with_gb} GB."
    yield (
        "The cache is memory of its own, but a step no longer computes the whole window. Ours, peak above the weights: "
        f"{without.peak_mib:.1f} MiB without, {cached.peak_mib:.1f} MiB with, of which the cache itself "
        f"{cached.cache_mib:.1f} MiB."
    )
    yield reproduced_if(cached.peak_mib < 0.95 * without.peak_mib)


def beam_speed(theirs: Figures, ours: Figures) -> Claim:
    sampling, five, _ = theirs.beams
    methods = ours.beam_bench_time.methods
    yield f"Its {five.method} runs at {five.tokens_per_s / sampling.tokens_per_s:.0%} of the speed of sampling."
    yield (
        f"Its {five.tokens_per_s} tokens/s are the very figure of sampling without cache, "
        f"{theirs.cache.without_tokens_per_s}."
    )
    yield f"Ours: {methods[five.method].tokens_per_s / methods.sampling.tokens_per_s:.0%} with a cache."
    yield DEPENDS


def beam_quality(theirs: Figures, ours: Figures) -> Claim:
    _, five, ten = theirs.beams
    bench, methods = ours.beam_bench, ours.beam_bench.methods
    sampled, wide = methods.sampling.bleu4, methods[ten.method].bleu4
    yield f"BLEU rises with the beam: {', '.join(str(beam.bleu4) for beam in theirs.beams)}."
    yield (
        f"Ours over {bench.prompts:,} prompts: {sampled:.4f}, {methods[five.method].bleu4:.4f}, {wide:.4f}; so few "
        "prompts leave too wide a spread to tell."
    )
    if bench.prompts < 50:
        yield DEPENDS
    else:
        yield REPRODUCED if wide > 1.2 * sampled else CONTRADICTED if wide < sampled else DEPENDS


def beam_gain(theirs: Figures) -> Claim:
    sampling, five, _ = theirs.beams
    said, gain = theirs.beam_gain_share, five.bleu4 / sampling.bleu4 - 1
    yield f"Its {five.method} raises BLEU by {said:.0%}."
    yield f"Its table says {five.bleu4} against {sampling.bleu4}, {gain:.1%} more."
    yield reproduced_if(abs(gain - said) < 0.02)


def cache_length(theirs: Figures) -> Claim:
    tokens, context = theirs.cache.tokens, theirs.model.context
    yield f"The KV cache was tried with up to {tokens} tokens."
    yield (
        f"The model's context is {context}: past it the window slides and the cache is filled anew, or the model sees "
        "positions that it was never trained on. Which of the two it was is not said."
    )
    yield REPRODUCED if tokens <= context else DEPENDS


def cache_complexity(theirs: Figures) -> Claim:
    model = theirs.model

    def attention(tokens: int) -> int:
        return tokens * (tokens + 1) * model.heads * model.head_width

    grown = attention(2 * model.context) / attention(model.context)
    said = theirs.cache_complexity
    yield f"The KV cache takes a text of n tokens from {said.without} to {said['with']}."
    yield (
        f"With a cache each token still reads every key before it: {attention(model.context):,} products a layer for "
        f"{model.context} tokens, {grown:.1f} times as many for twice the text. {said['with']} is the projections' "
        "share, which stands beside it; without a cache both are about n times as large."
    )
    yield contradicted_if(grown > 3)


def accumulation_memory(theirs: Figures, ours: Figures) -> Claim:
    first, *_, last = theirs.accumulation.settings
    one, two, four, eight = (
        ours.accum_sweep_time.settings[steps].peak_mib for steps in (1, 2, 4, 8)
    )
    yield f"Accumulation raises memory from {first.memory_gb} to {last.memory_gb} GB."
    yield (
        f"One mini-batch is in memory at a time. Ours: {one:.0f}, {two:.0f}, {four:.0f} and {eight:.0f} MiB; a second "
        "mini-batch adds the sum of gradients, a third nothing."
    )
    yield contradicted_if(eight < 1.1 * two)


def accumulation_time(theirs: Figures, ours: Figures) -> Claim:
    first, *_, last = theirs.accumulation.settings
    rows = [ours.accum_sweep_time.settings[steps] for steps in (1, 8)]
    one, eight = (row.epoch_s for row in rows)
    yield (
        f"Accumulation over {last.steps} mini-batches makes an epoch {last.epoch_min / first.epoch_min - 1:.0%} longer."
    )
    yield f"Ours: {eight / one - 1:+.0%} an epoch."
    yield from by_trials(
        lambda: reproduced_if(rows[1].low_epoch_s > rows[0].high_epoch_s), "epoch_s", *rows
    )


def accumulation_loss(theirs: Figures, ours: Figures) -> Claim:
    settings = ours.accum_sweep.settings
    one, eight = settings[1], settings[8]
    said = ", ".join(str(setting.loss) for setting in theirs.accumulation.settings)
    yield f"More accumulation ends at a lower loss: {said}."
    yield (
        f"Ours at equal tokens: {listing(settings, 'held_out_loss_at_equal_tokens')}; at equal updates: "
        f"{listing(settings, 'held_out_loss_at_equal_updates')}."
    )
    by_tokens = eight.held_out_loss_at_equal_tokens, one.held_out_loss_at_equal_tokens
    by_updates = eight.held_out_loss_at_equal_updates, one.held_out_loss_at_equal_updates
    if by_tokens[0] > by_tokens[1] and by_updates[0] < by_updates[1]:
        yield DEPENDS
    elif by_tokens[0] < by_tokens[1]:
        yield REPRODUCED
    else:
        yield CONTRADICTED if by_updates[0] >= by_updates[1] else DEPENDS


def accumulation_best(theirs: Figures) -> Claim:
    said, settings = theirs.accumulation.best_steps, theirs.accumulation.settings
    least = min(settings, key=lambda setting: setting.loss)
    yield f"Accumulation over {said} mini-batches is best."
    yield f"The lowest loss of its table, {least.loss}, is that of {least.steps}."
    yield reproduced_if(least.steps == said)


def memory_of_an_epoch(theirs: Figures) -> Claim:
    plain, other = theirs.accumulation.settings[0], theirs.checkpointing
    yield f"Without accumulation an epoch takes {plain.epoch_min} min and {plain.memory_gb} GB."
    yield f"Its table of checkpointing has the same {other.without_min} min, without it, at {other.without_gb} GB."
    yield contradicted_if(
        plain.epoch_min == other.without_min and other.without_gb > 1.5 * plain.memory_gb
    )


def card_memory(theirs: Figures) -> Claim:
    used, has = theirs.train.memory_gb, theirs.train.card_gb
    yield f"Training takes {used} GB of the card."
    yield f"The card that it names has {has} GB."
    yield contradicted_if(used > has)


def recompute_memory(theirs: Figures, ours: Figures) -> Claim:
    said = theirs.checkpointing
    plain, recomputing = checkpoint_runs(ours, theirs.model.layers)
    saved = 1 - recomputing.peak_mib / plain.peak_mib
    yield f"Gradient checkpointing saves {said.saved_share:.0%} of memory."
    yield (
        f"Ours at {theirs.model.layers} layers, peak above weights and gradients: {saved:.0%} less; theirs is of a "
        "whole card, weights included."
    )
    fits = abs(1 - said.with_gb / said.without_gb - said.saved_share) < 0.01
    if fits and abs(saved - said.saved_share) < 0.15:
        yield REPRODUCED
    else:
        yield CONTRADICTED if recomputing.peak_mib > 0.9 * plain.peak_mib else DEPENDS


def recompute_time(theirs: Figures, ours: Figures) -> Claim:
    plain, recomputing = checkpoint_runs(ours, theirs.model.layers)
    longer = recomputing.step_s / plain.step_s
    yield f"Gradient checkpointing takes {theirs.checkpointing.slower_share:.0%} longer."
    yield f"A second forward pass of the blocks costs up to a third. Ours: {longer - 1:+.0%} a step."
    yield from by_trials(
        lambda: reproduced_if(longer > 1.1 and longer < 1.5), "step_s", plain, recomputing
    )


def head_roles(theirs: Figures, ours: Figures) -> Claim:
    roles, heads = count(theirs.head_roles), ours.evaluate.heads
    passing = per_seed(heads.roles, _roles_passing)
    yield f"Each of {roles} heads has a grammatical role of its own: {theirs.head_roles}."
    yield (
        "In ours the best head of a role passes a baseline that knows positions only by a tenth of the weight for "
        f"{passing:.0f} of {roles} roles; {heads.ablation.idle:.0f} heads can be switched off without a loss that "
        "their interval tells from none."
    )
    yield REPRODUCED if passing == roles else CONTRADICTED if passing < 0.5 * roles else DEPENDS


def _roles_passing(roles: dict) -> int:
    rows = [row for row in roles.values() if "score" in row and "baseline" in row]
    return sum(row["score"] > row["baseline"] + 0.1 for row in rows)


def coherent(theirs: Figures) -> Claim:
    yield f"Texts are coherent from about {theirs.train.coherent_steps:,} steps on."
    yield (
        "It names no measure of coherence, and our runs are shorter; what a model writes while it learns stands in "
        "each report."
    )
    yield UNTESTABLE


def human_scores(theirs: Figures) -> Claim:
    low, high = theirs.samples.human_scores
    yield f"People give its texts {low} to {high} of {theirs.samples.human_best} points."
    yield "Nobody was asked here, and its questions, raters and their number are not given."
    yield UNTESTABLE


def gpu_use(theirs: Figures) -> Claim:
    yield f"The card is used to {theirs.train.gpu_use_share:.0%}."
    yield "No such card was at hand; its own step count and hours say how much work it did."
    yield UNTESTABLE
