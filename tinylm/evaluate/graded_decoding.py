"""Compare decoding settings with the generator: impossible words allowed, possible words ruled out.

A filter is a trade-off. It rules out words that the generator never writes at that point, but also
words that the generator does write. At the true prefixes of stories, both are known exactly. Let p be
the true distribution of the next word, and q the one that the setting samples from. Their total
variation, half the sum of |p - q|, is the share of the draws that would have to change to follow the
generator.
"""

import dataclasses
from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd
import torch

from tinylm.decoding import filters
from tinylm.decoding.decoder import Decoder
from tinylm.decoding.sampling import generate
from tinylm.decoding.settings import DecodeSettings
from tinylm.decoding.texts import banned_ids
from tinylm.evaluate.intervals import pooled_ratio
from tinylm.evaluate.plausibility import measure_plausibility
from tinylm.evaluate.scoring import value_and_interval
from tinylm.evaluate.trained_run import TrainedRun
from tinylm.evaluate.truth import ComparedStory, TrueTokens
from tinylm.kernels.decoding.step import decoding_step
from tinylm.run.evaluated import DecodingGrade
from tinylm.storybook.world import storybook
from tinylm.vocab.words import SOS_ID

TEXTS = 20  # that the model writes with each setting
PLAIN = "temperature 1"
SETTINGS = {
    PLAIN: DecodeSettings(),
    "temperature 0.8": DecodeSettings(temperature=0.8),
    "top-k 50": DecodeSettings(top_k=50),
    "top-p 0.9": DecodeSettings(top_p=0.9),
    "min-p 0.1": DecodeSettings(min_p=0.1),
    "greedy": DecodeSettings(temperature=0.0),
}
OWN = "section decode"


def graded_settings(decode: DecodeSettings) -> dict[str, DecodeSettings]:
    """The settings that are compared, the run's own first, without its repetition penalty."""
    own = dataclasses.replace(decode, repetition_penalty=1.0, repetition_window=None)
    return {OWN: own, **SETTINGS}


def grade_words(truth: TrueTokens, drawn: np.ndarray) -> dict[str, np.ndarray]:
    """total_variation, impossible and cut at each position; drawn (T, V): probabilities.  -> (T,) each"""
    length = len(drawn)
    of_possible = drawn[truth.positions, truth.ids]
    impossible = np.maximum(1 - np.bincount(truth.positions, of_possible, length), 0.0)
    differences = np.bincount(truth.positions, np.abs(truth.probs - of_possible), length)
    never_drawn = np.where(of_possible == 0, truth.probs, 0.0)
    return {
        "total_variation": (differences + impossible) / 2,
        "impossible": impossible,
        "cut": np.bincount(truth.positions, never_drawn, length),
    }


def grade_decoding(
    run: TrainedRun, stories: Sequence[ComparedStory], decode: DecodeSettings
) -> dict[str, DecodingGrade]:
    """The grade of every setting on the same stories, with 95 % intervals over stories."""
    settings = graded_settings(decode)
    by_setting = _sums(run, stories, settings)
    plain = by_setting[PLAIN]["total_variation"]
    grades = {}
    for name, chosen in settings.items():
        sums = by_setting[name]
        sums["difference"] = sums["total_variation"] - plain
        grades[name] = _grade(run, chosen, sums)
    return grades


@torch.no_grad()
def _sums(
    run: TrainedRun, stories: Sequence[ComparedStory], settings: Mapping[str, DecodeSettings]
) -> dict[str, pd.DataFrame]:
    """For each setting, a row per story: sums of `grade_words` over its words, and the number of words."""
    device = run.model.embedding.device
    banned = banned_ids(run.tokenizer)
    rows: dict[str, list[dict[str, float]]] = {name: [] for name in settings}
    for story in stories:
        ids = torch.as_tensor(story.ids[:-1], device=device)
        logits = run.model.logits(run.model.hidden_states(ids[None])[0]).float()
        logits = filters.ban(logits, banned)
        for name, chosen in settings.items():
            drawn = filters.probabilities(logits, chosen).cpu().numpy()
            measures = grade_words(story.truth, drawn)
            sums = {measure: float(values.sum()) for measure, values in measures.items()}
            rows[name].append({**sums, "words": len(drawn)})
    return {name: pd.DataFrame(of_stories) for name, of_stories in rows.items()}


def _grade(run: TrainedRun, settings: DecodeSettings, sums: pd.DataFrame) -> DecodingGrade:
    """The grade of one setting; sums: a row for each story."""
    measures = {}
    for name in ("total_variation", "impossible", "cut", "difference"):
        measures[name] = value_and_interval(sums[[name, "words"]].to_numpy(), pooled_ratio)
    plausibility, _ = measure_plausibility(own_texts(run, settings), run.world or storybook())
    return DecodingGrade(**measures, texts=plausibility.texts, words=plausibility.words)


def own_texts(run: TrainedRun, settings: DecodeSettings) -> pd.DataFrame:
    """Whole stories that the model writes, as a table for `measure_plausibility`."""
    tokenizer = run.tokenizer
    decoder = Decoder(
        model=run.model,
        eos_id=tokenizer.eos_id,
        banned=banned_ids(tokenizer),
        step=decoding_step(run.model),
    )
    count = 1 if settings.temperature == 0.0 else TEXTS  # greedy texts are all the same
    prompts = [[SOS_ID]] * count
    most = run.model.settings.context - 1
    texts = generate(decoder, prompts, settings, max_new_tokens=most)
    rows = []
    for text in texts:
        row = {"prompt": "", "continuation": tokenizer.decode(text.ids), "finished": text.finished}
        rows.append(row)
    return pd.DataFrame(rows)


def plotted(grades: Mapping[str, DecodingGrade]) -> list[tuple[str, str, float | None]]:
    """plots/decoding.csv: (setting, series, value)."""
    rows = []
    for name, grade in grades.items():
        rows.append((name, "total variation", grade.total_variation.value))
        rows.append((name, "impossible words", grade.impossible.value))
        rows.append((name, "true words cut away", grade.cut.value))
    return rows
