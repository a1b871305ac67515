"""Properties of stage evaluate and of the seeds: every figure and table is computed a second time.

Formulas that other tests compare with independent ones (BLEU, Kneser-Ney, the bootstrap, roles of heads, the generator's
probabilities) are given here what they should be given: the losses and attention of the plain model in float64.
"""

import copy
import math
from collections.abc import Callable, Sequence
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import torch

from tests.drawn.drawing import DrawnRun
from tests.drawn.plain_files import ROUNDINGS, Run, differs
from tests.drawn.plain_model import PlainModel, Weights, attention_weights
from tests.drawn.properties import holds
from tests.drawn.rounding import FACTOR, FP32, MORE_SHAKEN, SHAKEN, ShakenModel
from tests.drawn.trained import MOST_NATS, SIX_DIGITS
from tinylm.base.config import read_section
from tinylm.base.seeding import derive_seed
from tinylm.decoding.decoder import Decoder
from tinylm.decoding.sampling import Generation, generate
from tinylm.decoding.settings import DecodeSettings
from tinylm.evaluate.head_roles import HeadRoles
from tinylm.evaluate.intervals import mean, merge_repeats, pooled_ratio
from tinylm.evaluate.memorised import nearest_story
from tinylm.evaluate.ngram import KneserNey
from tinylm.evaluate.scoring import value_and_interval
from tinylm.evaluate.settings import RESAMPLES, SEED
from tinylm.model.checkpoint import load_model
from tinylm.model.transformer import TinyLM
from tinylm.run.interval import MIN_TEXTS, student_critical_value
from tinylm.run.result_files import to_mapping
from tinylm.run.role_pairs import role_pairs
from tinylm.text.bleu import Bleu, bleu_of
from tinylm.text.words import Splitter, spaced
from tinylm.vocab.tokenizer import Tokenizer

FIVE_DECIMALS = 6e-6  # half of the last digit in data/evaluate/*.csv, and rounding
ENDS = ("value", "low", "high")
LEAST_GAIN = 0.02  # of the low end of a role's gain; nearer to 0, rounding may decide whether it is significant


class Losses:
    """Of a split in a layout. nats, tolerance: of each row's targets. rows, stories (n, 2): nats and tokens."""

    def __init__(self, run: Run, weights: Weights, split: str, layout: str) -> None:
        ids = run.ids(split)
        spans = run.rows(split, layout)
        nats, tolerance = run.nats_of_rows(
            weights, [ids[first : first + size + 1] for first, size in spans]
        )
        self.rows = np.array([(values.sum(), len(values)) for values in nats])
        self.tolerance = float(np.concatenate(tolerance).max())
        of_ids = np.zeros((len(ids), 2))
        for (first, size), values in zip(spans, nats, strict=True):
            of_ids[first + 1 : first + size + 1] += np.column_stack([values, np.ones(size)])
        borders = run.offsets(split)
        self.stories = np.array([of_ids[a:b].sum(0) for a, b in pairwise(borders)])

    def metrics(self, texts: Sequence[str], block: int) -> dict[str, Any]:
        """With the logarithms of the perplexity and of its interval."""
        nats, tokens = self.rows.sum(0)
        units = merge_repeats(self.stories, texts)
        if len(units) < MIN_TEXTS:
            units = np.add.reduceat(self.rows, np.arange(0, len(self.rows), block))
        interval = interval_of_logarithm(units)
        return {
            "loss": nats / tokens,
            "tokens": tokens,
            "ends": [interval["low"], interval["high"]],
        }


def interval_of(*arguments: Any) -> dict[str, float]:
    """The result of `value_and_interval`, as the files store it."""
    return to_mapping(value_and_interval(*arguments))


def interval_of_logarithm(nats_and_tokens: Any) -> dict[str, float]:
    """The logarithms of the perplexity of all texts and of the ends of its interval.

    The ends are interpolated between perplexities. With few texts, interpolating between logarithms gives other numbers.
    """

    def perplexity(means: np.ndarray) -> np.ndarray:
        return np.exp(pooled_ratio(means).clip(max=MOST_NATS))

    interval = interval_of(nats_and_tokens, perplexity)
    return {end: math.log(value) for end, value in interval.items()}


def logarithm(perplexity: Any) -> np.ndarray:
    """Nats per token; a perplexity that no float holds, null in JSON, counts as the largest one."""
    values = np.array(perplexity, dtype=float)
    values[np.isnan(values)] = np.inf
    with np.errstate(divide="ignore"):
        return np.log(values).clip(max=MOST_NATS)


def check_loss(name: str, got: dict[str, Any], wanted: dict[str, Any], tolerance: float) -> None:
    """Loss, perplexity, interval and tokens of a split."""
    assert got["tokens"] == wanted["tokens"], (
        f"{name}: {got['tokens']} tokens, not {wanted['tokens']}"
    )
    loss = [got["nats_per_token"], logarithm(got["perplexity"])]
    expected = [wanted["loss"], min(wanted["loss"], MOST_NATS)]
    problem = differs(f"{name}: loss, ln perplexity", loss, expected, 1e-6, tolerance)
    assert not problem, problem
    ends = np.array(wanted["ends"]).clip(max=MOST_NATS)
    problem = differs(
        f"{name}: ln perplexity_interval",
        logarithm(got["perplexity_interval"]),
        ends,
        1e-6,
        tolerance,
    )
    assert not problem, problem


def names_of_texts(run: Run) -> list[str]:
    """What tells evaluation texts apart; pieces of the stream are decoded."""
    texts = run.texts("evaluation")
    return texts or [run.tokenizer.decode(story) for story in run.stories("evaluation")]


@holds("measured")
def the_evaluation_split_is_scored_by_the_saved_weights(drawn: DrawnRun, folder: Path) -> None:
    """Perplexity, interval, bits per byte and unknown words of the split; and every row of stories.csv."""
    run = Run(folder)
    figures = run.json("data/figures/evaluate")
    texts = names_of_texts(run)
    losses = once = Losses(run, run.weights(), "evaluation", run.layout)
    is_windows = run.layout == "windows"
    wanted = losses.metrics(texts, run.context if is_windows else 1)
    check_loss("evaluate.json", figures, wanted, losses.tolerance)
    if is_windows:
        once = Losses(run, run.weights(), "evaluation", "stream")
        check_loss("evaluate.json, once", figures["once"], once.metrics(texts, 1), once.tolerance)
    counted = [figures["stories"], figures["different_stories"]]
    assert counted == [len(texts), len(set(texts))], f"stories: {counted}"
    assert figures["unknown_share"] == run.json("data/figures/vocab")["unknown_share"]["evaluation"]

    own = run.texts("evaluation")
    sizes = [len(text.encode()) for text in own] or [0] * len(texts)
    tokenizer = run.tokenizer
    is_lossless = bool(own) and tokenizer.lossless
    is_lossless = is_lossless and all(tokenizer.normalise(text) == text for text in own)
    bits = once.stories[:, 0] / math.log(2)
    found = figures["raw_bits_per_byte"]
    assert (found is not None) == is_lossless, f"raw_bits_per_byte: {found}, lossless {is_lossless}"
    assert figures["raw_bytes"] == sum(sizes), (
        f"raw_bytes: {figures['raw_bytes']}, not {sum(sizes)}"
    )
    allowed = once.tolerance * once.stories[:, 1]
    if is_lossless:
        problem = differs(
            "raw_bits_per_byte", found, bits.sum() / sum(sizes), 1e-6, 2 * allowed.max()
        )
        assert not problem, problem

    table = run.table("data/evaluate/stories")
    assert table["story"].tolist() == list(range(len(texts)))
    assert table["tokens"].tolist() == losses.stories[:, 1].tolist(), "stories.csv: tokens"
    allowed = losses.tolerance * losses.stories[:, 1] + FIVE_DECIMALS
    problem = differs("stories.csv: nats", table["nats"], losses.stories[:, 0], 1e-6, allowed)
    assert not problem, problem
    assert table["raw_bytes"].tolist() == sizes, "stories.csv: raw_bytes"
    if is_lossless:
        problem = differs("stories.csv: raw_bits", table["raw_bits"], bits, 1e-6, 2 * allowed)
        assert not problem, problem
    stories = [tuple(story) for story in run.stories("evaluation")]
    for column, values in (("text_id", texts), ("tokens_id", stories)):
        pairs = set(zip(table[column], values, strict=True))
        is_one_to_one = len(pairs) == len(set(table[column])) == len(set(values))
        assert is_one_to_one, f"stories.csv: {column} does not tell apart what differs"


@holds("measured")
def baselines_score_the_same_tokens(drawn: DrawnRun, folder: Path) -> None:
    """Uniform, unigrams, Kneser-Ney and the generator's floor; and how far the model is from n-grams."""
    run = Run(folder)
    figures = run.json("data/figures/evaluate")
    found = figures["baselines"]
    scored, counted = (run.stories(split) for split in ("evaluation", "train"))
    if run.layout != "stories":
        scored, counted = ([run.ids(split).tolist()] for split in ("evaluation", "train"))
    tokens = sum(len(sequence) - 1 for sequence in scored)
    size = len(run.tokenizer)
    expected = {"uniform": math.log(size)}
    of_tokens = np.zeros(0)
    for name, order in (("unigram", 1), ("kneser_ney", 5)):
        ngrams = KneserNey([np.array(sequence) for sequence in counted], order, size)
        parts = [np.append(0.0, -ngrams.log_probs(np.array(sequence))) for sequence in scored]
        of_tokens = np.concatenate(parts)
        expected[name] = of_tokens.sum() / tokens
    download = run.json("data/figures/download")["splits"]["evaluation"]
    if not figures["unknown_share"] and "log_prob_nats" in download:
        expected["floor"] = -download["log_prob_nats"] / tokens
    assert set(found) == set(expected), f"baselines: {sorted(found)}, expected {sorted(expected)}"
    for name, loss in expected.items():
        got = [
            found[name]["tokens"],
            found[name]["nats_per_token"],
            logarithm(found[name]["perplexity"]),
        ]
        problem = differs(f"baselines.{name}", got, [tokens, loss, loss], 1e-6, 1e-6)
        assert not problem, problem
    kneser_ney = found["kneser_ney"]
    got = [kneser_ney[key] for key in ("order", "counted_tokens", "train_tokens")]
    size = len(run.ids("train"))
    assert got == [5, size, size], f"kneser_ney: {got}"
    layout = "stories" if run.layout == "stories" else "stream"
    losses = Losses(run, run.weights(), "evaluation", layout)
    borders = run.offsets("evaluation")
    by_ngrams = [of_tokens[a:b].sum() for a, b in pairwise(borders)]
    gained = losses.stories - np.column_stack([by_ngrams, np.zeros(len(by_ngrams))])
    wanted = interval_of(merge_repeats(gained, names_of_texts(run)), pooled_ratio)
    different = len(set(names_of_texts(run)))
    assert kneser_ney["difference"]["stories"] == different, f"kneser_ney: {kneser_ney}"
    problem = differs_interval(
        "kneser_ney.difference", kneser_ney["difference"], wanted, losses.tolerance
    )
    assert not problem, problem


def differs_interval(
    name: str, got: Any, wanted: Any, absolute: float, relative: float = 1e-6
) -> str:
    """`differs` for a value and its interval."""
    return differs(
        name, [got[end] for end in ENDS], [wanted[end] for end in ENDS], relative, absolute
    )


@holds("measured")
def seeds_are_scored_by_their_own_weights(drawn: DrawnRun, folder: Path) -> None:
    """data/seeds, seeds.json and plots/seeds.csv: each seed's losses, their mean, spread and curves."""
    run = Run(folder)
    evaluated = run.json("data/figures/evaluate")
    names = ("perplexity", "nats_per_token", "raw_bits_per_byte")
    headline = {name: evaluated[name] for name in names}
    assert run.json("data/seeds/train") == headline, "data/seeds/train.json: not evaluate.json's"
    trained = run.json("data/figures/train")
    first = trained["seed"]
    assert first == run.params["train"]["seed"], f"train.json: seed {first}"
    precision = trained["precision"]
    rows = {first: headline | {"held_out_loss": trained["held_out_loss"]}}
    curves = {first: run.curve("loss", "held-out")}
    for seed in run.params["seeds"]["more"]:
        weights = run.weights(f"data/seeds/{seed}/model")
        losses = Losses(run, weights, "evaluation", run.layout)
        score = run.json(f"data/seeds/{seed}")
        nats, tokens = losses.rows.sum(0)
        got = [score["nats_per_token"], logarithm(score["perplexity"])]
        wanted = [nats / tokens, min(nats / tokens, MOST_NATS)]
        assert not (
            problem := differs(f"seed {seed}: loss", got, wanted, 1e-6, losses.tolerance)
        ), problem
        allowed = losses.tolerance * losses.stories[:, 1] + 1e-6
        got = score["stories"]["nats"]
        problem = differs(f"seed {seed}: stories", got, losses.stories[:, 0], 1e-6, allowed)
        assert not problem, problem
        left = run.json(f"data/seeds/{seed}/run")
        held_out, tolerance = run.split_loss(weights, "held_out", precision)
        loss = left["figures"]["held_out_loss"]
        problem = differs(f"seed {seed}: held-out", loss, held_out, 1e-6, tolerance)
        assert not problem, problem
        rows[seed] = {name: score[name] for name in names} | {"held_out_loss": loss}
        curves[seed] = np.array(left["held_out"])
    found = run.json("data/figures/seeds")
    assert (found["n"], found["seeds"]) == (len(rows), list(rows)), f"seeds.json: {found['seeds']}"
    for name in (*names, "held_out_loss"):
        values = [row[name] for row in rows.values()]
        got = [found["by_seed"][str(seed)][name] for seed in rows]
        assert got == values, f"seeds.json, by_seed, {name}: expected {values}, got {got}"
        if None in values:
            assert name not in found, f"seeds.json: {name} of {values}"
            continue
        wanted = {"mean": np.mean(values)}
        if len(values) > 1:
            wanted["sd"] = np.std(values, ddof=1)
            wanted["difference"] = student_critical_value(0.05, len(values) - 1)
            wanted["difference"] *= math.sqrt(2) * wanted["sd"]
        assert set(found[name]) == set(wanted), f"seeds.json, {name}: {sorted(found[name])}"
        numbers = [[row[key] for key in wanted] for row in (found[name], wanted)]
        scale = 1e-9 * max(abs(value) for value in values)
        assert not (problem := differs(f"seeds.json, {name}", *numbers, 1e-6, scale)), problem
    for seed, curve in curves.items():
        problem = differs(
            f"seeds.csv, {seed}", run.curve("seeds", f"seed {seed}"), curve, SIX_DIGITS
        )
        assert not problem, problem


Prompt = tuple[int, list[int], list[int]]  # story, ids, reference


def start_prompts(run: Run, count: int, tokens: int, reference: int | None) -> list[Prompt]:
    """Starts of stories that are long enough, spread evenly over the evaluation split."""
    tokenizer = run.tokenizer
    marks = int(tokenizer.sos_id is not None)
    stories = run.stories("evaluation")
    fitting = []
    for number, story in enumerate(stories):
        begins = story[:1] == [tokenizer.sos_id] if marks else number > 0 or len(stories) == 1
        if begins and len(story) > tokens + 2 * marks:
            fitting.append(number)
    spread = np.linspace(0, len(fitting) - 1, min(count, len(fitting))).astype(int)
    prompts = []
    for number in (fitting[place] for place in spread):
        rest = stories[number][marks + tokens :]
        prompts.append((number, stories[number][: marks + tokens], rest[:reference]))
    return prompts


def stream_prompts(run: Run, count: int, tokens: int, reference: int) -> list[Prompt]:
    """Random places of the evaluation stream, in order, all with a whole reference if there are such."""
    ids = run.ids("evaluation").tolist()
    places = max(len(ids) - tokens - reference, 0) + 1
    rng = np.random.default_rng(derive_seed(SEED, "prompts"))
    prompts = []
    for start in sorted(rng.choice(places, min(count, places), replace=False).tolist()):
        story = int((run.offsets("evaluation") <= start).sum()) - 1
        cut = start + tokens
        prompts.append((story, ids[start:cut], ids[cut : cut + reference]))
    return prompts


def without_repeats(prompts: Sequence[Prompt]) -> list[Prompt]:
    """The first of those with the same ids and reference."""
    different: dict[Any, Prompt] = {}
    for prompt in prompts:
        different.setdefault((tuple(prompt[1]), tuple(prompt[2])), prompt)
    return list(different.values())


def nats_in_windows(
    run: Run, weights: Weights, ids: list[int], first: int
) -> tuple[float, int, float]:
    """(nats of ids[first:], their number, by how much a run's may differ), each after what its window holds.

    Past the context the older half of the window is dropped, or its oldest token.
    """
    context = run.context
    slide = run.params["cache"]["slide"]
    assert slide in ("half", "one"), f"cache.slide: {slide}: write its window here"
    step = context // 2 if slide == "half" else 1
    ends: dict[int, list[int]] = {}
    for n in range(first, len(ids)):
        start = max(-(-(n - context) // step) * step, 0)
        ends.setdefault(start, []).append(n)
    rows = [ids[start : numbers[-1] + 1] for start, numbers in ends.items()]
    nats, tolerance = run.nats_of_rows(weights, rows)
    total = allowed = 0.0
    for values, errors, numbers in zip(nats, tolerance, ends.values(), strict=True):
        total += values[-len(numbers) :].sum()
        allowed += errors[-len(numbers) :].sum()
    return total, len(ids) - first, allowed


def banned(run: Run) -> list[int]:
    """Special ids that no text has, but the one that ends it."""
    return sorted(run.tokenizer.specials - {run.tokenizer.eos_id})


def as_written(
    texts_of: Callable[[TinyLM], list[Generation]],
    model: TinyLM,
    tokenizer: Tokenizer,
    written: list[str],
) -> list[Generation]:
    """The model's texts. Where rounding decides one, the matching text of a slightly perturbed model.

    Two tokens may be equally likely up to rounding, and a stage computes with other kernels.
    """
    texts = texts_of(model)
    generator = torch.Generator().manual_seed(0)
    for _ in range(MORE_SHAKEN):
        wrong = [i for i, text in enumerate(texts) if tokenizer.decode(text.ids) != written[i]]
        if not wrong:
            break
        others = texts_of(shaken_copy(model, generator))
        for i in wrong:
            if tokenizer.decode(others[i].ids) == written[i]:
                texts[i] = others[i]
    return texts


@torch.no_grad()
def shaken_copy(model: TinyLM, generator: torch.Generator) -> TinyLM:
    """The model with weights that differ by rounding."""
    copied = copy.deepcopy(model)
    for parameter in copied.parameters():
        noise = 2 * torch.rand(parameter.shape, generator=generator) - 1
        parameter *= 1 + FACTOR * FP32 * noise
    return copied


@holds("measured")
def samples_continue_the_prompts_of_the_settings(drawn: DrawnRun, folder: Path) -> None:
    """samples.csv, and every figure over all samples: perplexities, BLEU, variety, memorised, sense."""
    run = Run(folder)
    settings = run.params["evaluate"]
    count, tokens, new = (settings[key] for key in ("stories", "prompt_tokens", "new_tokens"))
    if settings["prompts"] == "stream":
        prompts = stream_prompts(run, count, tokens, new)
    else:
        prompts = start_prompts(run, count, tokens, new if settings["reference"] == "cut" else None)
    prompts = without_repeats(prompts)
    decode = read_section(run.params, "decode", DecodeSettings, "params.yaml")
    model, _ = load_model(folder / "models")
    tokenizer = run.tokenizer
    slide = run.params["cache"]["slide"]
    table = run.table("data/evaluate/samples")
    assert len(table) == len(prompts), f"samples.csv: {len(table)} rows, {len(prompts)} prompts"

    def texts_of(model: TinyLM) -> list[Generation]:
        decoder = Decoder(model=model, eos_id=tokenizer.eos_id, banned=banned(run), slide=slide)
        return generate(decoder, [ids for _, ids, _ in prompts], decode, max_new_tokens=new)

    texts = as_written(texts_of, model, tokenizer, table["continuation"].tolist())
    weights = run.weights()
    rows = []
    sums: dict[str, list[tuple[float, int]]] = {"": [], "reference_": []}
    tolerance = 0.0
    for (story, ids, reference), text, found in zip(
        prompts, texts, table.to_dict("records"), strict=True
    ):
        row = {"story": story, "finished": text.finished}
        parts = {"prompt": ids, "reference": reference, "continuation": text.ids}
        row |= {key: tokenizer.decode(part) for key, part in parts.items()}
        rows.append(row)
        for key, value in row.items():
            assert found[key] == value, (
                f"samples.csv, {story}, {key}: expected {value!r}, got {found[key]!r}"
            )
        for prefix, part in (("", text.ids), ("reference_", reference)):
            nats, number, allowed = nats_in_windows(run, weights, ids + part, len(ids))
            sums[prefix].append((nats, number))
            tolerance = max(tolerance, allowed / number)
            got = logarithm(found[f"{prefix}perplexity"] + 1e-300)
            loss = min(nats / number, MOST_NATS)
            absolute = allowed / number + FIVE_DECIMALS
            problem = differs(
                f"samples.csv, {story}: ln {prefix}perplexity", got, loss, 1e-6, absolute
            )
            assert not problem, problem

    figures = run.json("data/figures/evaluate")
    got = figures["samples"]
    assert (got["count"], got["finished"]) == (len(rows), sum(row["finished"] for row in rows))
    for prefix, name in (("", "continuation"), ("reference_", "reference")):
        wanted = interval_of_logarithm(sums[prefix])
        logs = {end: logarithm(got[f"{name}_perplexity"][end]) for end in ENDS}
        problem = differs_interval(f"samples: ln {name}_perplexity", logs, wanted, tolerance)
        assert not problem, problem
    written = {
        "": [row["continuation"] for row in rows], "reference_": [row["reference"] for row in rows]
    }  # fmt: skip
    bleu = Bleu().compute(predictions=written[""], references=written["reference_"])
    problem = differs(
        "samples.csv: bleu", table["bleu"], bleu["sentence_bleu"], 1e-6, FIVE_DECIMALS
    )
    assert not problem, problem
    wanted = interval_of(bleu["sentence_bleu"], mean)
    assert not (problem := differs_interval("sentence_bleu", got["sentence_bleu"], wanted, 1e-9)), (
        problem
    )
    for order in (1, 2, 3, 4):
        name = f"bleu{order}"
        wanted = interval_of(bleu["statistics"], partial(bleu_of, order=order), bleu[name])
        assert not (problem := differs_interval(name, got[name], wanted, 1e-9)), problem
    for prefix, lines in written.items():
        words = [spaced(line).split() for line in lines]
        total = got["hypothesis_tokens" if not prefix else "reference_tokens"]
        assert total == sum(map(len, words)), (
            f"samples: {prefix}tokens {total}, not {sum(map(len, words))}"
        )
        for n in (1, 2, 3):
            problem = differs(
                f"{prefix}distinct{n}", got[f"{prefix}distinct{n}"], distinct(words, n)
            )
            assert not problem, problem
        problem = differs(f"{prefix}repeated", got[f"{prefix}repeated_4grams"], repeated(words, 4))
        assert not problem, problem
    spelled = [bare(text) for text in written[""] + written["reference_"]]
    known = [bare(tokenizer.decode(story)) for story in run.stories("train")]
    shares = np.split(np.array(nearest_story(spelled, known)), 2)
    for name, values in zip(("continuations", "references"), shares, strict=True):
        memorised = figures["memorised"][name]
        values = values[~np.isnan(values)]
        assert memorised["count"] == len(values), (
            f"memorised.{name}: {memorised['count']}, not {len(values)}"
        )
        if len(values):
            wanted = interval_of(values, mean)
            problem = differs_interval(f"memorised.{name}", memorised["nearest"], wanted, 1e-9)
            assert not problem, problem


def bare(text: str) -> list[str]:
    """The words of a text, without case and punctuation."""
    words = Splitter(lower_case=True, punctuation="drop")(text)
    return spaced(" ".join(words)).split()


def grams(words: list[str], n: int) -> list[tuple[str, ...]]:
    return [tuple(words[place : place + n]) for place in range(len(words) - n + 1)]


def distinct(texts: list[list[str]], n: int) -> float:
    """Different n-grams per n-gram."""
    found = [gram for words in texts for gram in grams(words, n)]
    return len(set(found)) / max(len(found), 1)


def repeated(texts: list[list[str]], n: int) -> float:
    """Share of n-grams that came earlier in their text, mean over texts that have one."""
    shares = []
    for words in texts:
        found = grams(words, n)
        if found:
            shares.append((len(found) - len(set(found))) / len(found))
    return float(np.mean(shares)) if shares else 0.0


def passages(run: Run, count: int) -> list[list[int]]:
    """Different starts of evaluation stories, spread evenly; all pieces where the stories are fewer."""
    stories = run.stories("evaluation")
    pieces: dict[tuple[int, ...], None] = {}
    for story in stories:
        end = len(story) if len(stories) < count else 1
        for start in range(0, end, run.context):
            pieces.setdefault(tuple(story[start : start + run.context]))
    different = [list(piece) for piece in pieces]
    spread = np.linspace(0, len(different) - 1, min(count, len(different))).astype(int)
    return [different[place] for place in spread]


def shaken_models(weights: Weights, settings: dict[str, Any]) -> list[ShakenModel]:
    """Models in float64 with errors of float32: one computation in float32 may be exact by luck."""
    generator = torch.Generator().manual_seed(0)
    models = []
    for _ in range(2 * SHAKEN):
        model = ShakenModel(weights, settings)
        model.shake(FP32, generator, 1.0)
        models.append(model)
    return models


@holds("measured")
def heads_are_measured_by_their_attention_and_without_them(drawn: DrawnRun, folder: Path) -> None:
    """attention.npz, roles.csv and ablation.csv, from attention and losses of the plain model."""
    run = Run(folder)
    weights = run.weights()
    settings = run.params["model"]
    rough = PlainModel(weights, settings, torch.float32)
    tokenizer = run.tokenizer
    drawn_maps = np.load(folder / "data/evaluate/attention.npz")
    sentences = passages(run, 3)
    assert len(drawn_maps) == 4 * len(sentences), f"attention.npz: {len(drawn_maps)} arrays"
    for number, passage in enumerate(sentences, start=1):
        ids = torch.tensor([passage[:24]])
        words = [tokenizer.shown(token) for token in ids[0].tolist()]
        assert drawn_maps[f"words_{number}"].tolist() == words, f"attention.npz, words_{number}"
        maps = attention_weights(weights, settings, ids)[:, 0]
        probs = PlainModel(weights, settings)(ids)[0, -1].softmax(-1)
        error = 0.0
        for model in (rough, *shaken_models(weights, settings)):
            of_next = (model(ids)[0, -1].softmax(-1) - probs).abs().max()
            of_maps = (torch.stack(model.attention)[:, 0] - maps).abs().max()
            error = max(error, float(of_next), float(of_maps))
        allowed = ROUNDINGS * error + 1e-5
        problem = differs(
            f"attention.npz, maps_{number}", drawn_maps[f"maps_{number}"], maps, 0, allowed
        )
        assert not problem, problem
        prob = drawn_maps[f"next_prob_{number}"]
        assert not (problem := differs(f"next_prob_{number}", prob, probs.max(), 0, allowed)), (
            problem
        )
        likeliest = torch.where(probs >= probs.max() - allowed)[0].tolist()
        assert str(drawn_maps[f"next_{number}"]) in map(tokenizer.shown, likeliest), (
            f"attention.npz, next_{number}"
        )

    roles = HeadRoles()
    allowed = 2e-5
    for passage in passages(run, 200):
        ids = torch.tensor([passage])
        maps = attention_weights(weights, settings, ids)[:, 0]
        rough.hidden(ids)
        error = (torch.stack(rough.attention)[:, 0] - maps).abs().sum(-1).max()
        allowed = max(allowed, ROUNDINGS * float(error))
        is_text = ~np.isin(passage, list(tokenizer.specials))
        roles.add(maps.numpy(), is_text, role_pairs(np.array(passage), is_text))
    heads = run.json("data/figures/evaluate")["heads"]
    found = run.table("data/evaluate/roles").to_dict("records")
    wanted = roles.table(RESAMPLES, SEED)
    names = [(row["role"], row["layer"], row["head"]) for row in wanted]
    assert [(row["role"], row["layer"], row["head"]) for row in found] == names, "roles.csv: heads"
    for row, other in zip(found, wanted, strict=True):
        keys = ("score", "baseline", "positions", "low", "high")
        numbers = [[of[key] for key in keys] for of in (row, other)]
        name = f"roles.csv, {other['role']}, layer {other['layer']}, head {other['head']}"
        assert not (problem := differs(name, *numbers, 1e-5, allowed)), problem
        gain = row["score"] - row["baseline"]
        is_far = gain >= heads["margin"] - 2 * FIVE_DECIMALS
        assert is_far or not row["claimed"], f"{name}: claimed with a gain of {gain}"
        is_close = abs(gain - heads["margin"]) < allowed or row["low"] < LEAST_GAIN
        assert row["claimed"] == other["claimed"] or is_close, name
    measured = {row["role"] for row in wanted}
    assert not measured & set(heads["not_measured"]), f"not_measured: {heads['not_measured']}"

    scored = sorted((passage for passage in passages(run, 40) if len(passage) > 1), key=len)
    assert heads["ablation"]["stories"] == len(scored)
    number = np.array([len(passage) - 1 for passage in scored])
    whole, whole_tolerance = sums(run, weights, scored)
    width = settings["head_width"] or run.params["embedding"]["width"] // settings["heads"]
    for row in run.table("data/evaluate/ablation").to_dict("records"):
        name = f"blocks.{row['layer'] - 1}.attention.out.weight"
        without = weights[name].clone()
        without[:, (row["head"] - 1) * width : row["head"] * width] = 0
        nats, tolerance = sums(run, weights | {name: without}, scored)
        wanted = interval_of(np.column_stack([nats - whole, number]), pooled_ratio)
        got = {"value": row["loss_increase"], "low": row["low"], "high": row["high"]}
        allowed = float(((tolerance + whole_tolerance) / number).max()) + FIVE_DECIMALS
        problem = differs_interval(
            f"ablation.csv, {name}, head {row['head']}", got, wanted, allowed
        )
        assert not problem, problem


def sums(run: Run, weights: Weights, texts: list[list[int]]) -> tuple[np.ndarray, np.ndarray]:
    """(nats of each text, by how much a run's may differ)"""
    nats, tolerance = run.nats_of_rows(weights, texts)
    return np.array([v.sum() for v in nats]), np.array([v.sum() for v in tolerance])
