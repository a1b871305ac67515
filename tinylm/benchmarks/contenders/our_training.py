"""Our training step: `Trainer.update`, as stage train runs it."""

import time
from collections.abc import Mapping
from typing import Any

from tinylm.bench import measure
from tinylm.benchmarks.serve import Step
from tinylm.benchmarks.shape import Shape, new_trainer
from tinylm.host.memory import own_peak_mib
from tinylm.host.runtime import pick_device


def make(setup: Mapping[str, Any]) -> Step:
    """setup: shape, settings (of section train), form (nanogpt | preset), device.

    request: updates -> {seconds, tokens}; memory -> {peak_mib, process_mib}.
    """
    device = pick_device(setup.get("device", "cpu"))
    shape = Shape(**setup["shape"])
    trainer = new_trainer(shape, setup, device)

    def update() -> None:
        trainer.update(trainer.next_batches())

    def step(request: Mapping[str, Any]) -> dict[str, Any]:
        if "memory" in request:
            process = own_peak_mib()
            return {"peak_mib": measure.peak_mib(update, device, before=update), "process_mib": process}
        measure.synchronize(device)
        start = time.perf_counter()
        for _ in range(request["updates"]):
            update()
        measure.synchronize(device)
        return {"seconds": time.perf_counter() - start, "tokens": request["updates"] * shape.step_tokens}

    return step
