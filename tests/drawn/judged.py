"""Properties of the measurements that compare the model with the generator: divergence, decoding and texts, each computed again.

Formulas that other tests compare with independent ones (the generator's probabilities, the filters of decoding, the bootstrap)
are given here what they should be given: logits of the plain model in float64.
"""

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch

from tests.drawn.drawing import DrawnRun
from tests.drawn.measured import (
    FIVE_DECIMALS,
    banned,
    differs_interval,
    interval_of,
    shaken_copy,
    shaken_models,
)
from tests.drawn.plain_files import ROUNDINGS, Run, differs
from tests.drawn.plain_model import PlainModel, Weights
from tests.drawn.properties import holds
from tests.drawn.rounding import MORE_SHAKEN
from tests.drawn.trained import SIX_DIGITS, asked_checkpoints
from tinylm.base.config import read_section
from tinylm.decoding.beam_search import beam_search
from tinylm.decoding.decoder import Decoder
from tinylm.decoding.filters import ban, probabilities
from tinylm.decoding.sampling import generate
from tinylm.decoding.settings import BeamSettings, DecodeSettings
from tinylm.evaluate.free_texts import FreeText, judge, read_free_text
from tinylm.evaluate.graded_decoding import text_of
from tinylm.evaluate.intervals import pooled_ratio
from tinylm.evaluate.truth import STORIES, ComparedStory, problem_with, read_words, true_tokens
from tinylm.kernels.decoding.step import decoding_step
from tinylm.model.checkpoint import load_model
from tinylm.model.transformer import TinyLM
from tinylm.run.evaluated import GENERATOR
from tinylm.run.result_files import to_mapping
from tinylm.storybook.language import END
from tinylm.storybook.truth import Truth
from tinylm.storybook.world import World

TWO_DECIMALS = 5.1e-3  # half of the last digit of a probability in truth_story.csv, and rounding
TOP = 5  # words that truth_story.csv lists of each distribution
LEAST_SHOWN = 0.005  # the least probability that two decimals show
MEASURES = ("true", "model", "excess", "kl", "impossible")
GRADES = ("total_variation", "impossible", "cut")
OWN, PLAIN, BEAMS = "section decode", "temperature 1", "5 beams"
# The settings that are graded besides section decode.
GRADED: dict[str, dict[str, Any]] = {
    PLAIN: {},
    "temperature 0.8": {"temperature": 0.8},
    "temperature 0.8, top-k 50": {"temperature": 0.8, "top_k": 50},
    "top-p 0.9": {"top_p": 0.9},
    "min-p 0.1": {"min_p": 0.1},
    "eta 0.1": {"eta": 0.1},
    "greedy": {"temperature": 0.0},
}
TEXTS = 20  # that the model writes with each setting


def compared_stories(run: Run) -> list[ComparedStory]:
    """Evaluation stories that fit the context, spread evenly; none if the generator cannot judge the texts."""
    tokenizer = run.tokenizer
    if run.world is None or problem_with(tokenizer, run.world):
        return []
    texts = run.texts("evaluation")
    encoded = [tokenizer.encode_story(text) for text in texts]
    fitting = [n for n, ids in enumerate(encoded) if len(ids) <= run.context + 1]
    if not fitting:
        return []
    spread = np.linspace(0, len(fitting) - 1, min(STORIES, len(fitting))).astype(int)
    stories = []
    for number in (fitting[place] for place in spread):
        positions = read_words([*tokenizer.split(texts[number]), END], run.world)[:-1]
        ids = np.array(encoded[number])
        stories.append(ComparedStory(number, ids, positions, true_tokens(tokenizer, positions)))
    return stories


def words_per_error(means: np.ndarray) -> np.ndarray:
    """Words per error, from the mean numbers of words read and of errors."""
    return means[..., 0] / np.maximum(means[..., 1], 1e-9)


def wilson(count: int, of: int) -> dict[str, float]:
    """A share with the ends p of its 95 % interval, where |share - p| = 1.96 sqrt(p (1 - p) / of)."""
    share = count / of
    z = 1.96**2
    low, high = np.roots([1 + z / of, -(2 * share + z / of), share**2])[::-1].real
    return {"value": share, "low": max(min(low, high), 0), "high": min(max(low, high), 1)}


class Mistake(NamedTuple):
    """A word that the generator cannot write there, its kind of choice, and at most five words that it can."""

    word: str
    kind: str
    instead: str


def judged_plainly(
    prompt: str, written: str, has_ended: bool, world: World, has_pieces: bool
) -> tuple[int, Mistake | None] | None:
    """(words read of a continuation up to its first mistake, that mistake or None); None for a wrong prompt.

    The words of the whole text are read one by one. Those at the start of both, prompt and text, are the
    prompt's. A continuation ends before an <unk>. has_pieces: tokens may be parts of words.
    """
    written, unknown, _ = written.partition("<unk>")
    has_ended = has_ended and not unknown
    text = prompt + ("" if has_pieces else " ") + written
    words = world.normalise(text).split()
    if has_pieces and not has_ended and text.rstrip() == text:
        words = words[:-1]  # perhaps the rest of the last word was not written any more
    of_prompt = world.normalise(prompt).split()
    shared = 0
    while shared < min(len(words), len(of_prompt)) and words[shared] == of_prompt[shared]:
        shared += 1
    truth = Truth(world)
    for place, word in enumerate([*words, END] if has_ended else words):
        following = truth.next_words()
        if following.probs.get(word, 0) == 0:
            # A prompt may end inside a word, which the continuation broke off.
            is_broken = has_pieces and place + 1 == shared == len(of_prompt)
            if is_broken and any(possible.startswith(word) for possible in following.probs):
                shared -= 1
            if place < shared:
                return None
            likeliest = sorted(following.probs, key=lambda other: -following.probs[other])
            return place - shared + 1, Mistake(word, following.kind, ", ".join(likeliest[:TOP]))
        truth.read(word)
    return max(len(words) - shared, 0), None


@holds("measured")
def samples_are_judged_by_the_generator(drawn: DrawnRun, folder: Path) -> None:
    """Which samples the generator could have written, and where the others have their first impossible word."""
    run = Run(folder)
    figures = run.json("data/figures/evaluate")
    is_judged = run.world is not None and run.params["evaluate"]["prompts"] == "starts"
    assert ("sense" in figures) == is_judged, f"sense: {figures.get('sense')}"
    if not is_judged:
        return
    read = []
    pieces = run.params["vocab"]["tokenizer"] != "words"
    for row in run.table("data/evaluate/samples").to_dict("records"):
        read.append(
            judged_plainly(row["prompt"], row["continuation"], row["finished"], run.world, pieces)
        )
    known = [found for found in read if found is not None]
    errors = [error for _, error in known if error is not None]
    sense = figures["sense"]
    assert sense["texts"] == len(known), f"sense.texts: {sense['texts']}, not {len(known)}"
    kinds = Counter(error.kind for error in errors)
    counted = {kind: kinds[kind] for kind in run.world.meaning}
    assert sense["kinds"] == counted, f"sense.kinds: expected {counted}, got {sense['kinds']}"
    if known:
        wanted = wilson(len(known) - len(errors), len(known))
        problem = differs_interval("sense.possible", sense["possible"], wanted, 1e-6)
        assert not problem, problem
    assert (sense["words"] is not None) == bool(errors), f"sense.words: {sense['words']}"
    if errors:
        pairs = [(number, error is not None) for number, error in known]
        wanted = interval_of(pairs, words_per_error)
        problem = differs_interval("sense.words", sense["words"], wanted, 1e-6)
        assert not problem, problem
    rows = []
    for number, found in enumerate(read):
        if found is not None and found[1] is not None:
            rows.append({"sample": number, **found[1]._asdict()})
    got = run.table("data/evaluate/sense").to_dict("records")
    assert got == rows, f"sense.csv: expected {rows}, got {got}"


def divergences(
    run: Run, weights: Weights, stories: Sequence[ComparedStory]
) -> tuple[list[dict[str, Any]], float]:
    """(a row for each word, by how much a run's may differ)"""
    rows = []
    tolerance = 1e-6
    for story in stories:
        truth = story.truth
        tokens = torch.from_numpy(story.ids[None, :-1])
        log_probs = PlainModel(weights, run.params["model"])(tokens)[0].log_softmax(-1).detach()
        rough = PlainModel(weights, run.params["model"], torch.float32)(tokens)[0].log_softmax(-1)
        error = float((rough - log_probs).abs().max())
        error = math.inf if math.isnan(error) else error
        tolerance = max(tolerance, ROUNDINGS * error + 1e-6 * float(log_probs.abs().max()))
        for place, position in enumerate(story.positions):
            here = truth.positions == place
            true = truth.probs[here]
            model = log_probs[place].numpy()[truth.ids[here]]
            target = int(story.ids[place + 1])
            row = {"story": story.number, "position": place, "word": position.word}
            row["kind"] = position.following.kind
            row["model"] = -float(log_probs[place, target])
            row["true"] = -math.log(true[truth.ids[here] == target][0])
            row["excess"] = row["model"] - row["true"]
            row["kl"] = float((true * (np.log(true) - model)).sum())
            row["impossible"] = max(1 - float(np.exp(model).sum()), 0.0)
            rows.append(row)
    return rows, tolerance


def sums_by_kind(rows: list[dict[str, Any]]) -> dict[str, float]:
    """Each kind's part of the divergence per word."""
    sums: dict[str, float] = {}
    for row in rows:
        sums[row["kind"]] = sums.get(row["kind"], 0.0) + row["kl"] / len(rows)
    return sums


def check_measures(
    name: str, found: Any, kind: str | None, rows: list[dict[str, Any]], tolerance: float
) -> None:
    """Sums over the words of a kind (None: of all), divided by the number of all words, with intervals over stories."""
    of_kind = [row for row in rows if kind in (None, row["kind"])]
    assert found["words"] == len(of_kind), f"{name}: {found['words']} words, not {len(of_kind)}"
    words = Counter(row["story"] for row in rows)
    for measure in MEASURES:
        sums = dict.fromkeys(words, 0.0)
        for row in of_kind:
            sums[row["story"]] += row[measure]
        wanted = interval_of(
            np.column_stack([list(sums.values()), list(words.values())]), pooled_ratio
        )
        problem = differs_interval(f"{name}.{measure}", found[measure], wanted, tolerance)
        assert not problem, problem


@holds("measured")
def the_divergence_is_that_of_the_generator_and_the_weights(drawn: DrawnRun, folder: Path) -> None:
    """truth.csv, its sums by kind of word, and plots/truth.csv over the checkpoints, against the tokens seen."""
    run = Run(folder)
    found = run.json("data/figures/evaluate")["truth"]
    stories = compared_stories(run)
    plotted = run.table("plots/truth")
    if not stories:
        assert set(found) == {"left_out"}, f"truth: {sorted(found)}"
        assert not len(plotted), "plots/truth.csv has rows"
        return
    table = run.table("data/evaluate/truth")
    rows, tolerance = divergences(run, run.weights(), stories)
    for column in ("story", "position", "word", "kind"):
        assert table[column].tolist() == [row[column] for row in rows], f"truth.csv: {column}"
    for column in MEASURES:
        wanted = [row[column] for row in rows]
        problem = differs(
            f"truth.csv: {column}", table[column], wanted, 1e-6, tolerance + FIVE_DECIMALS
        )
        assert not problem, problem
    check_first_story(run, stories[0], rows, tolerance)
    assert found["stories"] == len(stories)
    check_measures("truth", found, None, rows, tolerance)
    assert list(found["kinds"]) == list(run.world.meaning), f"kinds: {list(found['kinds'])}"
    for kind, measures in found["kinds"].items():
        check_measures(f"truth.kinds.{kind}", measures, kind, rows, tolerance)
    problem = differs("unseen_mass", found["unseen_mass"], share_of_single_ngrams(run), 1e-6)
    assert not problem, problem
    of_words = [nexts.probs[word] for story in stories for word, nexts in story.positions]
    of_unknown = -np.log(of_words).sum() - sum(row["true"] for row in rows)
    problem = differs("unknown_nats", found["unknown_nats"], of_unknown, 0, 1e-6)
    assert not problem, problem
    check_checkpoints(run, stories, plotted, tolerance)


def check_first_story(
    run: Run, story: ComparedStory, rows: list[dict[str, Any]], tolerance: float
) -> None:
    """truth_story.csv: the rows of the first story, and the words that generator and model expected there."""
    table = run.table("data/evaluate/truth_story")
    rows = [row for row in rows if row["story"] == story.number]
    for column in ("word", "kind"):
        assert table[column].tolist() == [row[column] for row in rows], f"truth_story.csv: {column}"
    for column in ("true", "model", "kl", "impossible"):
        wanted = [row[column] for row in rows]
        allowed = tolerance + FIVE_DECIMALS
        problem = differs(f"truth_story.csv: {column}", table[column], wanted, 1e-6, allowed)
        assert not problem, problem
    plain = PlainModel(run.weights(), run.params["model"])
    probs = plain(torch.from_numpy(story.ids[None, :-1]))[0].softmax(-1).detach()
    ids = {token: index for index, token in enumerate(run.tokenizer.tokens)}
    for place, row in enumerate(table.to_dict("records")):
        following = story.positions[place].following.probs
        by_model = {word: float(probs[place, index]) for word, index in ids.items()}
        check_top_words(f"true_next {place}", row["true_next"], following, TWO_DECIMALS)
        check_top_words(
            f"model_next {place}", row["model_next"], by_model, TWO_DECIMALS + tolerance
        )


def check_top_words(name: str, shown: str, probs: Mapping[str, float], allowed: float) -> None:
    """The likeliest words with their probabilities, as many of five as are likely enough to be shown."""
    listed = top_words(shown)
    wanted = sorted(probs.values(), reverse=True)[:TOP]
    likely = [prob for prob in wanted if prob >= LEAST_SHOWN]
    doubtful = [prob for prob in wanted if abs(prob - LEAST_SHOWN) < allowed]
    is_complete = abs(len(listed) - len(likely)) <= len(doubtful)
    assert is_complete, f"{name}: {shown!r}, likeliest {wanted}"
    of_listed = [prob for _, prob in listed]
    problem = differs(name, of_listed, [probs[word] for word, _ in listed], 0, allowed)
    assert not problem, problem
    problem = differs(f"{name}: falling", of_listed, wanted[: len(listed)], 0, allowed)
    assert not problem, problem


def top_words(shown: str) -> list[tuple[str, float]]:
    """The words and probabilities of a text such as "boy 0.52, girl 0.48"."""
    pairs = [pair.rpartition(" ") for pair in shown.split(", ")] if shown else []
    return [(word, float(prob)) for word, _, prob in pairs]


def check_checkpoints(
    run: Run, stories: Sequence[ComparedStory], plotted: Any, tolerance: float
) -> None:
    """plots/truth.csv: each kind's part of the divergence at each checkpoint and of the saved weights, by tokens."""
    places = []
    # Tokens of all updates; an update that would exceed the budget is skipped.
    figures = run.json("data/figures/train")
    end = saved = figures["tokens"]
    if run.params["train"]["patience"] is not None:
        updates, tokens, _ = run.curve("loss", "held-out").T
        saved = int(tokens[updates == figures["best_update"]][0])
    for name in sorted(asked_checkpoints(run), key=float):
        if (run.folder / f"models/checkpoints/{name}.safetensors").exists():
            tokens = round(float(name) * run.tokens_per_epoch)
            places.append((f"checkpoints/{name}", min(tokens, end)))
    places.append(("model", saved))
    expected: dict[int, dict[str, float]] = {}
    for name, tokens in places:
        rows, error = divergences(run, run.weights(f"models/{name}"), stories)
        tolerance = max(tolerance, error)
        sums = sums_by_kind(rows)
        # A checkpoint after as many tokens as the model has the same weights.
        got = list(expected.setdefault(tokens, sums).values())
        problem = differs(f"{name}, {tokens} tokens", got, list(sums.values()), 0, tolerance)
        assert not problem, problem
    got = list(zip(plotted["tokens"].tolist(), plotted["series"].tolist(), strict=True))
    wanted = [(tokens, kind) for tokens in sorted(expected) for kind in run.world.meaning]
    assert got == wanted, f"plots/truth.csv: expected {wanted}, got {got}"
    in_report = run.table("data/evaluate/truth_training")
    for column in ("tokens", "series"):
        assert in_report[column].tolist() == plotted[column].tolist(), f"truth_training: {column}"
    got, wanted = in_report["value"], plotted["value"]
    problem = differs("truth_training.csv", got, wanted, SIX_DIGITS, FIVE_DECIMALS)
    assert not problem, problem
    for row in plotted.to_dict("records"):
        wanted = expected[row["tokens"]].get(row["series"], 0.0)
        problem = differs(f"plots/truth.csv: {row}", row["value"], wanted, SIX_DIGITS, tolerance)
        assert not problem, problem


def share_of_single_ngrams(run: Run, order: int = 5) -> float:
    """Of the occurrences of all n-grams in the train split: Good and Turing's estimate for new text."""
    sequences = run.stories("train") if run.layout == "stories" else [run.ids("train").tolist()]
    counts: Counter[tuple[int, ...]] = Counter()
    for sequence in sequences:
        counts.update(zip(*(sequence[start:] for start in range(order)), strict=False))
    return list(counts.values()).count(1) / max(counts.total(), 1)


def graded_settings(run: Run) -> dict[str, DecodeSettings]:
    """Section decode without its penalty, and those of GRADED that are not equal to it; PLAIN in any case."""
    decode = read_section(run.params, "decode", DecodeSettings, "params.yaml")
    own = DecodeSettings(**vars(decode) | {"repetition_penalty": 1.0, "repetition_window": None})
    settings = {OWN: own}
    for name, changes in GRADED.items():
        graded = DecodeSettings(**changes, seed=decode.seed)
        if graded != own or name == PLAIN:
            settings[name] = graded
    return settings


@torch.no_grad()
def sums_of_grades(
    run: Run, model: Any, stories: Sequence[ComparedStory], settings: DecodeSettings
) -> np.ndarray:
    """Sums over the words of each story of what GRADES names.  -> (stories, 3)"""
    sums = np.zeros((len(stories), len(GRADES)))
    for story, row in zip(stories, sums, strict=True):
        logits = model(torch.from_numpy(story.ids[None, :-1]))[0]
        chosen = probabilities(ban(logits, banned(run)), settings).numpy()
        true = np.zeros_like(chosen)
        true[story.truth.positions, story.truth.ids] = story.truth.probs
        row[0] = np.abs(true - chosen).sum() / 2
        row[1] = chosen[true == 0].sum()
        row[2] = true[chosen == 0].sum()
    return sums


@holds("measured")
def decoding_is_graded_by_the_generator_and_the_weights(drawn: DrawnRun, folder: Path) -> None:
    """What each setting makes possible and impossible at each word, and how it differs from plain sampling."""
    run = Run(folder)
    figures = run.json("data/figures/evaluate")
    grades = figures.get("decoding")
    assert (grades is None) == ("left_out" in figures["truth"]), f"decoding: {grades}"
    if grades is None:
        return
    stories = compared_stories(run)
    settings = graded_settings(run)
    assert list(grades) == [*settings, BEAMS, GENERATOR], f"decoding: {list(grades)}"
    words = np.array([len(story.positions) for story in stories])
    weights = run.weights()
    exact = PlainModel(weights, run.params["model"])
    rough = PlainModel(weights, run.params["model"], torch.float32)
    plain = sums_of_grades(run, exact, stories, settings[PLAIN])[:, 0]
    plain_error = np.abs(sums_of_grades(run, rough, stories, settings[PLAIN])[:, 0] - plain)
    allowed = 1e-6 + ROUNDINGS * float((plain_error / words).max())
    for name, chosen in settings.items():
        # A filter may keep or drop a word by rounding: then the grade is near that of a model with other rounding.
        for model in (exact, rough, *shaken_models(weights, run.params["model"])):
            sums = sums_of_grades(run, model, stories, chosen)
            problem = grade_differs(name, grades[name], sums, plain, words, allowed)
            if not problem:
                break
        assert not problem, problem
        apart, wrong, cut = (grades[name][measure]["value"] for measure in GRADES)
        assert max(cut, wrong) <= apart + 1e-9, f"decoding, {name}: {grades[name]}"
    assert set(grades[BEAMS]) == {"free"}, f"{BEAMS}: {grades[BEAMS]}"
    nothing = np.zeros((len(stories), len(GRADES)))
    problem = grade_differs(GENERATOR, grades[GENERATOR], nothing, plain, words, allowed)
    assert not problem, problem


def grade_differs(
    name: str, grade: Any, sums: np.ndarray, plain: np.ndarray, words: np.ndarray, allowed: float
) -> str:
    """A sentence if a grade is not that of these sums, (stories, 3); plain: total variation of plain sampling."""
    by_measure = dict(zip(GRADES, sums.T, strict=True)) | {"difference": sums[:, 0] - plain}
    for measure, values in by_measure.items():
        wanted = interval_of(np.column_stack([values, words]), pooled_ratio)
        if problem := differs_interval(f"{name}: {measure}", grade[measure], wanted, allowed):
            return problem
    return ""


@holds("measured")
def the_texts_of_each_setting_are_judged_by_the_generator(drawn: DrawnRun, folder: Path) -> None:
    """Whole stories from an empty prompt: mistakes, surprise against the generator's own stories, heroes and variety."""
    run = Run(folder)
    grades = run.json("data/figures/evaluate").get("decoding")
    if grades is None:
        return
    stories = [text_of(story) for story in compared_stories(run)]
    longest = max(len(story.surprises) for story in stories)
    usual = []
    for place in range(longest):
        usual.append(np.mean([s.surprises[place] for s in stories if len(s.surprises) > place]))
    model, _ = load_model(folder / "models")
    generator = torch.Generator().manual_seed(0)
    found = {name: grade["free"] for name, grade in grades.items()}
    of_generator = to_mapping(judge(stories[:TEXTS], np.array(usual), run.world))
    assert not is_other(found[GENERATOR], of_generator), (
        f"{GENERATOR}: expected {of_generator}, got {found[GENERATOR]}"
    )
    expected = dict(texts_of_settings(run, model, usual))
    assert set(found) == {*expected, GENERATOR}
    left = {name for name, free in expected.items() if is_other(found[name], free)}
    for _ in range(MORE_SHAKEN):  # rounding may decide between two equally likely tokens
        if not left:
            break
        for name, free in texts_of_settings(run, shaken_copy(model, generator), usual):
            if not is_other(found[name], free):
                left.discard(name)
    for name in left:
        raise AssertionError(f"{name}: expected {expected[name]}, got {found[name]}")


def is_other(found: Any, wanted: Any) -> bool:
    """Whether the figures of some texts differ by more than rounding."""
    if set(found) != set(wanted):
        return True
    for name, value in wanted.items():
        if isinstance(value, dict) != isinstance(found[name], dict):
            return True
        compare = differs_interval if isinstance(value, dict) else differs
        if compare(name, found[name], value, 1e-6):
            return True
    return False


def texts_of_settings(
    run: Run, model: TinyLM, usual: Sequence[float]
) -> Iterator[tuple[str, dict[str, Any]]]:
    """(name, figures of its texts) of each setting and of beam search; greedy decoding writes one text."""
    tokenizer = run.tokenizer
    decoder = Decoder(
        model=model,
        eos_id=tokenizer.eos_id,
        banned=banned(run),
        step=decoding_step(model),
    )
    longest = run.context - 1

    def read(ids: Sequence[int]) -> FreeText:
        is_finished = list(ids[-1:]) == [tokenizer.eos_id]
        return read_free_text(tokenizer.decode(ids), is_finished, run.world)

    def figures(texts: list[FreeText]) -> dict[str, Any]:
        judged = judge(texts, np.array(usual), run.world, copies=TEXTS // len(texts))
        found: dict[str, Any] = to_mapping(judged)
        return found

    for name, chosen in graded_settings(run).items():
        count = 1 if chosen.temperature == 0 else TEXTS
        texts = generate(decoder, [[tokenizer.sos_id]] * count, chosen, max_new_tokens=longest)
        yield name, figures([read(text.ids) for text in texts])
    settings = BeamSettings(width=5)
    best = beam_search(decoder, [[tokenizer.sos_id]], settings, max_new_tokens=longest)[0][0]
    yield BEAMS, figures([read(best.ids)])
