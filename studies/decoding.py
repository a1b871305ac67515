"""Which decoding setting is nearest to the generator: graded on held-out stories, over runs of several sizes and seeds.

Give it the folders of finished runs of the storybook. It grades every candidate at the true prefixes of held-out stories,
as stage evaluate does on evaluation stories, and writes decoding.csv. The nearest candidate has the smallest total variation,
as the mean over sizes of the mean over seeds. The default is the simplest candidate that is not significantly farther over
all runs (paired t-test, p < 0.05).
"""

import argparse
import sys
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch

from studies.records import FOLDER
from tinylm.base import paths
from tinylm.base.command import Parser, run_command
from tinylm.base.config import InputError, load_params
from tinylm.base.files import write_bytes
from tinylm.decoding.settings import DecodeSettings
from tinylm.evaluate.graded_decoding import sums_of_stories
from tinylm.evaluate.truth import ComparedStory, read_words, true_tokens
from tinylm.model.checkpoint import load_model
from tinylm.run.interval import student_critical_value
from tinylm.storybook.language import END
from tinylm.text.stories import read_texts
from tinylm.vocab.open_tokenizer import open_tokenizer
from tinylm.vocab.tokenizer import Tokenizer

STORIES = 60
MEASURES = ["total_variation", "impossible", "cut"]
NO_FILTER = [DecodeSettings(temperature=temperature) for temperature in (0.7, 0.8, 0.9, 1.0)]
ONE_FILTER = [
    DecodeSettings(top_k=50),
    *(DecodeSettings(top_p=p) for p in (0.8, 0.9, 0.95)),
    *(DecodeSettings(min_p=p) for p in (0.02, 0.05, 0.1, 0.2)),
    *(DecodeSettings(eta=epsilon) for epsilon in (0.01, 0.03, 0.1)),
]
WITH_TEMPERATURE = [
    DecodeSettings(temperature=0.8, top_k=50),  # the default of releases up to 0.4
    *(DecodeSettings(temperature=0.8, min_p=p) for p in (0.02, 0.05)),
    *(DecodeSettings(temperature=0.9, min_p=p) for p in (0.02, 0.05, 0.1)),
    *(DecodeSettings(temperature=0.9, eta=epsilon) for epsilon in (0.03, 0.1)),
]
GREEDY = DecodeSettings(temperature=0.0)
# The simplest first: this is the order in which the rule prefers candidates that are equally near.
CANDIDATES = {c.in_words(): c for c in [GREEDY, *NO_FILTER, *ONE_FILTER, *WITH_TEMPERATURE]}


def held_out_stories(folder: Path, tokenizer: Tokenizer, context: int) -> Iterator[ComparedStory]:
    """The held-out stories that fit the context, with the true probabilities at each word."""
    for number, text in enumerate(read_texts(folder / paths.STORIES, "held_out")):
        ids = np.array(tokenizer.encode_story(text))
        if len(ids) <= context + 1:
            positions = read_words([*tokenizer.split(text), END])[:-1]
            yield ComparedStory(number, ids, positions, true_tokens(tokenizer, positions))


def grades_of(folder: Path) -> Iterator[dict[str, Any]]:
    """A row for each candidate: MEASURES per word, of the finished run in this folder."""
    params = load_params(folder / "params.yaml")
    model, _ = load_model(folder / paths.MODELS)
    tokenizer = open_tokenizer(folder / paths.TOKENIZER)
    stories = list(islice(held_out_stories(folder, tokenizer, model.settings.context), STORIES))
    if not stories:
        raise InputError(f"{folder}: no held-out story fits the context of the model")
    run = {
        "width": model.width,
        "layers": model.settings.layers,
        "seed": params["train"]["seed"],
    }
    for name, sums in sums_of_stories(model, tokenizer, stories, CANDIDATES).items():
        yield {**run, "setting": name, **(sums[MEASURES].sum() / sums["words"].sum()).round(5)}


def in_order_of_distance(grades: pd.DataFrame) -> pd.DataFrame:
    """A row for each setting, the nearest first: means over sizes, and the difference from the nearest.

    low, high: the 95 % interval of that difference, paired over runs.
    """
    sizes = grades.groupby(["setting", "width", "layers"], sort=False)[MEASURES].mean()
    table = sizes.groupby("setting", sort=False).mean().sort_values("total_variation")
    runs = grades.pivot(
        index=["width", "layers", "seed"], columns="setting", values="total_variation"
    )
    differences = runs.sub(runs[table.index[0]], axis=0)[table.index]
    bound = student_critical_value(0.05, len(runs) - 1) * differences.sem()
    means = differences.mean()
    return table.assign(difference=means, low=means - bound, high=means + bound)


def chosen(table: pd.DataFrame) -> str:
    """The setting that the rule of this module chooses from `in_order_of_distance`."""
    as_near = table.index[table["low"] <= 0]
    return next(name for name in CANDIDATES if name in as_near)


def main() -> None:
    parser = Parser(
        prog="python -m studies.decoding",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("folders", nargs="+", type=Path, metavar="FOLDER", help="a finished run")
    folders: Sequence[Path] = parser.parse_args().folders
    torch.set_grad_enabled(False)
    rows: list[dict[str, Any]] = []
    for folder in folders:
        print(f"{folder}: {len(CANDIDATES)} settings", flush=True)
        rows += grades_of(folder)
    grades = pd.DataFrame(rows)
    write_bytes(FOLDER / "decoding.csv", grades.to_csv(index=False).encode())
    table = in_order_of_distance(grades)
    print(table.round(4).to_string())
    print(f"chosen: {chosen(table)}")


if __name__ == "__main__":
    sys.exit(run_command(main))
