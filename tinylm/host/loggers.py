"""Curves sent to wandb or dvclive during a run, offline; the run computes and writes the same."""

import contextlib
import importlib
import os
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from tinylm.base.config import PARAMS_FILE, InputError

Send = Callable[[int, Mapping[str, float]], None]


class Logger:
    """Sends metrics of an update at most every `every_s` seconds, and each validation loss."""

    def __init__(self, send: Send, every_s: float) -> None:
        self._send = send
        self._every_s = every_s
        self._last = float("-inf")

    def due(self) -> bool:
        """Whether `every_s` seconds have passed since this last returned true."""
        now = time.monotonic()
        if now - self._last < self._every_s:
            return False
        self._last = now
        return True

    def send(self, update: int, metrics: Mapping[str, float]) -> None:
        """Send named metrics as they are after this many updates."""
        self._send(update, metrics)


def _wandb(package: Any, folder: str, settings: dict[str, Any]) -> tuple[Send, Callable[[], None]]:
    run = package.init(project="tinylm", dir=folder, mode="offline", config=settings)
    return lambda update, metrics: run.log(dict(metrics), step=update), run.finish


def _dvclive(
    package: Any, folder: str, settings: dict[str, Any]
) -> tuple[Send, Callable[[], None]]:
    os.environ["DVC_STUDIO_OFFLINE"] = "true"  # a DVC_STUDIO_TOKEN alone would make it send
    live = package.Live(f"{folder}/dvclive", report=None, save_dvc_exp=False, dvcyaml=None)
    live.log_params(settings)

    def send(update: int, metrics: Mapping[str, float]) -> None:
        live.step = update
        for name, value in metrics.items():
            live.log_metric(name, value)
        live.make_summary()

    return send, live.end


@contextlib.contextmanager
def open_logger(
    name: str, folder: str, every_s: float, settings: dict[str, Any]
) -> Iterator[Logger | None]:
    """The tracker `name` (none | wandb | dvclive) with the run's settings, closed at the end.

    It writes below `folder`; a resumed run starts again there. Raises InputError if the package is
    missing.
    """
    if name == "none":
        yield None
        return
    try:
        package = importlib.import_module(name)
    except ModuleNotFoundError:
        raise InputError(
            f"{PARAMS_FILE}: runtime.logger = {name!r}: pip install {name}; allowed here: none"
        ) from None
    open_tracker = _wandb if name == "wandb" else _dvclive
    send, close = open_tracker(package, folder, settings)
    try:
        yield Logger(send, every_s)
    finally:
        close()
