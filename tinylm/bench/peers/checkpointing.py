"""Gradient checkpointing at the shape of word-50k: what ckpt_bench measures, in fp32, at 4 layers."""

import dataclasses
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from tinylm.bench import ckpt
from tinylm.bench.peers.options import Options, command
from tinylm.bench.peers.record import Row
from tinylm.bench.peers.shape import PAD_ID, Shape, model_settings, of_size, random_vectors, stream
from tinylm.bench.peers.turns import spread
from tinylm.text.matrix_file import save_matrix
from tinylm.text.token_store import write_store

NAME = "checkpointing"


def _data(folder: Path, shape: Shape) -> None:
    """Vectors and tokens as stage vocab leaves them."""
    save_matrix(folder / "vocab/embedding.safetensors", random_vectors(shape).numpy())
    write_store(folder / "tokens", "train", np.array_split(stream(shape, 8 * shape.step_tokens), 8), shape.vocab)


def _measure(options: Options, shape: Shape) -> list[list[dict[str, Any]]]:
    """ckpt_bench's results, once a turn; it checks loss and gradients to be equal to the bit."""
    settings = ckpt.CkptBenchSettings(depths=(shape.layers,), batch_size=shape.batch, repeats=3)
    found = []
    with tempfile.TemporaryDirectory() as folder:
        _data(Path(folder), shape)
        tasks = ckpt.make_tasks(settings, model_settings(shape), PAD_ID, folder, "cpu", options.threads)
        if options.inline:
            tasks = [dataclasses.replace(task, repeats=1) for task in tasks]
        for _ in range(options.turns):
            found.append(ckpt.run(tasks))
            ckpt.compare(found[-1])
    return found


def run(options: Options) -> list[Row]:
    """Gradient checkpointing in fp32: peak memory and time against no checkpointing, gradients equal to the bit."""
    shape = of_size(options.size)
    turns = _measure(options, shape)
    plain = [next(result for result in results if result["recompute"] in (False, "none")) for results in turns]
    rows = []
    for name in [result["recompute"] for result in turns[0] if result["recompute"] not in (False, "none")]:
        kept = [next(result for result in results if result["recompute"] == name) for results in turns]
        called = f"{shape.layers} layers, fp32, recompute {'on' if name is True else name}"
        mine, theirs = (spread(result["peak_mib"] for result in side) for side in (kept, plain))
        saved = 1.0 - mine["median"] / theirs["median"]
        what = f"{called}: peak saved above weights and gradients, gradients equal to the bit"
        rows.append(Row(what, "MiB", mine, theirs, "recompute none", 100 * saved, "%", 60, 70))
        mine, theirs = (spread(result["step_s"] for result in side) for side in (kept, plain))
        slower = 100 * (mine["median"] / theirs["median"] - 1.0)
        rows.append(
            Row(f"{called}: time added", "s a step", mine, theirs, "recompute none", slower, "%", 20, 15, higher=False)
        )
    return rows


if __name__ == "__main__":
    command(NAME, run)
