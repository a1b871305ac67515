"""Snapshots of a training run, so that an interrupted run continues and ends with the same bytes.

A folder holds one unfinished run:

    snapshot.safetensors         its state: tensors; as metadata its numbers and what decides the run
    checkpoints/0.5.safetensors  weights kept after chosen epochs
"""

import dataclasses
import json
import shutil
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from safetensors import SafetensorError, safe_open
from safetensors.torch import load_file, save
from torch import Tensor

from tinylm.base.config import PARAMS_FILE, InputError
from tinylm.base.files import copy_file, sha256, write_bytes
from tinylm.model.checkpoint import CHECKPOINTS

SNAPSHOT = "snapshot.safetensors"
MAX_TIME_SHARE = 0.05  # of a run's time, for writing snapshots
SHARES = (0.02, 0.05, 0.1, 0.25, 0.5)  # of a run: its checkpoints if no epochs are given
State = tuple[dict[str, Tensor], dict[str, Any]]  # (tensors, numbers) of a snapshot


def fingerprint_of(sections: Mapping[str, Any], data: list[str], code: str) -> dict[str, Any]:
    """What decides a run: every setting, the SHA-256 of each data file, and that of the code."""
    fingerprint: dict[str, Any] = {}
    for name, settings in sections.items():
        for key, value in dataclasses.asdict(settings).items():
            fingerprint[f"{name}.{key}"] = value
    for path in data:
        fingerprint[path] = sha256(path)
    return fingerprint | {"code": code}


def checkpoint_tokens(
    epochs: tuple[float, ...] | None, tokens_per_epoch: int, end: int
) -> dict[float, int]:
    """The epochs whose weights are saved, each with the tokens after which it ends.

    epochs: None for `SHARES` of the run. Raises InputError if one is too small for a token or
    beyond the end.
    """
    if epochs is None:
        rounded = {float(f"{share * end / tokens_per_epoch:.3g}") for share in SHARES}
        epochs = tuple(epoch for epoch in rounded if round(epoch * tokens_per_epoch))
    tokens_of = {epoch: round(epoch * tokens_per_epoch) for epoch in sorted(epochs)}
    for epoch, tokens in tokens_of.items():
        if not 1 <= tokens <= end:
            raise InputError(
                f"{PARAMS_FILE}: train.keep_epochs: expected at least one token and at most "
                f"{end / tokens_per_epoch:.6g} epochs, where this run ends, got {epoch:g}"
            )
    return tokens_of


def _as_bytes(tensors: Mapping[str, Tensor], metadata: dict[str, str] | None = None) -> bytes:
    on_cpu = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
    return save(on_cpu, metadata)


class Snapshots:
    """The snapshots of one run in a folder, each written over the one before.

    fingerprint: see `fingerprint_of`. every_s: seconds between two snapshots; more if writing one
    takes so long that it would exceed `MAX_TIME_SHARE`.
    """

    def __init__(self, folder: str | Path, fingerprint: Mapping[str, Any], every_s: float) -> None:
        self.folder = Path(folder)
        self.fingerprint = json.loads(json.dumps(fingerprint))
        self.every_s = every_s
        self._last_s = time.monotonic()
        self._writing_s = 0.0  # seconds that the last one took

    def due(self) -> bool:
        """Whether it is time for the next snapshot."""
        pause = max(self.every_s, self._writing_s / MAX_TIME_SHARE)
        return time.monotonic() - self._last_s >= pause

    def save(self, tensors: Mapping[str, Tensor], numbers: Mapping[str, Any]) -> None:
        """Write a snapshot of the state."""
        start = time.monotonic()
        metadata = {"run": json.dumps(self.fingerprint), "numbers": json.dumps(numbers)}
        write_bytes(self.folder / SNAPSHOT, _as_bytes(tensors, metadata))
        self._last_s = time.monotonic()
        self._writing_s = self._last_s - start

    def keep(self, name: str, weights: Mapping[str, Tensor]) -> None:
        """Write checkpoints/NAME.safetensors."""
        write_bytes(self.folder / CHECKPOINTS / f"{name}.safetensors", _as_bytes(weights))

    def copy_checkpoints(self, folder: str | Path) -> None:
        """Replace folder/checkpoints by what `keep` wrote."""
        target = Path(folder) / CHECKPOINTS
        shutil.rmtree(target, ignore_errors=True)
        for path in sorted((self.folder / CHECKPOINTS).glob("*.safetensors")):
            copy_file(path, target / path.name)

    def exist(self) -> bool:
        """Whether there is a snapshot to continue from."""
        return (self.folder / SNAPSHOT).exists()

    def latest(self) -> State | None:
        """The state in the snapshot, or None if the run starts from the beginning.

        Raises InputError if the snapshot is damaged, or of another run: the message names what
        changed.
        """
        path = self.folder / SNAPSHOT
        if not self.exist():
            self.finish()  # checkpoints that no snapshot continues
            return None
        try:
            with safe_open(path, "pt") as file:
                metadata = file.metadata()
            self._refuse_another_run(json.loads(metadata["run"]))
            return load_file(path), json.loads(metadata["numbers"])
        except (SafetensorError, TypeError, KeyError, ValueError) as error:
            reason = str(error).split("\n")[0][:160]
            raise InputError(
                f"{path} is damaged ({reason}); rm -r {self.folder} to start again"
            ) from None

    def finish(self) -> None:
        """Remove the folder: the run is done."""
        # The snapshot comes first, since it refers to the checkpoints.
        (self.folder / SNAPSHOT).unlink(missing_ok=True)
        shutil.rmtree(self.folder, ignore_errors=True)

    def _refuse_another_run(self, earlier: Mapping[str, Any]) -> None:
        """Raise InputError if what decides this run is not what decided the earlier one."""
        changed = []
        for key, value in self.fingerprint.items():
            if earlier.get(key) == value:
                continue
            change = f"{key} {earlier.get(key)!s:.40} -> {value!s:.40}"
            if key == "cpu":  # other last bits cost less than starting again
                print(f"warning: the run began on another processor: {change}", flush=True)
            else:
                changed.append(change)
        if changed:
            raise InputError(
                f"{self.folder} has an unfinished run, but these have changed since: "
                f"{', '.join(changed)}; undo the change to continue the run, or rm -r "
                f"{self.folder} to start again"
            )
