"""Where the time goes: the share of each kind of operation in a training update and a decoding step."""

import contextlib
import os
from collections.abc import Callable, Iterator
from typing import Any

from torch.autograd.profiler import profile, record_function

from tinylm.bench.device import one_thread, synchronize
from tinylm.bench.trials import Failure
from tinylm.model.transformer import Norm, SelfAttention, TinyLM
from tinylm.run.benches import Profile

PARTS = ("matrix products", "attention", "norm", "loss", "optimizer", "rest")
WARM_UP = 2  # steps before those that are recorded
STEPS = WARM_UP + 4
_LABELS = {Norm: "norm", SelfAttention: "attention"}
_LINEAR = {"aten::linear", "aten::addmm", "aten::mm"}  # attention's own products are aten::bmm
_BACKWARD = "autograd::engine::evaluate_function"
_BACKWARD_SCOPE = 1  # the scope of the operation inside


def labelled(label: str, function: Callable[..., Any]) -> Callable[..., Any]:
    """The function, whose calls appear in the profile as `label`."""

    def call(*values: Any) -> Any:
        with record_function(label):
            return function(*values)

    return call


@contextlib.contextmanager
def labelled_modules(model: TinyLM) -> Iterator[None]:
    """A context in which calls of norms and attention appear in the profile under their `_LABELS`."""
    labelled_now = [module for module in model.modules() if type(module) in _LABELS]
    for module in labelled_now:
        module.forward = labelled(_LABELS[type(module)], module.forward)
    try:
        yield
    finally:
        for module in labelled_now:
            del module.forward  # calls reach the method of the class again


def shares(model: TinyLM, step: Callable[[], object]) -> dict[str, float]:
    """The shares of `PARTS` in the time of step(), which runs this model; they add up to one.

    Matrix products are those of linear layers; attention is all that happens between its linear
    layers. Loss and optimizer are the calls of functions that are `labelled` with these names.
    Recording slows small operations most, so the shares are rough. On a CPU they are those of one
    thread.
    """
    device = model.embedding.device
    os.environ.setdefault("KINETO_LOG_LEVEL", "99")  # Kineto prints a line at each start and stop
    with one_thread(), labelled_modules(model):
        for _ in range(WARM_UP):
            step()
        with profile(use_device="cuda" if device.type == "cuda" else None) as recorded:
            for _ in range(STEPS - WARM_UP):
                step()
            synchronize(device)
    clock = "self_device_time_total" if device.type == "cuda" else "self_cpu_time_total"
    times = dict.fromkeys(PARTS, 0.0)
    forward: dict[int, str] = {}
    for event in recorded.function_events:  # in the order of their start
        if event.device_type.name != "CPU":  # a kernel: its operation on the CPU has its time
            continue
        part = _part(event, forward)
        times[part] += getattr(event, clock)
        is_backward = event.scope == _BACKWARD_SCOPE or event.name.startswith(_BACKWARD)
        if event.sequence_nr >= 0 and not is_backward:
            forward[event.sequence_nr] = part
    total = sum(times.values())
    return {part: round(time / total, 4) for part, time in times.items()}


def as_profile(measured: dict[str, float] | Failure) -> Profile:
    """The shares, or the reason why they could not be measured."""
    if isinstance(measured, Failure):
        return Profile(error=measured.reason)
    return Profile(shares=measured)


def _part(event: Any, forward: dict[int, str]) -> str:
    """The part that an operation belongs to.

    forward: {number: part} of the forward pass; the backward operation has the same number.
    """
    found = "rest"
    while event is not None:
        if event.name == "optimizer":
            return "optimizer"  # including its own matrix products
        if found == "rest":
            if event.name in _LINEAR:
                found = "matrix products"
            elif event.name in PARTS:
                found = event.name
            elif event.name.startswith(_BACKWARD):
                found = forward.get(event.sequence_nr, "rest")
        event = event.cpu_parent
    return found
