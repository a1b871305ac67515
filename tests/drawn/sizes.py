"""Properties of sizes: parameters, operations and bytes in train.json and in `tinylm describe`, counted independently."""

import contextlib
import io
from collections import Counter
from pathlib import Path
from typing import Any

import torch
from torch.utils.flop_counter import FlopCounterMode

from tests.drawn.drawing import DrawnRun
from tests.drawn.plain_files import Run, differs
from tests.drawn.plain_model import PlainModel
from tests.drawn.properties import holds
from tests.drawn.running import in_folder
from tinylm.cli import main

FLOAT_BYTES = 4
MIB = 2**20


def part_of(name: str) -> str:
    """Which part of the model a parameter is counted with, by its name in the file."""
    if "norm" in name:
        return "norms"
    for part in ("blocks", "output"):
        if name.startswith(part):
            return part
    return "embedding"


def counted(run: Run) -> dict[str, Any]:
    """The sizes of train.json, from the weights and the plain model."""
    weights = run.weights()
    del weights["embedding_scale"]  # a constant
    settings = run.params["model"]
    sizes = {name: tensor.numel() for name, tensor in weights.items()}
    trained = dict(sizes)
    if settings["embedding"] == "frozen":
        del trained["embedding"]
    numbers = 2 * sum(trained.values())
    if (
        run.params["train"]["optimizer"] == "muon"
    ):  # keeps one number, not two, for each weight of a matrix
        numbers -= sum(
            sizes[name] for name in sizes if name.startswith("blocks") and weights[name].dim() == 2
        )
    width = settings["head_width"] or weights["embedding"].shape[1] // settings["heads"]
    by_part: Counter[str] = Counter(dict.fromkeys(("embedding", "blocks", "output", "norms"), 0))
    for name, size in sizes.items():
        by_part[part_of(name)] += size
    with FlopCounterMode(display=False) as operations, torch.no_grad():
        PlainModel(run.weights(), settings)(torch.zeros(1, run.context, dtype=torch.int64))
    by_product = {
        str(product): flop for product, flop in operations.get_flop_counts()["Global"].items()
    }
    forward = operations.get_total_flops() // run.context
    return {
        "parameters": sum(sizes.values()),
        "parameters_trainable": sum(trained.values()),
        "parameters_by_part": dict(by_part),
        "forward_flop_per_token": forward,
        "attention_flop_per_token": by_product["aten.bmm"] // run.context,
        "training_flop_per_token": 3 * forward,  # the gradients of both factors of each product
        "weight_bytes": FLOAT_BYTES * sum(sizes.values()),
        "gradient_bytes": FLOAT_BYTES * sum(trained.values()),
        "optimizer_bytes": FLOAT_BYTES * numbers,
        "kv_cache_bytes_per_row": FLOAT_BYTES
        * (settings["layers"] * 2 * settings["heads"] * width * run.context),
    }  # fmt: skip


@holds("trained")
def sizes_are_those_of_the_weights(drawn: DrawnRun, folder: Path) -> None:
    """train.json, and what `tinylm describe` prints before a training."""
    run = Run(folder)
    figures = run.json("data/figures/train")
    wanted = counted(run)
    found = {name: figures[name] for name in wanted}
    assert found == wanted, f"train.json: expected {wanted}, got {found}"
    with in_folder(folder), contextlib.redirect_stdout(io.StringIO()) as printed:
        assert main(["describe"]) == 0
    lines = printed.getvalue().splitlines()[-5:]
    numbers = [float(line.split()[0].replace(",", "")) for line in lines]
    training = sum(wanted[name] for name in ("weight_bytes", "gradient_bytes", "optimizer_bytes"))
    in_mib = [wanted["weight_bytes"], training, wanted["kv_cache_bytes_per_row"]]
    tokens = run.params["train"]["batch_size"] * run.context
    expected = [
        wanted["parameters_trainable"],
        *(bytes_ / MIB for bytes_ in in_mib),
        tokens * wanted["training_flop_per_token"],
    ]
    assert numbers[0] == expected[0], f"tinylm describe: {lines[0]}, expected {expected[0]}"
    problem = differs("tinylm describe", numbers, expected, relative=5e-3, absolute=0.051)
    assert not problem, f"{problem}: {lines}"
    assert f"{tokens:,} tokens" in lines[-1], lines[-1]
    assert run.params["train"]["optimizer"] in lines[2], lines[2]
