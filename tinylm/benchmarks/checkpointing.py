"""Gradient checkpointing at the shape of word-50k, 4 layers: what ckpt_bench measures, also in bf16 and with the
plain loss."""

import dataclasses
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from tinylm.bench import ckpt
from tinylm.benchmarks.interleaved import spread
from tinylm.benchmarks.options import Options, command
from tinylm.benchmarks.record import Row
from tinylm.benchmarks.shape import PAD_ID, Shape, model_settings, of_size, random_vectors, stream
from tinylm.text.stores.matrix_file import save_matrix
from tinylm.text.stores.token_store import write_store

NAME = "checkpointing"


def _data(folder: Path, shape: Shape) -> None:
    """Vectors and tokens as stage vocab leaves them."""
    save_matrix(folder / "vocab/embedding.safetensors", random_vectors(shape).numpy())
    write_store(folder / "tokens", "train", np.array_split(stream(shape, 8 * shape.step_tokens), 8), shape.vocab)


@dataclasses.dataclass(frozen=True)
class Variant:
    """What is measured: in which precision, with which loss, which choices of what is kept; with a goal or without."""

    name: str
    precision: str
    plain_loss: bool
    modes: tuple[str, ...]
    goal: bool


VARIANTS = (
    Variant("fp32", "fp32", False, ckpt.MODES, True),
    Variant("bf16", "bf16", False, ("none", "blocks"), False),
    Variant("fp32, plain loss", "fp32", True, ("none", "blocks"), False),
)


def _measure(options: Options, shape: Shape) -> dict[str, list[list[dict[str, Any]]]]:
    """ckpt_bench's results of each variant, once a turn; it checks loss and gradients to be equal to the bit."""
    settings = ckpt.CkptBenchSettings(depths=(shape.layers,), batch_size=shape.batch, repeats=3)
    found: dict[str, list[list[dict[str, Any]]]] = {variant.name: [] for variant in VARIANTS}
    with tempfile.TemporaryDirectory() as folder:
        _data(Path(folder), shape)
        tasks = ckpt.make_tasks(settings, model_settings(shape), PAD_ID, folder, "cpu", options.threads)
        if options.inline:
            tasks = [dataclasses.replace(task, repeats=1) for task in tasks]
        for _ in range(options.turns):
            for variant in VARIANTS:
                chosen = [
                    dataclasses.replace(task, precision=variant.precision, plain_loss=variant.plain_loss)
                    for task in tasks
                    if task.recompute in variant.modes
                ]
                print(f"{variant.name}:", flush=True)
                found[variant.name].append(ckpt.run(chosen))
                ckpt.compare(found[variant.name][-1])
    return found


def run(options: Options) -> list[Row]:
    """Gradient checkpointing: peak memory and time against none, gradients equal to the bit; in fp32 with goals."""
    shape = of_size(options.size)
    turns = _measure(options, shape)
    return [row for variant in VARIANTS for row in _rows(variant, turns[variant.name], shape.layers)]


def _rows(variant: Variant, turns: list[list[dict[str, Any]]], layers: int) -> Iterator[Row]:
    """Memory and time of each way against keeping everything."""
    of = {mode: [next(r for r in results if r["recompute"] == mode) for results in turns] for mode in variant.modes}
    memory: dict[str, Any] = {"must": 60, "stretch": 70} if variant.goal else {}
    time: dict[str, Any] = {"must": 20, "stretch": 15} if variant.goal else {}
    for mode in variant.modes[1:]:
        called = f"{layers} layers, {variant.name}, recompute {mode}"
        mine, theirs = (spread(result["peak_mib"] for result in of[name]) for name in (mode, "none"))
        saved = 100 * (1.0 - mine["median"] / theirs["median"])
        what = f"{called}: peak saved above weights and gradients, gradients equal to the bit"
        yield Row(what, "MiB", mine, theirs, "recompute none", saved, "%", **memory)
        mine, theirs = (spread(result["step_s"] for result in of[name]) for name in (mode, "none"))
        slower = 100 * (mine["median"] / theirs["median"] - 1.0)
        what = f"{called}: time added"
        yield Row(what, "s a step", mine, theirs, "recompute none", slower, "%", higher=False, **time)


if __name__ == "__main__":
    command(NAME, run)
