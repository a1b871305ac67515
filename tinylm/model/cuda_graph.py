"""Records work on a CUDA card as a CUDA graph, which starts all of its kernels at once.

A small model runs many short kernels, and starting them one by one takes longer than computing
them (NVIDIA, CUDA C++ Programming Guide, chapter "CUDA Graphs"). A graph always reads and writes
the same memory, so its inputs are copied to fixed addresses before each replay.
"""

import gc
from collections.abc import Callable
from typing import Any

import torch

WARM_UPS = (
    3  # calls before the recording: libraries allocate memory in them, and blocks are compiled
)


def record(
    compute: Callable[[], None], warm_up: Callable[[], object], pool: Any = None
) -> torch.cuda.CUDAGraph:
    """A recording of `compute`, which must not wait for the card; `replay()` runs it again.

    warm_up: work with the same kernels, executed before recording. Afterwards the random
    state is as if there had been no warm-up. pool: memory shared with other graphs, none of which
    keeps a result in it.
    """
    state = torch.cuda.get_rng_state()
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(WARM_UPS):
            warm_up()
    torch.cuda.current_stream().wait_stream(side)
    torch.cuda.set_rng_state(state)
    graph = torch.cuda.CUDAGraph()
    # thread_local: a thread that pins batches may allocate memory during a recording
    recording = torch.cuda.graph(graph, pool, side, capture_error_mode="thread_local")
    gc.collect()
    gc.disable()  # freeing an old graph would break the recording
    try:
        with recording:
            compute()
    finally:
        gc.enable()
    return graph
