"""Batches prepared in a thread while the model computes."""

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor

from tinylm.vocab.batches import Batch


class Prefetcher:
    """Prepares the batches of the next updates in a thread, while the current one is computed.

    prepare(update): the batches of an update, counted from 0. ahead: updates to prepare in advance.
    """

    def __init__(self, prepare: Callable[[int], list[Batch]], ahead: int = 2) -> None:
        self._prepare = prepare
        self._ahead = ahead
        self._thread = ThreadPoolExecutor(1, "batches")
        self._futures: dict[int, Future[list[Batch]]] = {}

    def get(self, update: int) -> list[Batch]:
        """The batches of the update; starts to prepare those of the next ones."""
        for number in range(update, update + 1 + self._ahead):
            if number not in self._futures:
                self._futures[number] = self._thread.submit(self._prepare, number)
        for number in list(self._futures):
            if number < update:
                del self._futures[number]
        return self._futures[update].result()
