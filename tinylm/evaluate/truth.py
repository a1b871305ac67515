"""How far the model is from the generator of the stories, and at which words.

The generator of a world, such as the storybook, knows the true distribution p of every next word;
the model gives q. A word w surprises the generator by -ln p(w) nats and the model by -ln q(w). The
difference is the word's excess. Averaged over p, the excess is the divergence KL(p || q), which has no sampling
noise. For example, where the story goes on with "she" or "her" at even odds, and the model gives
them 0.6 and 0.2, the excess of "she" is ln 0.5 - ln 0.6 = -0.18, that of "her" 0.92, and the
divergence is their mean, 0.37; the model's other 0.2 go to impossible words.

`<eos>` is a word like any other. Words that the vocabulary lacks are all `<unk>`, with the sum of
their p; telling them apart costs the generator `unknown_nats`, which no model has to. Generator
and model both treat "a" and "an" as two words.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd
import torch

from tinylm.base import paths
from tinylm.decoding.filters import ban, probabilities
from tinylm.decoding.settings import DecodeSettings
from tinylm.decoding.texts import banned_ids
from tinylm.evaluate.intervals import pooled_ratio
from tinylm.evaluate.scoring import value_and_interval
from tinylm.evaluate.settings import Rows, Tables
from tinylm.evaluate.trained_run import TrainedRun
from tinylm.model.transformer import TinyLM
from tinylm.run.evaluated import Divergence, WordMeasures
from tinylm.run.interval import Interval
from tinylm.storybook.language import END
from tinylm.storybook.truth import NextWords, Truth
from tinylm.storybook.world import World, storybook
from tinylm.text.stories import read_texts
from tinylm.vocab.tokenizer import Tokenizer
from tinylm.vocab.words import SOS_ID, UNK_ID

STORIES = 50  # to compare, which takes some seconds
TOP = 5  # words of each distribution in the table of one story
MIN_PROB = 1e-3  # of a word that `explain` lists
MEASURES = ("true", "model", "kl", "impossible")


def problem_with(tokenizer: Tokenizer, world: World | None = None) -> str:
    """Why this tokenizer's words are not the generator's; "" if they are.

    world: by default the storybook.
    """
    world = world or storybook()
    rule = {"kind": "words", "lower_case": True, "punctuation": "drop"}
    if tokenizer.rule() != rule:
        got = ", ".join(f"{key}: {value}" for key, value in tokenizer.rule().items())
        return f"expected tokenizer kind: words, lower_case: True, punctuation: drop, got {got}"
    words = {tokenizer.word_of(index) for index in range(len(tokenizer))}
    foreign = words - {""} - world.vocabulary()
    if not foreign:
        return ""
    name = "the storybook" if world is storybook() else f"the world {world.name}"
    return f"expected a model of {name}, got one with the word {min(foreign)!r}"


class Position(NamedTuple):
    """A word of a text, and what the generator expected there."""

    word: str
    following: NextWords


def read_words(words: Sequence[str], world: World | None = None) -> list[Position]:
    """The positions of a text up to its first impossible word, or to "" after its last word.

    world: by default the storybook.
    """
    truth = Truth(world)
    positions = []
    for word in words:
        positions.append(Position(word, truth.next_words()))
        if not truth.read(word):
            return positions
    return [*positions, Position("", truth.next_words())]


class TrueTokens(NamedTuple):
    """Possible tokens at T positions of a text: (N,) arrays of position, id, true probability."""

    positions: np.ndarray
    ids: np.ndarray
    probs: np.ndarray


def true_tokens(tokenizer: Tokenizer, positions: Sequence[Position]) -> TrueTokens:
    """The generator's distributions over the tokens of a vocabulary; words outside it count as <unk>."""
    known = {token: index for index, token in enumerate(tokenizer.tokens)}
    probs: dict[tuple[int, int], float] = {}
    for number, position in enumerate(positions):
        for word, prob in position.following.probs.items():
            key = (number, known.get(word, UNK_ID))
            probs[key] = probs.get(key, 0.0) + prob
    numbers, ids = np.array(list(probs)).T
    return TrueTokens(numbers, ids, np.array(list(probs.values())))


@torch.no_grad()
def log_probabilities(model: TinyLM, ids: Sequence[int] | np.ndarray) -> np.ndarray:
    """ln of the model's probability of each token after each prefix of ids (T,).  -> (T, V) float64"""
    row = torch.as_tensor(np.asarray(ids, dtype=np.int64), device=model.embedding.device)
    logits = model.logits(model.hidden_states(row[None])[0])
    return torch.log_softmax(logits.double(), dim=-1).cpu().numpy()


def true_surprise(truth: TrueTokens, targets: np.ndarray) -> np.ndarray:
    """The generator's surprise at each token of a text (T,) in nats; infinite where it is impossible."""
    surprise = np.full(len(targets), np.inf)
    is_target = targets[truth.positions] == truth.ids
    surprise[truth.positions[is_target]] = np.abs(np.log(truth.probs[is_target]))  # never -0.0
    return surprise


def token_measures(
    truth: TrueTokens, model: np.ndarray, targets: np.ndarray
) -> dict[str, np.ndarray]:
    """MEASURES, each (T,), from log-probabilities (T, V) and the tokens of the text (T,).

    true, model: surprise at the text's token in nats, infinite where it is impossible.
    kl: the divergence in nats. impossible: the model's probability of all impossible tokens.
    """
    length = len(targets)
    by_model = model[truth.positions, truth.ids]
    excess = truth.probs * (np.log(truth.probs) - by_model)
    possible = np.bincount(truth.positions, np.exp(by_model), length)
    return {
        "true": true_surprise(truth, targets),
        "model": -model[np.arange(length), targets],
        "kl": np.bincount(truth.positions, excess, length),
        "impossible": np.maximum(1 - possible, 0.0),
    }


class ComparedStory(NamedTuple):
    """An evaluation story: ids from <sos> to <eos>, and the true probabilities at each position."""

    number: int
    ids: np.ndarray
    positions: list[Position]
    truth: TrueTokens

    def table(self, model: TinyLM) -> pd.DataFrame:
        """A row for each word with its kind and MEASURES."""
        log_probs = log_probabilities(model, self.ids[:-1])
        table = _table(self.positions, token_measures(self.truth, log_probs, self.ids[1:]))
        return table.assign(story=self.number, position=range(len(table)))


def _table(positions: Sequence[Position], measures: Mapping[str, np.ndarray]) -> pd.DataFrame:
    words = pd.DataFrame({"word": [position.word for position in positions]})
    return words.assign(kind=[position.following.kind for position in positions], **measures)


class ComparedStories(NamedTuple):
    """The stories on which model and generator are compared; left_out: why there are none."""

    stories: list[ComparedStory]
    left_out: str = ""


def compared_stories(run: TrainedRun) -> ComparedStories:
    """At most STORIES evaluation stories that fit the context, spread evenly over the split."""
    if run.world is None:
        return ComparedStories([], "the stories are not the storybook's")
    tokenizer = run.tokenizer
    if problem := problem_with(tokenizer, run.world):
        return ComparedStories([], problem)
    texts = list(read_texts(paths.STORIES, "evaluation"))
    ids = [np.array(tokenizer.encode_story(text)) for text in texts]
    longest = run.model.settings.context + 1
    fitting = [number for number in range(len(ids)) if len(ids[number]) <= longest]
    spread = np.linspace(0, len(fitting) - 1, min(STORIES, len(fitting))).astype(int)
    stories = []
    for number in [fitting[index] for index in spread]:
        positions = read_words([*tokenizer.split(texts[number]), END], run.world)[:-1]
        truth = true_tokens(tokenizer, positions)
        stories.append(ComparedStory(number, ids[number], positions, truth))
    return ComparedStories(stories, "" if stories else "no story fits the context")


def measure_truth(run: TrainedRun, compared: ComparedStories) -> tuple[Divergence, Tables]:
    """The trained model's divergence from the generator: overall, by kind of word, at each checkpoint.

    In nats per word, with 95 % intervals over stories. Without tables if model and generator cannot
    be compared.
    """
    stories = compared.stories
    if compared.left_out or run.world is None:
        return Divergence(left_out=compared.left_out), {}
    words = pd.concat([story.table(run.model) for story in stories])
    words["excess"] = words["model"] - words["true"]
    first = [word for word, _ in stories[0].positions]
    shown = explain(run.model, run.tokenizer, first, world=run.world)
    shown = shown[shown["word"] != ""].copy()  # what comes after the story is not shown
    for name in ("true_next", "model_next"):
        shown[name] = shown[name].map(list_top_words)
    tables = {
        "truth": words,
        "truth_story": shown,
        "truth_training": _over_training(run, stories, words, run.world.meaning),
    }
    return _divergence(run, stories, words, run.world.meaning), tables


def _divergence(
    run: TrainedRun,
    stories: Sequence[ComparedStory],
    words: pd.DataFrame,
    kinds: Iterable[str],
) -> Divergence:
    """The divergence over all words, and the part of each kind of word."""
    of_words = [np.log(nexts.probs[word]) for story in stories for word, nexts in story.positions]
    unknown = round(float(-sum(of_words) - words["true"].sum()), 9)
    return Divergence(
        stories=len(stories),
        unknown_nats=unknown,
        **vars(_measures(words, words)),
        unseen_mass=run.ngrams.unseen_mass,
        kinds={kind: _measures(words[words["kind"] == kind], words) for kind in kinds},
    )


def _measures(selected: pd.DataFrame, words: pd.DataFrame) -> WordMeasures:
    """Sums over the selected words, divided by the number of all words."""
    sums = selected.groupby("story")[["true", "model", "excess", "kl", "impossible"]].sum()
    stories = words.groupby("story").size()
    sums = sums.reindex(stories.index, fill_value=0.0)
    measures: dict[str, Interval] = {}
    for name, column in sums.items():
        values = np.column_stack([column, stories])
        measures[str(name)] = value_and_interval(values, pooled_ratio)
    return WordMeasures(words=len(selected), **measures)


def _over_training(
    run: TrainedRun,
    stories: Sequence[ComparedStory],
    saved: pd.DataFrame,
    kinds: Iterable[str],
) -> Rows:
    """Each kind's part of the divergence per word, at each checkpoint and of the saved weights.

    saved: the words of these. tokens: scored in training so far, each as often as the layout scores
    it; rows are in this order, so checkpoints after the best weights follow them.
    """
    tokens_per_epoch = round(run.tokens / run.epochs)
    by_tokens = {}
    for epochs, model in run.checkpoints:
        seen = min(round(epochs * tokens_per_epoch), run.tokens)
        by_tokens[seen] = pd.concat([story.table(model) for story in stories])
    by_tokens[run.saved_tokens] = saved  # a checkpoint after as many tokens has the same weights
    rows = []
    for seen in sorted(by_tokens):
        words = by_tokens[seen]
        sums = words.groupby("kind")["kl"].sum() / len(words)
        for kind in kinds:
            kl = float(sums.get(kind, 0.0))
            rows.append({"tokens": seen, "series": kind, "value": kl})
    return rows


def explain(
    model: TinyLM,
    tokenizer: Tokenizer,
    words: Sequence[str],
    decode: DecodeSettings | None = None,
    world: World | None = None,
) -> pd.DataFrame:
    """What the generator and the model expected at each word of a text, and after its last word ("").

    Ends at the first impossible word, or when the context is full. Columns: word, kind, MEASURES
    (see `token_measures`; true, model: nan after the last word); true_next, model_next: {word: p},
    p falling to MIN_PROB. world: by default the storybook.
    decode: adds drawn_next, the words that these settings sample from (without a repetition
    penalty), and possible and drawn, how many words generator and settings leave.
    """
    positions = read_words(words, world)[: model.settings.context]
    known = {token: index for index, token in enumerate(tokenizer.tokens)}
    ids = [SOS_ID, *(known.get(word, UNK_ID) for word in words)]
    targets = np.array([*ids[1:], tokenizer.pad_id])[: len(positions)]
    log_probs = log_probabilities(model, ids[: len(positions)])
    table = _table(positions, token_measures(true_tokens(tokenizer, positions), log_probs, targets))
    table.loc[table["word"] == "", ["true", "model"]] = np.nan
    true_next = [_likeliest(following.probs) for _, following in positions]
    table = table.assign(
        true_next=pd.Series(true_next), model_next=_next_words(tokenizer, np.exp(log_probs))
    )
    if decode is None:
        return table
    logits = ban(torch.as_tensor(log_probs), banned_ids(tokenizer))
    drawn = probabilities(logits, decode).numpy()
    return table.assign(
        drawn_next=_next_words(tokenizer, drawn),
        possible=[len(following.probs) for _, following in positions],
        drawn=(drawn > 0).sum(1),
    )


def _next_words(tokenizer: Tokenizer, probs: np.ndarray) -> pd.Series:
    """The likely words of each row of probabilities (T, V), as `explain` lists them."""
    rows = [_likeliest(dict(zip(tokenizer.tokens, row))) for row in probs.tolist()]
    return pd.Series(rows)


def _likeliest(probs: Mapping[str, float]) -> dict[str, float]:
    ordered = sorted(probs, key=probs.__getitem__, reverse=True)
    return {word: probs[word] for word in ordered if probs[word] >= MIN_PROB}


def list_top_words(probs: Mapping[str, float]) -> str:
    """The first TOP words with their probabilities, as in "boy 0.52, girl 0.48".

    Words that would be shown as 0.00 are left out.
    """
    shown = [f"{word} {prob:.2f}" for word, prob in list(probs.items())[:TOP]]
    return ", ".join(text for text in shown if not text.endswith(" 0.00"))
