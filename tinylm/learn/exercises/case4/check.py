"""Oracle: the window of each step by its definition, without a cache."""

from tinylm.learn.expect import require

WORDS = 5


class _Model:
    """Its logits depend on every filled slot; it notes what the cache holds at each call."""

    def __init__(self):
        self.slots = {}
        self.windows = []

    def _logits(self):
        self.windows.append(dict(self.slots))
        total = sum((position + 1) * (token + 2) for position, token in self.slots.items())
        return [float((total * (word + 3)) % 7) + word / 10 for word in range(WORDS)]

    def fill(self, ids):
        self.slots = dict(enumerate(ids))
        return self._logits()

    def step(self, token, position):
        self.slots[position] = token
        return self._logits()


def _compare(greedy, prompt, count, context):
    model = _Model()
    ids = greedy(model, list(prompt), count, context)
    require(
        isinstance(ids, list) and len(ids) == len(prompt) + count,
        f"the result must have {len(prompt) + count} ids",
    )
    start = 0
    for number, slots in enumerate(model.windows):
        length = len(prompt) + number
        if length - start > context:
            start += context // 2
        wanted = dict(enumerate(ids[start:length]))
        advice = "fill the cache with all tokens from start on, so that no slot is left out"
        if len(slots) > context:
            advice = "the cache holds more than the context"
        require(slots == wanted, f"at {length} tokens the cache should hold {wanted}", advice,
                context=context, ids=ids[:length], cache_holds=slots)  # fmt: skip


def within_the_context(greedy):
    """within the context, the cache has every token at its position"""
    _compare(greedy, [1], 2, 4)


def past_the_context(greedy):
    """past the context, it has the newest tokens at positions 0, 1, ..."""
    _compare(greedy, [1, 2], 5, 4)
    _compare(greedy, [1, 2, 3], 30, 6)
