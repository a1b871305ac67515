"""How fast this machine trains and runs a model, measured for a second and then kept for an hour."""

import dataclasses
import hashlib
import importlib.metadata
import json
import math
import platform
import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tinylm.base.config import InputError
from tinylm.base.files import read_json, write_json
from tinylm.base.processes import cores
from tinylm.params.params import Params

FILE = Path(".dvc/tmp/speed.json")
FRESH_S = 3600  # seconds that a measurement is reused; other programs may have slowed it down
MEASURED_S = 0.5  # length of each of the two measurements
VOCABULARY = 3_000  # words of the model that is measured
STORY = 128  # tokens of an average story
# Settings of training that do not change how long an update takes.
SAME_SPEED = {
    "tokens", "epochs", "lr", "muon_lr", "warmup", "schedule", "final_lr", "validate_every", "patience", "keep_epochs", "seed"
}  # fmt: skip


@dataclass(frozen=True)
class Speed:
    """Seconds of training per token, and of a plain forward pass over 1,024 tokens, on a type of device.

    at: when it was measured, in seconds since 1970.
    """

    token_s: float
    forward_s: float
    device: str
    at: float = dataclasses.field(default_factory=time.time)

    def age_s(self) -> float:
        """Seconds since it was measured; negative if the clock was set back."""
        return time.time() - self.at


def kept_speed(sections: Mapping[str, Any]) -> Speed | None:
    """The speed that was measured here for these settings within the last hour, or None. Never raises."""
    if not {"model", "train", "embedding", "runtime"} <= sections.keys():
        return None
    try:
        content = read_json(FILE)
        token_s, forward_s, at = (float(content[key]) for key in ("token_s", "forward_s", "at"))
        speed = Speed(token_s, forward_s, content["device"], at)
        of_what = content["of"]
    except (InputError, OSError, KeyError, TypeError, ValueError, OverflowError):
        return None  # nothing was kept, or somebody has edited it
    is_sound = all(math.isfinite(number) and number > 0 for number in (token_s, forward_s, at))
    is_fresh = is_sound and 0 <= speed.age_s() < FRESH_S
    return speed if is_fresh and of_what == _digest(sections) else None


def keep_speed(sections: Mapping[str, Any], speed: Speed) -> None:
    """Save a measurement for `kept_speed`, unless it was made on a card, which may be missing next time."""
    if speed.device == "cpu":
        write_json(FILE, dataclasses.asdict(speed) | {"of": _digest(sections)})


def _digest(sections: Mapping[str, Any]) -> str:
    """Of what the speed depends on: the settings, torch's version and the machine."""
    train = dataclasses.asdict(sections["train"])
    runtime = sections["runtime"]
    parts = [
        dataclasses.asdict(sections["model"]),
        {key: value for key, value in train.items() if key not in SAME_SPEED},
        sections["embedding"].width,
        [runtime.threads, runtime.device],
        [importlib.metadata.version("torch"), platform.node(), cores()],
    ]
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()


def measure(params: Params) -> Speed:
    """Time training and a forward pass with a model of this shape, half a second each. Importing torch takes a second."""
    import torch

    from tinylm.base.machine import pick_device
    from tinylm.model.checkpoint import new_model
    from tinylm.train.preparation import training_model
    from tinylm.train.row_threads import RowThreads
    from tinylm.train.trainer import accumulate_gradients, make_optimizers
    from tinylm.vocab.batches import Batch

    torch.set_num_threads(params.runtime.threads)
    device = pick_device(params.runtime.device)
    settings = params.train.resolved(device)
    embedding = 0.02 * torch.randn(VOCABULARY, params.embedding.width)
    model = training_model(params.model, settings, embedding, device).train()
    optimizers = make_optimizers(model, settings)
    ids = torch.randint(0, VOCABULARY, (settings.batch_size, row_tokens(params)))
    batch = Batch(ids, ids, ids.numel())
    threads = RowThreads(model, settings.batch_size)

    def update() -> None:
        model.zero_grad(set_to_none=True)
        nats = threads.run(
            lambda model, part: accumulate_gradients(model, part, settings.precision, batch.tokens),
            [batch],
        )
        float(nats)  # waits for the device
        for optimizer, rate in optimizers:
            optimizer.step(1e-3 * rate, 1)

    plain = new_model(params.model, embedding).eval()
    with torch.inference_mode():
        forward_s = _median_s(lambda: plain(ids[:8]))
    token_s = _median_s(update) / batch.tokens
    return Speed(token_s, forward_s * 1024 / ids[:8].numel(), device.type)


def row_tokens(params: Params) -> int:
    """Tokens of an average row of a mini-batch."""
    context = params.model.context
    return min(STORY, context) if params.train.layout == "stories" else context


def _median_s(work: Callable[[], Any]) -> float:
    """Median wall time of `work`, repeated for `MEASURED_S` after two calls that are not timed."""
    times: list[float] = []
    while len(times) < 5 or sum(times[2:]) < MEASURED_S:
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    return statistics.median(times[2:])
