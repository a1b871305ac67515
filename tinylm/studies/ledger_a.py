"""The claims of course report (A); see claims.py."""

from math import exp

from tinylm.report.figures import Figures, cache_runs
from tinylm.studies.claims import (
    CONTRADICTED,
    DEPENDS,
    REPRODUCED,
    Claim,
    by_trials,
    contradicted_if,
    reproduced_if,
)


def train_perplexity(theirs: Figures) -> Claim:
    loss, perplexity = theirs.train.train_loss, theirs.train.train_perplexity
    yield f"Train loss {loss} is perplexity {perplexity}."
    yield f"exp of the loss is {exp(loss):.2f}."
    yield reproduced_if(abs(exp(loss) - perplexity) < 0.01)


def held_out_perplexity(theirs: Figures) -> Claim:
    loss, perplexity = theirs.train.held_out_loss, theirs.train.held_out_perplexity
    yield f"Validation loss {loss:.4f} is perplexity {perplexity}."
    yield f"exp of the loss is {exp(loss):.2f}."
    yield reproduced_if(abs(exp(loss) - perplexity) < 0.01)


def level(theirs: Figures, ours: Figures) -> Claim:
    train, perplexity = theirs.train, ours.train.held_out_perplexity
    yield f"This model reaches a validation perplexity of {train.held_out_perplexity}."
    yield (
        f"Ours: {perplexity:.2f} on held-out after {ours.train.updates:,} updates of "
        f"{train.steps / train.accumulation:,.0f}, on {ours.download.splits.train.stories:,} stories."
    )
    last = ours.curves.held_out[-1][2]
    falls = last == min((row[2] for row in ours.curves.held_out), default=last)
    yield (
        f"Stories at hand and passes over them decide it: after {ours.train.epochs:.1f} passes the held-out loss "
        f"{'was still falling' if falls else 'no longer fell'} with its last figure, {last:.3f} nats per token."
    )
    yield REPRODUCED if abs(perplexity - train.held_out_perplexity) < 0.5 else DEPENDS


def share_of_data(theirs: Figures) -> Claim:
    data = theirs.data
    yield f"{data.stories:,} stories are about {data.said_share:.0%} of the {data.all_stories:,}."
    yield f"They are {data.stories / data.all_stories:.1%}."
    yield reproduced_if(abs(data.stories / data.all_stories - data.said_share) < 0.05)


def number_of_stories(theirs: Figures) -> Claim:
    said, counted = 100000 * theirs.data.said_lakh, theirs.checked.stories
    yield f"The corpus has {theirs.data.said_lakh} lakh stories."
    yield f"That is {said:,}; the published train split has {counted:,}."
    yield reproduced_if(abs(said / counted - 1) < 0.1)


def map_read(theirs: Figures) -> Claim:
    said = theirs.map_read
    yield f"In one of its maps “{said.token}” attends to the later “{said.attends_to}”."
    yield "A decoder masks later tokens, so that they get no weight: the map was read with its axes exchanged."
    yield contradicted_if(said.later)


def cost_per_token(theirs: Figures) -> Claim:
    model = theirs.model

    def products(tokens: int) -> int:
        return 2 * tokens * model.width

    yield f"With the KV cache a new token costs {theirs.cache.complexity}."
    yield (
        f"It reads every key and value before it: {products(1):,} products a layer for the first token, "
        f"{products(model.context):,} for that at the end of the context of {model.context}."
    )
    yield contradicted_if(products(model.context) > products(1))


def held_out_share(theirs: Figures) -> Claim:
    held_out, said = theirs.tokens.held_out, theirs.data.held_out_share
    total = held_out + theirs.tokens.train
    yield f"{said:.0%} of the training text is set apart for validation."
    yield f"By its tokens, {held_out:,} of {total:,}, it is {held_out / total:.2%}."
    yield reproduced_if(abs(held_out / total - said) < 0.005)


def parameters(theirs: Figures, ours: Figures) -> Claim:
    model, words = theirs.model, theirs.data.vocabulary
    yield f"{model.parameters_millions} million parameters are trained."
    yield (
        f"{model.parameters_trainable:,} and the frozen vectors, {words:,} x {model.width}, make the "
        f"{model.parameters:,} that it counts in all."
    )
    yield f"Our model of this shape trains {ours.train.parameters_trainable:,} with {ours.vocab.size:,} ids."
    adds_up = model.parameters_trainable + words * model.width == model.parameters
    yield reproduced_if(
        adds_up and abs(model.parameters_trainable / 1000000 - model.parameters_millions) < 0.01
    )


def embedding_memory(theirs: Figures) -> Claim:
    row = theirs.model.width * 4  # bytes
    needed, said = theirs.data.vocabulary * row, theirs.embedding_gb * 1000000000
    yield (
        f"All {theirs.data.all_stories:,} stories do not fit, since the embedding alone has {theirs.embedding_gb} GB."
    )
    yield (
        f"The rows that its vocabulary needs take {needed / 1000000:.1f} MB; {theirs.embedding_gb} GB would hold "
        f"{said / row:,.0f} words: the size of a vector file read whole, not of the rows that are used."
    )
    yield contradicted_if(needed < 0.05 * said)


def steps(theirs: Figures) -> Claim:
    train = theirs.train
    passes = train.steps * train.batch_size * theirs.model.context / theirs.tokens.train
    yield f"The model was trained for {train.steps:,} steps."
    yield (
        f"They are mini-batches: with {train.accumulation} of them an update there were "
        f"{train.steps / train.accumulation:,.0f} updates, over {passes:.1f} passes of its tokens."
    )
    yield REPRODUCED if train.accumulation == 1 else DEPENDS


def sampling_bleu(theirs: Figures, ours: Figures) -> Claim:
    said, beams = theirs.samples.bleu, theirs.beams
    samples = ours.evaluate.samples
    mean = samples.sentence_bleu
    yield f"Sampled continuations have BLEU {said}."
    yield (
        f"Its beam table gives {beams[0].bleu} for the same decoder, {beams[0].bleu / said:.1f} times as much."
    )
    yield (
        f"Ours: {mean.value:.4f} ({mean.low:.4f} to {mean.high:.4f}) as mean over {samples.count:,} texts, "
        f"{samples.bleu4.value:.4f} over all text at once; {ours.beam_bench.methods.sampling.bleu4:.4f} in the beam "
        "table."
    )
    yield contradicted_if(beams[0].bleu > 2 * said)


def bleu_rises(theirs: Figures, ours: Figures) -> Claim:
    beams = list(theirs.beams)[1:]
    one, five, ten = (beam.bleu for beam in beams)
    own = ", ".join(f"{ours.beam_bench.methods[beam.method].bleu4:.4f}" for beam in beams)
    yield "BLEU rises with the width of the beam."
    yield f"Its own table falls: {one}, {five}, {ten} for {', '.join(beam.method for beam in beams)}."
    yield f"Ours: {own}."
    yield CONTRADICTED if one > five > ten else REPRODUCED if one < ten else DEPENDS


def beam_speed(theirs: Figures, ours: Figures) -> Claim:
    _, one, _, ten = theirs.beams
    methods = ours.beam_bench_time.methods
    rows = methods[one.method], methods[ten.method]
    our_one, our_ten = (row.tokens_per_s for row in rows)
    said = one.tokens_per_s / ten.tokens_per_s
    yield f"Its {ten.method} takes {said:.1f} times as long per token as {one.method}."
    yield (
        f"Ours, uncached as its beams look: {our_one:.1f} tokens/s against {our_ten:.1f}, {our_one / our_ten:.1f} "
        "times: the rows of a beam are computed together."
    )
    yield from by_trials(
        lambda: reproduced_if(our_one / our_ten > 0.5 * said), "tokens_per_s", *rows
    )


def beam_one_speed(theirs: Figures, ours: Figures) -> Claim:
    sampling, one, *_ = theirs.beams
    cache, methods = theirs.cache, ours.beam_bench_time.methods
    yield f"Sampling is {sampling.tokens_per_s / one.tokens_per_s:.1f} times as fast as {one.method}."
    yield (
        f"The sampling row has the rate of its cache, {cache.with_tokens_per_s}, the beam that of no cache, "
        f"{cache.without_tokens_per_s}: the table compares cache with no cache."
    )
    yield (
        f"Ours, both without cache: {methods.sampling.tokens_per_s:.0f} and {methods[one.method].tokens_per_s:.0f} "
        "tokens/s."
    )
    yield DEPENDS


def beam_lengths(theirs: Figures) -> Claim:
    sampling, _, five, ten = theirs.beams
    lengths = [beam.tokens_per_s * beam.prompt_s for beam in (sampling, five, ten)]
    yield "Its methods are timed on texts of equal length."
    yield (
        f"Rate times seconds per prompt gives {lengths[0]:.1f} tokens for {sampling.method}, {lengths[1]:.1f} for "
        f"{five.method} and {lengths[2]:.1f} for {ten.method}: wider beams end their texts sooner."
    )
    yield contradicted_if(lengths[2] < 0.8 * lengths[0])


def cache_ratio(theirs: Figures, ours: Figures) -> Claim:
    said, new_tokens = theirs.cache, theirs.samples.new_tokens
    without, cached = cache_runs(ours, new_tokens)
    measured = cached.tokens_per_s / without.tokens_per_s
    yield f"The KV cache makes sampling {said.ratio} times as fast."
    yield (
        f"{said.with_tokens_per_s} / {said.without_tokens_per_s} tokens/s is "
        f"{said.with_tokens_per_s / said.without_tokens_per_s:.2f}."
    )
    yield (
        f"Ours at {new_tokens} new tokens: {measured:.2f} times: it grows with the length, and with how little a step "
        "costs beside its positions."
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


def cache_totals(theirs: Figures) -> Claim:
    cache = theirs.cache
    measured = cache.without_s / cache.with_s
    yield f"Its two total times show the same speed-up of {cache.ratio}."
    yield (
        f"{cache.without_s} / {cache.with_s} s is {measured:.1f}; at its rates the two runs made "
        f"{cache.without_s * cache.without_tokens_per_s:.0f} and {cache.with_s * cache.with_tokens_per_s:.0f} tokens."
    )
    yield contradicted_if(abs(measured - cache.ratio) > 0.1)


def accumulation_time(theirs: Figures, ours: Figures) -> Claim:
    first, *_, last = theirs.accumulation.settings
    micro_steps, settings = theirs.accumulation.micro_steps, ours.accum_sweep_time.settings
    yield (
        f"Accumulation over {last.steps} mini-batches takes {last.seconds_s / first.seconds_s - 1:.0%} longer than "
        f"over {first.steps}, for the same mini-batches."
    )
    yield (
        f"It makes {micro_steps / last.steps:,.0f} optimizer steps in place of {micro_steps:,} and should take no "
        "longer."
    )
    yield f"Ours: {settings[8].epoch_s / settings[1].epoch_s - 1:+.0%} an epoch."
    yield from by_trials(
        lambda: reproduced_if(settings[8].low_epoch_s > settings[1].high_epoch_s),
        "epoch_s",
        settings[1],
        settings[8],
    )


def accumulation_curves(theirs: Figures, ours: Figures) -> Claim:
    micro_steps, last = theirs.accumulation.micro_steps, theirs.accumulation.settings[3]
    few, many = ours.accum_sweep.settings[1], ours.accum_sweep.settings[8]
    slower = many.held_out_loss_at_equal_tokens > few.held_out_loss_at_equal_tokens
    yield "More accumulation learns more slowly."
    yield (
        f"Its curves run over {micro_steps:,} mini-batches, of which the slowest made {micro_steps / last.steps:,.0f} "
        "updates."
    )
    yield (
        f"Ours at equal tokens: {few.held_out_loss_at_equal_tokens:.3f} and {many.held_out_loss_at_equal_tokens:.3f} "
        "nats per token with the fewest and the most steps; at equal updates "
        f"{few.held_out_loss_at_equal_updates:.3f} and {many.held_out_loss_at_equal_updates:.3f}."
    )
    if slower and many.held_out_loss_at_equal_updates < few.held_out_loss_at_equal_updates:
        yield DEPENDS
    else:
        yield reproduced_if(slower)


def sample_perplexity(theirs: Figures, ours: Figures) -> Claim:
    sampled, real = ours.evaluate.samples.continuation_perplexity.value, ours.evaluate.perplexity
    yield (
        f"Its continuations have perplexity {theirs.samples.perplexity}, far below the "
        f"{theirs.train.held_out_perplexity} of real text."
    )
    yield (
        f"Ours: {sampled:.2f} against {real:.2f}; drawing from the {theirs.samples.top_k} likeliest words alone lowers "
        "it, so that it says little about the model."
    )
    yield reproduced_if(sampled < 0.7 * real)


def prompts(theirs: Figures, assignment: Figures) -> Claim:
    asked, own = assignment.samples.prompts, theirs.samples.prompts
    yield "Its samples follow the assignment's protocol."
    yield (
        f"The assignment asks for {asked} as prompts; its own are {own}, so that prompts lack their story's beginning "
        "and references run across stories."
    )
    yield contradicted_if(own != asked)


def heads_shown(theirs: Figures) -> Claim:
    heads = theirs.model.layers * theirs.model.heads
    yield "The attention patterns of every head are shown."
    yield f"{theirs.heads_shown} of {heads} are."
    yield (
        CONTRADICTED
        if theirs.heads_shown < heads
        else REPRODUCED
        if theirs.heads_shown == heads
        else DEPENDS
    )
