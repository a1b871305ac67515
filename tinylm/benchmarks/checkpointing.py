"""Gradient checkpointing at the shape of word-50k, 4 layers: what ckpt_bench measures, and also bf16 and the plain
loss."""

import dataclasses
import tempfile
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from tinylm.bench import ckpt
from tinylm.benchmarks.interleaved import spreads
from tinylm.benchmarks.options import Options
from tinylm.benchmarks.record import Row
from tinylm.benchmarks.shape import PAD_ID, Shape, model_settings, of_size, random_vectors, stream
from tinylm.vocab.matrix_file import save_matrix
from tinylm.vocab.token_store import write_store


class Variant(NamedTuple):
    """Its precision, its loss, the recomputation modes to measure, and whether it has a goal."""

    precision: str
    plain_loss: bool
    modes: tuple[str, ...]
    goal: bool


VARIANTS = {
    "fp32": Variant("fp32", False, ckpt.MODES, True),
    "bf16": Variant("bf16", False, ("none", "blocks"), False),
    "fp32, plain loss": Variant("fp32", True, ("none", "blocks"), False),
}


def _measure(options: Options, shape: Shape) -> dict[str, list[dict[str, dict[str, Any]]]]:
    """ckpt_bench's results by variant, trial and mode; it checks that loss and gradients are bit-identical."""
    settings = ckpt.CkptBenchSettings(depths=(shape.layers,), batch_size=shape.batch, repeats=1)
    measured: dict[str, list[dict[str, dict[str, Any]]]] = {name: [] for name in VARIANTS}
    with tempfile.TemporaryDirectory() as folder:  # vectors and tokens as stage vocab leaves them
        save_matrix(Path(folder, "vocab/embedding.safetensors"), random_vectors(shape).numpy())
        pieces = np.array_split(stream(shape, 8 * shape.step_tokens), 8)
        write_store(Path(folder, "tokens"), "train", pieces, shape.vocab)
        tasks = ckpt.make_tasks(
            settings, model_settings(shape), PAD_ID, folder, "cpu", options.threads
        )
        for _ in range(options.trials):
            for name, variant in VARIANTS.items():
                changes: dict[str, Any] = {
                    "precision": variant.precision,
                    "plain_loss": variant.plain_loss,
                }
                print(f"{name}:", flush=True)
                chosen = [task for task in tasks if task.recompute in variant.modes]
                results = ckpt.run([dataclasses.replace(task, **changes) for task in chosen])
                ckpt.compare(results)
                measured[name].append({result["recompute"]: result for result in results})
    return measured


def checkpointing(options: Options) -> list[Row]:
    """Gradient checkpointing: peak memory and time against none, bit-identical gradients; in fp32 with goals."""
    shape = of_size(options.size)
    rows = []
    for name, trials in _measure(options, shape).items():
        memory: dict[str, Any] = {"must": 60, "stretch": 70} if VARIANTS[name].goal else {}
        time: dict[str, Any] = {"must": 20, "stretch": 15} if VARIANTS[name].goal else {}
        for mode in VARIANTS[name].modes[1:]:
            called, peer = f"{shape.layers} layers, {name}, recompute {mode}", "recompute none"
            chosen, none = ([trial[each] for trial in trials] for each in (mode, "none"))
            peaks, times = (spreads(chosen, none, figure) for figure in ("peak_mib", "step_s"))
            left, taken = (ours["median"] / none["median"] for ours, none in (peaks, times))
            saved, slower = 100 * (1.0 - left), 100 * (taken - 1.0)
            what = f"{called}: peak saved above weights and gradients, bit-identical gradients"
            rows.append(Row(what, "MiB", *peaks, peer, saved, "%", **memory))
            rows.append(
                Row(
                    f"{called}: time added",
                    "s per step",
                    *times,
                    peer,
                    slower,
                    "%",
                    higher=False,
                    **time,
                )
            )
    return rows
