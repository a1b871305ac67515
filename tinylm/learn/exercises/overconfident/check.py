"""Oracle: the two tables of the task.

Both models have the default shape and vectors. They were trained with seed 1 on 400,000 words of the default stories, one
of them after every village had been replaced by "thornbury" in three of four stories, drawn at random. The tables were
measured with `tinylm.evaluate.truth` on the first 50 evaluation stories.
"""

from tinylm.learn.expect import require

KINDS = {  # nats per word: A, B
    "person": (0.4706, 0.4776),
    "animal": (0.1583, 0.1594),
    "thing": (0.2915, 0.2938),
    "place": (0.1765, 0.1618),
    "detail": (0.1017, 0.1039),
    "plot": (0.139, 0.1364),
    "fixed": (0.2182, 0.2163),
    "end": (0.0067, 0.0065),
}
WORDS = {  # of run A, per 1,000 words: the generator, the model
    "thornbury": (0.07, 6.81),
    "said": (16.62, 17.93),
    "ben": (0.17, 1.37),
    "mia": (0.2, 1.2),
    "sam": (0.17, 1.05),
    "max": (0.16, 0.99),
    "lucy": (0.17, 0.98),
    "behind": (4.97, 5.77),
}


def _difference(kind):
    a, b = KINDS[kind]
    return abs(a - b)


KIND = max(KINDS, key=_difference)
RUN = "A" if KINDS[KIND][0] > KINDS[KIND][1] else "B"
WORD = max(WORDS, key=lambda word: WORDS[word][1] - WORDS[word][0])


def the_run(answer):
    """the run is the one with the bug"""
    run = answer()[0]
    require(run in ("A", "B"), f"the run is {run!r}", 'answer "A" or "B"')
    a, b = KINDS[KIND]
    require(run == RUN, f"run = {run}: at words of one kind its divergence is {min(a, b)}, the other's {max(a, b)}",
            "the bug is in the run that is much farther from the generator at one kind of word")  # fmt: skip


def the_kind(answer):
    """the kind of word is the one that shows the bug"""
    kind = answer()[1]
    require(kind in KINDS, f"the kind is {kind!r}", "answer with a row of the first table")
    a, b = KINDS[kind]
    require(
        kind == KIND, f"kind = {kind}: A {a}, B {b}", "at another kind the two runs differ more"
    )


def the_word(answer):
    """the word is the default"""
    word = answer()[2]
    require(
        word in WORDS,
        f"the word is {word!r}",
        "answer with a word from the second table",
    )
    generator, model = WORDS[word]
    counts = f"the generator expects it {generator} times in 1,000 words, the model {model} times"
    advice = "there is another word that the model expects far too often"
    require(word == WORD, f"word = {word}: {counts}", advice)
