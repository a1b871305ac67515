"""Where dropout's random numbers come from: torch's generator, or one of the thread's own.

Threads that shared one generator would draw in the order in which they happen to run.
"""

import contextlib
import threading
from collections.abc import Iterator

import torch

_thread = threading.local()


def dropout_generator() -> torch.Generator:
    """The generator of this thread inside `own_generator`; otherwise torch's."""
    generator: torch.Generator = getattr(_thread, "generator", torch.default_generator)
    return generator


@contextlib.contextmanager
def own_generator(seed: int) -> Iterator[None]:
    """Give this thread a generator of its own for a while."""
    _thread.generator = torch.Generator().manual_seed(seed)
    try:
        yield
    finally:
        del _thread.generator
