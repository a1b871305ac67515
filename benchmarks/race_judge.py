"""Measure finished runs of an entry on fresh stories: `python -m benchmarks.race_judge SEED RUN...` prints JSON.

The command `race judge` starts this with the code that trained the entry, since a patch may change the model.
"""

import json
import sys
from collections.abc import Collection
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch

from benchmarks.race_entry import CONTEXT, check_run, train_texts
from tinylm.base import paths
from tinylm.base.command import run_command
from tinylm.base.config import InputError, load_params
from tinylm.evaluate.truth import (
    ComparedStory,
    Position,
    log_probabilities,
    read_words,
    true_tokens,
)
from tinylm.model.checkpoint import load_model
from tinylm.model.transformer import TinyLM
from tinylm.run.result_files import read_result, read_stage
from tinylm.run.trained import Trained, TrainTimes
from tinylm.storybook.corpus import generate
from tinylm.storybook.truth import END
from tinylm.storybook.world import storybook
from tinylm.vocab.open_tokenizer import open_tokenizer

STORIES = 100


class FreshStory(NamedTuple):
    """A story that no run has seen, with the generator's probabilities at each word."""

    text: str
    positions: list[Position]


def fresh_stories(seed: int, seen: Collection[str], count: int = STORIES) -> list[FreshStory]:
    """Stories drawn from a seed, without those that are `seen` or exceed CONTEXT words."""
    known = {storybook().normalise(text) for text in seen}
    stories = []
    for story in generate(0, count, seed)[1]:
        text = storybook().normalise(story.text)
        words = text.split()
        if text not in known and len(words) < CONTEXT:
            stories.append(FreshStory(story.text, read_words([*words, END])[:-1]))
    return stories


def check_order(model: TinyLM, ids: np.ndarray) -> None:
    """Raise InputError if the model reads ahead: all words of a story are its input at once."""
    half = len(ids) // 2
    of_whole = log_probabilities(model, ids)[:half]
    of_half = log_probabilities(model, ids[:half])
    if not np.allclose(of_whole, of_half, atol=1e-3):
        largest = np.abs(of_whole - of_half).max()
        raise InputError(f"model: expected no effect of later words, got {largest:.2g} nats")


def nats_above_floor(run: Path, stories: list[FreshStory]) -> float:
    """The mean divergence of the run's model from the generator, in nats per word with `<eos>`.

    Raises InputError if the model reads ahead.
    """
    model, _ = load_model(run / paths.MODELS)
    tokenizer = open_tokenizer(run / paths.TOKENIZER)
    nats = 0.0
    words = 0
    for number, story in enumerate(stories):
        ids = np.array(tokenizer.encode_story(story.text))
        check_order(model, ids[:-1])
        truth = true_tokens(tokenizer, story.positions)
        table = ComparedStory(number, ids, story.positions, truth).table(model)
        nats += table["kl"].sum()
        words += len(table)
    return nats / words


def measure(run: Path, stories: list[FreshStory]) -> dict[str, Any]:
    """What the race records of a finished run."""
    trained = read_stage(Trained, "train", run)
    times = read_result(TrainTimes, run / paths.times("train"), "train")
    return {
        "seed": trained.seed,
        "nats": round(nats_above_floor(run, stories), 5),
        "updates": trained.updates,
        "operations": trained.training_flop_per_token * trained.tokens,
        "minutes": round(times.train_s / 60, 1),
        "processor": (times.conditions or {}).get("cpu", "unknown"),
    }


def measure_all(seed: int, runs: list[Path]) -> list[dict[str, Any]]:
    """Measure each run. Raises InputError if one breaks a rule, or trained on stories of this seed."""
    for run in runs:
        check_run(run)
        data_seed = load_params(run / "params.yaml")["data"]["seed"]
        if seed == data_seed:
            raise InputError(
                f"--stories-seed: expected another seed than {run}'s data.seed, got {seed}"
            )
    stories = fresh_stories(seed, train_texts(runs[0]))
    return [{**measure(run, stories), "stories": len(stories)} for run in runs]


def main() -> None:
    torch.set_grad_enabled(False)
    seed, *runs = sys.argv[1:]
    print(json.dumps(measure_all(int(seed), [Path(run) for run in runs])))


if __name__ == "__main__":
    sys.exit(run_command(main))
