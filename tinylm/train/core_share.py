"""Whether other programs take the processor that a training needs."""

import time

import torch

SECONDS = 20.0  # over which the share is measured


class CoreShare:
    """The share of a core that this thread gets, which waits for all other threads of an update."""

    def __init__(self) -> None:
        self.has_warned = False
        self._begin()

    def _begin(self) -> None:
        self.wall = time.perf_counter()
        self.busy = time.thread_time()

    def warning(self) -> str:
        """One line, once, if the share was below half for `SECONDS`; otherwise an empty text."""
        wall = time.perf_counter() - self.wall
        if self.has_warned or wall < SECONDS:
            return ""
        share = (time.thread_time() - self.busy) / wall
        self._begin()
        if share >= 0.5:
            return ""
        self.has_warned = True
        remedy = "stop them"
        if torch.get_num_threads() > 1:
            remedy = "stop them, or set runtime.threads to 1"
        return f"other programs leave this training only {share:.0%} of a core: {remedy}"
