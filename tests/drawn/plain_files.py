"""What a run left, read by plain code: figures, tables, ids, rows of a layout, weights and the loss of each row."""

import itertools
import json
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from safetensors.torch import load_file
from torch import Tensor

from tests.drawn.plain_model import PlainModel, Weights
from tests.drawn.running import read_params_file
from tinylm.storybook.check import world_of
from tinylm.storybook.world import World
from tinylm.vocab.open_tokenizer import open_tokenizer
from tinylm.vocab.tokenizer import Tokenizer

SPLITS = ("train", "held_out", "evaluation")
# A loss may differ by this many times what the plain code differs from itself in the run's precision: other sums
# round otherwise, and weights that have diverged make every rounding larger.
ROUNDINGS = 20
LEAST = {"fp32": 1e-5, "bf16": 2e-2}  # of a loss; bf16 has three digits
ROWS_AT_ONCE = 256
# Columns of tables: texts, which may look like numbers, and numbers that may be missing.
TEXTS = ("prompt", "reference", "continuation", "text", "method", "text_id", "tokens_id", "word")
EMPTY = {key: [""] for key in ("raw_bits", "true", "model", "kl", "value")}


def differs(name: str, got: Any, wanted: Any, relative: float = 1e-5, absolute: Any = 1e-9) -> str:
    """A sentence if the numbers, or lists of them, are not the wanted ones; else "".

    None, NaN and infinity equal themselves alone.
    """
    one, other = (np.array(values, dtype=float) for values in (got, wanted))
    if one.shape != other.shape:
        return f"{name}: expected {other.shape} numbers, got {one.shape}"
    with np.errstate(invalid="ignore"):
        tolerance = np.asarray(absolute) + relative * np.abs(other)
        is_wrong = ~((np.abs(one - other) <= tolerance) | (one == other))
    is_wrong &= ~(np.isnan(one) & np.isnan(other))
    if not is_wrong.any():
        return ""
    place = tuple(np.argwhere(is_wrong)[0].tolist())
    where = f" at {place}" if place else ""
    return f"{name}{where}: expected {other[place]:.10g}, got {one[place]:.10g}"


class Run:
    """A run in a folder. params: of its params.yaml."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.params = read_params_file(folder)
        self.context: int = self.params["model"]["context"]

    def json(self, name: str) -> Any:
        return json.loads((self.folder / f"{name}.json").read_text("utf-8"))

    def table(self, name: str) -> pd.DataFrame:
        """A CSV file; empty if it has no rows. Texts stay as they are written."""
        path = self.folder / f"{name}.csv"
        if path.read_bytes().strip() == b"":
            return pd.DataFrame()
        return pd.read_csv(
            path, dtype=dict.fromkeys(TEXTS, str), keep_default_na=False, na_values=EMPTY
        )

    def curve(self, name: str, series: str, *columns: str) -> np.ndarray:
        """Rows of a series of plots/NAME.csv.  -> (rows, columns and value)"""
        table = self.table(f"plots/{name}")
        columns = columns or ("step", "tokens")
        return table.loc[table["series"] == series, [*columns, "value"]].to_numpy(dtype=float)

    def texts(self, split: str) -> list[str]:
        lines = (self.folder / f"data/stories/{split}.jsonl").read_text("utf-8").split("\n")
        return [json.loads(line)["text"] for line in lines if line]

    @cached_property
    def world(self) -> World | None:
        """What wrote the stories."""
        data = self.params["data"]
        return world_of(data["source"], str(self.folder / data["path"]))

    @cached_property
    def tokenizer(self) -> Tokenizer:
        return open_tokenizer(self.folder / "data/vocab/tokenizer.json")

    def ids(self, split: str) -> np.ndarray:
        """All tokens of a split in order."""
        dtype = self.json(f"data/tokens/{split}")["dtype"]
        return np.fromfile(self.folder / f"data/tokens/{split}.ids", dtype).astype(np.int64)

    def offsets(self, split: str) -> np.ndarray:
        """Where each story starts, and the end."""
        return np.fromfile(self.folder / f"data/tokens/{split}.offsets", "<i8")

    def stories(self, split: str) -> list[list[int]]:
        """The ids of each story."""
        return [story.tolist() for story in np.split(self.ids(split), self.offsets(split)[1:-1])]

    def rows(self, split: str, layout: str) -> np.ndarray:
        """(first input, number of targets) of each row that is scored.  -> (rows, 2)"""
        size = len(self.ids(split))
        if layout == "windows":
            return np.array([[start, self.context] for start in range(size - self.context)])
        spans = [(0, size)]
        if layout == "stories":
            offsets = self.offsets(split).tolist()
            spans = list(itertools.pairwise(offsets))
        rows = []
        for first, end in spans:
            for start in range(first, end - 1, self.context):
                rows.append((start, min(self.context, end - 1 - start)))
        return np.array(rows).reshape(-1, 2)

    def weights(self, name: str = "models/model") -> Weights:
        return load_file(self.folder / f"{name}.safetensors")

    def nats_of_rows(
        self, weights: Weights, rows: Sequence[Sequence[int]], precision: str = "fp32"
    ) -> tuple[list[np.ndarray], list[np.ndarray]]:
        """-ln p of all ids but the first of each row, and by how much a run's may differ."""
        settings = self.params["model"]
        nats = [np.empty(0)] * len(rows)
        tolerance = [np.empty(0)] * len(rows)
        by_length: dict[int, list[int]] = {}
        for number, row in enumerate(rows):
            by_length.setdefault(len(row), []).append(number)
        for length, numbers in by_length.items():
            for first in range(0, len(numbers), ROWS_AT_ONCE) if length > 1 else ():
                chosen = numbers[first : first + ROWS_AT_ONCE]
                ids = torch.tensor([list(rows[number]) for number in chosen])
                found = nats_of(PlainModel(weights, settings), ids)
                rough = PlainModel(weights, settings, torch.float32)
                with torch.autocast("cpu", torch.bfloat16, enabled=precision == "bf16"):
                    error = (nats_of(rough, ids) - found).abs()
                allowed = ROUNDINGS * error.amax(1, keepdim=True) + LEAST[precision] * (1 + found)
                for number, values, errors in zip(chosen, found, allowed, strict=True):
                    nats[number] = values.numpy()
                    tolerance[number] = errors.numpy()
        return nats, tolerance

    def split_loss(
        self, weights: Weights, split: str, precision: str = "fp32"
    ) -> tuple[float, float]:
        """(nats per token over the rows of a split, by how much a run's may differ)"""
        ids = self.ids(split)
        rows = [ids[first : first + size + 1] for first, size in self.rows(split, self.layout)]
        nats, tolerance = self.nats_of_rows(weights, rows, precision)
        return float(np.concatenate(nats).mean()), float(np.concatenate(tolerance).mean())

    @property
    def layout(self) -> str:
        layout: str = self.params["train"]["layout"]
        return layout

    @property
    def tokens_per_epoch(self) -> int:
        """Targets of all training rows; in a stream the first token follows the last one."""
        if self.layout == "stream":
            return len(self.ids("train"))
        return int(self.rows("train", self.layout)[:, 1].sum())


@torch.no_grad()
def nats_of(model: PlainModel, ids: Tensor) -> Tensor:
    """(B, T) -> (B, T - 1) float64"""
    log_probs = model(ids[:, :-1]).double().log_softmax(-1)
    return -log_probs.gather(-1, ids[:, 1:, None])[..., 0]
