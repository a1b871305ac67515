"""Curves sent to wandb or dvclive during a run, offline; what the run computes and writes stays the same."""

import contextlib
import importlib
import os
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from tinylm.base.config import PARAMS_FILE, InputError

Send = Callable[[int, Mapping[str, float]], None]
_also: list[Send] = []


def also_to(send: Send) -> None:
    """Let all that loggers of this process send go here too; what it raises ends the run."""
    _also.append(send)


class Logger:
    """Sends figures of an update to a tracker at most every `every_s` seconds, held-out losses whenever measured."""

    def __init__(self, send: Send, every_s: float) -> None:
        self._send, self._every_s, self._last = send, every_s, float("-inf")

    def due(self) -> bool:
        """Whether `every_s` seconds have passed since this last returned true."""
        now = time.monotonic()
        if now - self._last < self._every_s:
            return False
        self._last = now
        return True

    def send(self, update: int, figures: Mapping[str, float]) -> None:
        """Send named figures as they are after this many updates."""
        for send in (self._send, *_also):
            send(update, figures)


def _wandb(package: Any, folder: str, settings: dict[str, Any]) -> tuple[Send, Callable[[], None]]:
    run = package.init(project="tinylm", dir=folder, mode="offline", config=settings)
    return lambda update, figures: run.log(dict(figures), step=update), run.finish


def _dvclive(
    package: Any, folder: str, settings: dict[str, Any]
) -> tuple[Send, Callable[[], None]]:
    os.environ["DVC_STUDIO_OFFLINE"] = (
        "true"  # otherwise a DVC_STUDIO_TOKEN is enough for it to send everything
    )
    live = package.Live(f"{folder}/dvclive", report=None, save_dvc_exp=False, dvcyaml=None)
    live.log_params(settings)

    def send(update: int, figures: Mapping[str, float]) -> None:
        live.step = update
        for name, value in figures.items():
            live.log_metric(name, value)
        live.make_summary()

    return send, live.end


@contextlib.contextmanager
def open_logger(
    name: str, folder: str, every_s: float, settings: dict[str, Any]
) -> Iterator[Logger | None]:
    """The tracker `name` (none | wandb | dvclive) with the run's settings by key path, closed at the end.

    It writes below `folder`; a resumed run starts again there. Raises InputError if the package is missing.
    """
    if name == "none":
        yield Logger(lambda *_: None, every_s) if _also else None
        return
    try:
        package = importlib.import_module(name)
    except ModuleNotFoundError:
        raise InputError(
            f"{PARAMS_FILE}: runtime.logger = {name!r}: the package is not installed; pip install {name}, or none"
        ) from None
    send, close = {"wandb": _wandb, "dvclive": _dvclive}[name](package, folder, settings)
    try:
        yield Logger(send, every_s)
    finally:
        close()
