"""Stories of one plot of the storybook."""

from tinylm.storybook.corpus import Call, Sampler, Telling, compile_rule, normalise, render


def story_of_plot(sampler: Sampler, plot: int) -> list[str]:
    """The words of a story whose plot is the option of this number; the sampler has its ln P."""
    plots = compile_rule("plot").phrases
    telling = Telling([Call("story")])
    while choice := telling.advance():
        index = sampler.pick(choice.weighted, choice.banned)
        if choice.weighted is plots:
            sampler.log_prob += plots.log_prob(plot) - plots.log_prob(index)
            index = plot
        telling.take(choice, index)
    return normalise(render(telling.pieces)).split()
