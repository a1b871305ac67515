"""On CUDA: the kernels of a decoding step recorded once and replayed: launching them costs more than running them."""

import contextlib
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager

import torch
from torch import Tensor

from tinylm.decoding.session import Session
from tinylm.model.kv_cache import KVCache
from tinylm.model.transformer import TinyLM

Record = Callable[
    [Callable[[], None]], Callable[[], None]
]  # runs a function at least once; returns what repeats it


def cuda_graph(run: Callable[[], None]) -> Callable[[], None]:
    """Record the kernels that run() launches; the result launches them all at once, on the same memory."""
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(
            3
        ):  # libraries choose their kernels and take their memory before the recording
            run()
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        run()
    return graph.replay


class _Recorded:
    """One step of the model over a cache of fixed size, whose inputs and outputs are in its own buffers."""

    def __init__(
        self, model: TinyLM, cache: KVCache, record: Record, ids: Tensor, positions: Tensor
    ) -> None:
        self.rows, self.cache_at = len(cache.keys[0]), cache.keys[0].data_ptr()
        self._ids, self._positions = (
            ids.clone(),
            positions.clone(),
        )  # recording runs the step, possibly several times
        self._hidden = model.embedding.new_zeros((self.rows, model.width))
        whole = cache.whole()  # a later selection of rows leaves this one unchanged

        def run() -> None:
            self._hidden.copy_(model.hidden_states(self._ids, self._positions, whole)[:, 0])

        self._replay = record(run)

    def __call__(self, ids: Tensor, positions: Tensor) -> Tensor:
        """Hidden states after the tokens (B, 1) at positions (B, 1) of the first B rows.  -> (B, D)

        What the recording does to further rows is harmless: they are no longer in use.
        """
        self._ids[: len(ids)] = ids
        self._positions[: len(ids)] = positions
        self._replay()
        return self._hidden[: len(ids)].clone()


class GraphSession(Session):
    """`Session` whose steps replay a recording; rows may leave without a new one, more rows need a new one."""

    def __init__(
        self,
        model: TinyLM,
        prompts: Sequence[Sequence[int]],
        slide: str,
        use_cache: bool,
        new_tokens: int | None,
        precision: Callable[[], AbstractContextManager] = contextlib.nullcontext,
        record: Record = cuda_graph,
    ) -> None:
        super().__init__(model, prompts, slide=slide, use_cache=use_cache, new_tokens=new_tokens)
        self._precision, self._record = precision, record
        self._recorded: _Recorded | None = None

    def next_logits(self) -> Tensor:
        with self._precision():
            return super().next_logits()

    def _new_cache(self, rows: int) -> KVCache:
        cache = super()._new_cache(rows)
        cache.fix()
        return cache

    def _step(self, last: Tensor, positions: Tensor, cache: KVCache) -> Tensor:
        known = self._recorded
        if known is None or known.cache_at != cache.keys[0].data_ptr() or known.rows < len(last):
            known = self._recorded = _Recorded(self.model, cache, self._record, last, positions)
        return known(last, positions)
