"""Compare decoding settings with the generator: impossible words allowed, possible words ruled out.

A filter is a trade-off. It rules out words that the generator never writes at that point, but also
words that the generator does write. At the true prefixes of stories, both are known exactly. Let p be
the true distribution of the next word, and q the one that the setting samples from. Their total
variation, half the sum of |p - q|, is the share of the draws that would have to change to follow the
generator.
"""

import dataclasses
import math
from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd
import torch

from tinylm.decoding import filters
from tinylm.decoding.beam_search import beam_search
from tinylm.decoding.decoder import Decoder
from tinylm.decoding.sampling import generate
from tinylm.decoding.settings import BeamSettings, DecodeSettings
from tinylm.decoding.texts import banned_ids
from tinylm.evaluate.free_texts import (
    FreeText,
    chooses_hero,
    judge,
    read_free_text,
    usual_surprises,
)
from tinylm.evaluate.intervals import pooled_ratio
from tinylm.evaluate.scoring import value_and_interval
from tinylm.evaluate.trained_run import TrainedRun
from tinylm.evaluate.truth import ComparedStory, TrueTokens
from tinylm.kernels.decoding.step import decoding_step
from tinylm.model.transformer import TinyLM
from tinylm.run.evaluated import GENERATOR, DecodingGrade, FreeTexts
from tinylm.storybook.language import END
from tinylm.storybook.world import World
from tinylm.vocab.tokenizer import Tokenizer
from tinylm.vocab.words import SOS_ID

TEXTS = 20  # that the model writes with each setting
PLAIN = "temperature 1"
SETTINGS = {
    PLAIN: DecodeSettings(),
    "temperature 0.8": DecodeSettings(temperature=0.8),
    "temperature 0.8, top-k 50": DecodeSettings(temperature=0.8, top_k=50),
    "top-p 0.9": DecodeSettings(top_p=0.9),
    "min-p 0.1": DecodeSettings(min_p=0.1),
    "eta 0.1": DecodeSettings(eta=0.1),
    "greedy": DecodeSettings(temperature=0.0),
}
OWN = "section decode"
BEAMS = "5 beams"


def graded_settings(decode: DecodeSettings) -> dict[str, DecodeSettings]:
    """The settings that are compared, the run's own first, without its repetition penalty.

    A setting that is equal to it is left out, except PLAIN, with which all are compared.
    """
    plain = DecodeSettings(seed=decode.seed)
    own = dataclasses.replace(decode, repetition_penalty=1.0, repetition_window=None)
    settings = {OWN: own}
    for name, chosen in SETTINGS.items():
        chosen = dataclasses.replace(chosen, seed=decode.seed)
        if chosen != own or chosen == plain:
            settings[name] = chosen
    return settings


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
    """The grade of every setting on the same stories, with 95 % intervals over stories.

    Beam search and the generator, which is never wrong, come last.
    """
    assert run.world is not None  # else there would be no stories to compare
    world, decoder = run.world, _decoder(run)
    settings = graded_settings(decode)
    by_setting = sums_of_stories(run.model, run.tokenizer, stories, settings)
    plain = by_setting[PLAIN]["total_variation"]
    true_texts = [text_of(story) for story in stories]
    usual = usual_surprises(true_texts)
    grades = {}
    for name, chosen in settings.items():
        free = _judge(free_texts(run, decoder, chosen), usual, world)
        grades[name] = _grade(by_setting[name], plain, free)
    beams = _judge([best_text(run, decoder, BeamSettings(width=5))], usual, world)
    exact = by_setting[PLAIN].assign(total_variation=0.0, impossible=0.0, cut=0.0)
    return {
        **grades,
        BEAMS: DecodingGrade(free=beams),
        GENERATOR: _grade(exact, plain, judge(true_texts[:TEXTS], usual, world)),
    }


@torch.no_grad()
def sums_of_stories(
    model: TinyLM,
    tokenizer: Tokenizer,
    stories: Sequence[ComparedStory],
    settings: Mapping[str, DecodeSettings],
) -> dict[str, pd.DataFrame]:
    """For each setting, a row per story: sums of `grade_words` over its words, and the number of words."""
    device = model.embedding.device
    banned = banned_ids(tokenizer)
    rows: dict[str, list[dict[str, float]]] = {name: [] for name in settings}
    for story in stories:
        ids = torch.as_tensor(story.ids[:-1], device=device)
        logits = model.logits(model.hidden_states(ids[None])[0]).float()
        logits = filters.ban(logits, banned)
        for name, chosen in settings.items():
            drawn = filters.probabilities(logits, chosen).cpu().numpy()
            measures = grade_words(story.truth, drawn)
            sums = {measure: float(values.sum()) for measure, values in measures.items()}
            rows[name].append({**sums, "words": len(drawn)})
    return {name: pd.DataFrame(of_stories) for name, of_stories in rows.items()}


def _grade(sums: pd.DataFrame, plain: pd.Series, free: FreeTexts) -> DecodingGrade:
    """The grade of one setting. sums: a row for each story; plain: their total variation without filters."""
    sums = sums.assign(difference=sums["total_variation"] - plain)
    measures = {}
    for name in ("total_variation", "impossible", "cut", "difference"):
        measures[name] = value_and_interval(sums[[name, "words"]].to_numpy(), pooled_ratio)
    return DecodingGrade(**measures, free=free)


def _judge(texts: Sequence[FreeText], usual: np.ndarray, world: World) -> FreeTexts:
    """Judge the texts of one method. The only text of a method that draws nothing counts TEXTS times."""
    return judge(texts, usual, world, copies=TEXTS // len(texts))


def _decoder(run: TrainedRun) -> Decoder:
    return Decoder(
        model=run.model,
        eos_id=run.tokenizer.eos_id,
        banned=banned_ids(run.tokenizer),
        step=decoding_step(run.model),
    )


def free_texts(run: TrainedRun, decoder: Decoder, settings: DecodeSettings) -> list[FreeText]:
    """TEXTS whole stories that the model writes; one with greedy decoding, which writes no other."""
    count = 1 if settings.temperature == 0.0 else TEXTS
    longest = run.model.settings.context - 1
    texts = generate(decoder, [[SOS_ID]] * count, settings, max_new_tokens=longest)
    return [_read(run, text.ids, text.finished) for text in texts]


def best_text(run: TrainedRun, decoder: Decoder, settings: BeamSettings) -> FreeText:
    """The likeliest story that beam search finds, from an empty prompt."""
    longest = run.model.settings.context - 1
    best = beam_search(decoder, [[SOS_ID]], settings, max_new_tokens=longest)[0][0]
    is_finished = best.ids[-1:] == [run.tokenizer.eos_id]
    return _read(run, best.ids, is_finished)


def _read(run: TrainedRun, ids: Sequence[int], is_finished: bool) -> FreeText:
    assert run.world is not None
    return read_free_text(run.tokenizer.decode(ids), is_finished, run.world)


def text_of(story: ComparedStory) -> FreeText:
    """A story of the generator, which ended it."""
    words = [word for word, _ in story.positions if word != END]
    surprises = [-math.log(following.probs[word]) for word, following in story.positions]
    heroes = (word for word, following in story.positions if chooses_hero(following))
    return FreeText(" ".join(words), surprises, is_mistaken=False, name=next(heroes, None))


def plotted(grades: Mapping[str, DecodingGrade]) -> list[tuple[str, str, float | None]]:
    """plots/decoding.csv: (setting, series, value), without settings that draw no word."""
    rows = []
    for name, grade in grades.items():
        for series, measure in (
            ("total variation", grade.total_variation),
            ("impossible words", grade.impossible),
            ("true words cut away", grade.cut),
        ):
            if measure is not None:
                rows.append((name, series, measure.value))
    return rows
