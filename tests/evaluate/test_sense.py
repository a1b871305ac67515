"""The figures of graded texts, n-gram samples, and the curve over training."""

from tinylm.storybook.corpus import generate, normalise

STORY = normalise(next(generate(1, 1, 5)[0]).text)
START, REST = " ".join(STORY.split()[:6]), " ".join(STORY.split()[6:])
SHORT = " ".join(STORY.split()[:20])
