"""A small run folder with every file that the report reads."""

import copy
import json
import math
from collections.abc import Callable, Iterable
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from tests.support.report import report_settings
from tinylm.base.config import load_params
from tinylm.base.files import read_json
from tinylm.presets.write import FOLDER
from tinylm.report import sources
from tinylm.report.drawing import Picture
from tinylm.report.pictures import draw_pictures
from tinylm.report.sources import Run, read_run
from tinylm.report.writing import write_report

ROOT = Path(__file__).parents[2]
SETTINGS = report_settings(title="A title & more", compare="A")
SPLITS = {"train": 19600, "held_out": 400, "evaluation": 500}
WEIGHTS = ("previous", "first", "self", "same_word", "punctuation", "within_word")
ENDS = ("value", "low", "high")
STORY = "once upon a time there was a little fox named tim he lived in a small house near the river"
KEPT = (0.0, 0.1, 0.5, None)  # epochs whose weights were kept; None is the end


def _interval(value: float, width: float = 0.05) -> dict:
    return {"value": value, "low": value * (1 - width), "high": value * (1 + width)}


def _share(value: float, width: float = 0.05) -> dict:
    return {"value": value, "low": max(value - width, 0.0), "high": min(value + width, 1.0)}


def _sense(words: float | None) -> dict:
    """Figures of texts of one origin: 40 of 50 with an impossible word, or none."""
    possible = dict(zip(ENDS, (0.2, 0.11, 0.33) if words else (1.0, 0.93, 1.0)))
    kinds = {"person": 30, "grammar": 10} if words else {"person": 0, "grammar": 0}
    return {
        "texts": 50,
        "possible": possible,
        "words": words and _interval(words, 0.1),
        "kinds": kinds,
    }


def _copied(longest: float, whole: int) -> dict:
    """What 12 texts share with train."""
    runs = {
        "longest_run": _interval(longest),
        "longest_run_median": longest,
        "longest_run_largest": 21,
    }
    new = {str(n): _interval(0.1 * n) for n in range(1, 9)}
    return {"count": 12, "words": 700, "whole": whole, "new": new, "overlap": _interval(0.2)} | runs


def _pairs() -> dict:
    """Known better than n-grams, as well as by them, worse, not at all, wrongly, and not measured."""
    shares = {
        "the same person": ("meaning", 0.99, 0.50),
        "word order": ("grammar", 0.97, 0.98),
        "a and an": ("grammar", 0.78, 0.93),
        "filler and gap": ("grammar", 0.52, 0.50),
        "opposites": ("meaning", 0.30, 0.50),
    }
    measured = {
        name: {
            "about": about,
            "pairs": 200,
            "model": _share(model),
            "untrained": _share(0.48),
            "unigram": _share(0.5),
        }
        | {"kneser_ney": _share(ngrams)}
        for name, (about, model, ngrams) in shares.items()
    }
    unknown = dict.fromkeys(("model", "untrained", "kneser_ney", "unigram"))
    return {
        "protocol": "Up to 200 pairs of each phenomenon.",
        "all": {"model": 0.712, "untrained": 0.48, "kneser_ney": 0.682, "unigram": 0.5},
        "phenomena": measured | {"reflexive pronoun": {"about": "grammar", "pairs": 0} | unknown},
        "training": [
            {"epochs": epochs, "phenomena": {name: _share(0.5 + 0.1 * place) for name in shares}}
            for place, epochs in enumerate(KEPT)
        ],
    }


def _figures(held: dict[str, Any], updates: int, layers: int, heads: int) -> dict[str, Any]:
    """data/figures/ by stage."""
    held["download"]["splits"] = {
        name: {"stories": n, "words": 92 * n, "bytes": 480 * n} for name, n in SPLITS.items()
    }
    held["vocab"]["tokens"] = {name: 94 * n for name, n in SPLITS.items()}
    held["train"] |= {"updates": updates, "best_update": updates}
    found = held["evaluate"]
    places = list(np.ndindex(layers, heads))
    found["heads"]["induction"]["heads"] = [
        {"layer": i + 1, "head": j + 1, "score": 0.1 * i + 0.02 * j} for i, j in places
    ]
    found["heads"]["logit_lens"] = [
        {"layer": layer, "nats_per_token": 9.0 - layer, "same_as_last": 1 / (layers + 1 - layer)}
        for layer in range(layers + 1)
    ]
    found["pairs"] = _pairs()
    words = {
        "references": None,
        "decode": 38.0,
        "greedy": 46.0,
        "temperature 0.5": 73.0,
        "temperature 1": 20.0,
    }
    words["kneser_ney"] = 4.6
    found["sense"]["methods"] = {name: _sense(value) for name, value in words.items()}
    found["sense"]["training"] = [{"epochs": n} | _sense(10.0 * (n or 3)) for n in (1, 2, None)]
    found["memorised"] |= {"continuations": _copied(9.0, 1), "references": _copied(6.0, 0)}
    samples = {
        "continuation_perplexity": 4.2,
        "reference_perplexity": 7.0,
        "bleu1": 31.0,
        "bleu2": 14.0,
        "bleu3": 7.5,
    }
    found["samples"] |= {name: _interval(value) for name, value in samples.items()}
    quality = {
        "sampling": (4.0, -2.0, 0.60, 0.05), "greedy": (5.0, -1.0, 0.45, 0.20), "beam 1": (5.0, -1.0, 0.45, 0.20),
        "beam 5": (5.4, -0.8, 0.40, 0.28), "beam 10": (5.5, -0.78, 0.38, 0.30)
    }  # fmt: skip
    keys = ("bleu4", "log_prob_per_token", "distinct2", "repeated_4grams")
    held["beam_bench"]["methods"] = {
        name: dict(zip(keys, row)) | {"log_prob": 60 * row[1], "sense": _sense(20.0 + len(name))}
        for name, row in quality.items()
    }
    keys = ("updates", "tokens", "held_out_loss_at_equal_tokens", "held_out_loss_at_equal_updates")
    held["accum_sweep"]["settings"] = {
        str(n): dict(zip(keys, (104 // n, 160000, 4.0 + 0.12 * n, 5.0 - 0.02 * n)))
        | {"train_loss_last_tenth": 4.0 + 0.1 * n}
        for n in (1, 2, 4, 8)
    }
    means = {
        "perplexity": 7.1,
        "nats_per_token": 1.96,
        "bits_per_byte": 0.58,
        "held_out_loss": 1.962,
    }
    held["seeds"] |= {
        name: {"mean": v, "sd": v / 100, "difference": v / 16} for name, v in means.items()
    }
    held["seeds"]["by_seed"] = {
        str(seed): {name: v + seed / 50 for name, v in means.items()} for seed in (1, 2, 3)
    }
    return held


def trials(**times: float) -> dict[str, float]:
    """Figures with the lowest and highest trial of each, two hundredths apart."""
    ends = (("", 1), ("low_", 0.99), ("high_", 1.01))
    return {f"{end}{name}": value * by for name, value in times.items() for end, by in ends}


def _times() -> dict[str, dict]:
    """What metrics/*_time.json hold beside seconds and conditions, by stage."""
    speeds = {
        "sampling": 1500.0,
        "greedy": 1550.0,
        "beam 1": 1200.0,
        "beam 5": 420.0,
        "beam 10": 240.0,
    }
    ways = {"recompute": (8, 0.13, 0.13), "plain": (55, 0.1, 0.1)}
    return {
        "train": {"train_s": 170.1, "tokens_per_s": 8818.0},
        "beam_bench": {
            "methods": {
                name: trials(tokens_per_s=v, s_per_prompt=60 / v) for name, v in speeds.items()
            }
        },
        "kv_bench": {
            "settings": [
                {"new_tokens": n, "cache": cache, "process_mib": 500.0}
                | trials(tokens_per_s=2500 - n if cache else 36000 / n, first_token_s=0.02)
                | trials(rest_s_per_token=0.008 if cache else n / 2000)
                | {"peak_mib": 40 + n / 8 if cache else 60 + n / 4, "past_context": n + 5 > 192}
                for n in (32, 64, 128, 256)
                for cache in (True, False)
            ]
        },
        "ckpt_bench": {
            "settings": [
                {"layers": n, "recompute": way == "recompute", "peak_mib": 60 + n * mib}
                | trials(step_s=n * step, epoch_s=600 * n * epoch)
                for n in (2, 4, 8)
                for way, (mib, step, epoch) in ways.items()
            ],
            "other_ways": [
                {"layers": n, "recompute": "sqrt", "peak_mib": 61 + n}
                | trials(step_s=n * 0.15, epoch_s=90.0 * n)
                for n in (2, 4, 8)
            ],
        },
        "accum_sweep": {
            "settings": {
                str(n): trials(epoch_s=210.0 + n, tokens_per_s=8700.0 - 10 * n)
                | {"peak_mib": 140.0 + n}
                for n in (1, 2, 4, 8)
            }
        },
    }


def _json(folder: Path, name: str, value: object) -> None:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(value), encoding="utf-8")


def _csv(folder: Path, name: str, head: str, rows: Iterable[tuple]) -> None:
    """A table; no cell holds a quote or a line's end."""
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = [
        head,
        *(",".join(f'"{cell}"' if "," in str(cell) else str(cell) for cell in row) for row in rows),
    ]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


def _write_curves(folder: Path, updates: int) -> None:
    rng = np.random.default_rng(0)
    per_update = 1_500_000 // updates
    curve, rates, seeds = [], [], []
    for step in range(10, updates + 1, 10):
        place, fallen = (step, step * per_update), 5 * math.exp(-step / (updates / 6))
        curve.append((*place, "train", 1.9 + fallen + rng.normal(0, 0.04)))
        if step % 50 == 0:
            curve.append((*place, "held-out", 1.95 + fallen))
        rates.append(
            (
                *place,
                3e-3 * min(step / (0.05 * updates), 0.5 + 0.5 * math.cos(math.pi * step / updates)),
            )
        )
    for shift, series in enumerate(("lowest", "seed 1", "mean", "seed 2", "seed 3", "highest")):
        for step in range(50, updates + 1, 50):
            value = 1.9 + shift / 50 + 5 * math.exp(-step / (updates / 6))
            seeds.append((step, step * per_update, series, value))
    tables = {
        "loss": curve,
        "perplexity": [(*place, math.exp(value)) for *place, value in curve],
        "learning_rate": [(step, tokens, "learning rate", rate) for step, tokens, rate in rates],
        "grad_norm": [
            (step, tokens, "gradient norm", 1.5 + 1 / (1 + step)) for step, tokens, _ in rates
        ],
        "seeds": seeds,
    }
    for name, rows in tables.items():
        _csv(folder, f"plots/{name}.csv", "step,tokens,series,value", rows)
    rng = np.random.default_rng(3)
    for name, x in {"tokens": "tokens", "updates": "update", "micro_steps": "micro_step"}.items():
        rows = []
        for n in (1, 2, 4, 8):
            for i in range(n, 105, n):
                place = {"tokens": 1540 * i, "updates": i // n, "micro_steps": i}[name]
                value = 4.0 + 0.1 * n + 3 * math.exp(-i / n / 20) + rng.normal(0, 0.03)
                rows.append((place, f"accumulation {n}", value))
        _csv(folder, f"plots/accum_{name}.csv", f"{x},series,value", rows)


def _write_texts(folder: Path) -> None:
    """Tables of data/evaluate and of beam_bench."""
    told_in_training = [(epochs, "once upon", STORY, True) for epochs in (1, 2, "")]
    head = "epochs,prompt,text,finished"
    _csv(folder, "data/evaluate/training_samples.csv", head, told_in_training)
    told = "was a little dog {} who lived near the forest and loved to run"
    rows: list[tuple] = [
        (
            "once upon a time there",
            f"was a small cat {i} who liked the blue river",
            told.format(i),
            4.0 + i / 7,
            6.5,
        )
        for i in range(12)
    ]
    head = "prompt,reference,continuation,perplexity,reference_perplexity,bleu,finished"
    _csv(
        folder,
        "data/evaluate/samples.csv",
        head,
        [(*row, 3.3 * i, i % 2 == 0) for i, row in enumerate(rows)],
    )
    tokens = [(1, "ran", 0.9312), (2, "home", 0.4), (3, "<eos>", 0.003)] * 2
    _csv(
        folder,
        "data/evaluate/greedy.csv",
        "prompt,number,token,probability",
        [("the fox", *row) for row in tokens],
    )
    new = {f"new_{n}": 0.1 * n for n in range(1, 9)}
    rows = [
        (
            f"once upon a time {i}",
            text,
            5 + i,
            f"was a little dog {i} who",
            i,
            100 + i,
            f"the nearest story {i}",
        )
        for i in range(12)
        for text in ("continuation", "reference")
    ]
    head = (
        f"prompt,text,longest_run,run,run_story,nearest_story,nearest,words,overlap,{','.join(new)}"
    )
    _csv(
        folder,
        "data/evaluate/memorised.csv",
        head,
        [(*row, 30, 0.25, *new.values()) for row in rows],
    )
    girl = "once upon a time there was a girl named"
    rows = [(f"{girl} amy {i}", "he", "person", "amy, she") for i in range(10)]
    both = [(method, *row) for method in ("decode", "greedy") for row in rows]
    _csv(folder, "data/evaluate/sense.csv", "method,story,word,kind,instead", both)
    start = "Once upon a time there was a girl named Mia. "
    wrong = {
        "word order": ("Mia saw the red ball.", "Mia saw the ball red."),
        "a and an": ("An owl.", "A owl."),
    }
    pairs = [
        (name, start + a, start + b, 1.5, 0.5) for name, (a, b) in wrong.items() for _ in range(2)
    ]
    _csv(folder, "data/evaluate/pairs.csv", "phenomenon,right,wrong,model,kneser_ney", pairs)
    beams = [
        (
            f"the {animal} went to",
            "the river to drink",
            name,
            f"the forest and saw a {animal} {name}",
            -60.0,
            -5.1,
        )
        for animal in ("fox", "owl")
        for name in ("sampling", "greedy", "beam 1", "beam 5", "beam 10")
    ]
    _csv(
        folder, "data/beam_bench/outputs.csv", "prompt,reference,method,text,log_prob,score", beams
    )


def _write_heads(folder: Path, layers: int, heads: int, rng: np.random.Generator) -> None:
    """Head 1 of layer 1 looks at the previous token and is needed; the last head is idle."""
    places = [(layer + 1, head + 1) for layer, head in np.ndindex(layers, heads)]
    names = ",".join(
        f"{name},{name}_even" for name in (*WEIGHTS, "entropy_nats", "distance_tokens")
    )
    rows = []
    for place in places:
        weights = [round(float(rng.beta(0.6, 4)), 4) for _ in WEIGHTS]
        entropy, distance, previous = rng.uniform(0.5, 3), rng.uniform(1, 20), 30
        if place == places[-1]:
            weights[0], previous = 0.91, 91
        said = f"the previous token: {previous}% of the weight (5% if spread evenly)"
        spread = [cell for weight in weights for cell in (weight, 0.05)]
        rows.append(
            (
                *place,
                *spread,
                entropy,
                3.1,
                distance,
                15.0,
                said if weights[0] > 0.2 else "spread evenly",
            )
        )
    _csv(folder, "data/evaluate/heads.csv", f"layer,head,{names},interpretation", rows)
    roles = [
        (
            *place,
            role,
            score if place == (1, number) else 0.2,
            0.2,
            900,
            place == (1, number) and score > 0.3,
        )
        for number, (role, score) in enumerate(
            {"previous token": 0.85, "subject-verb": 0.31, "punctuation": 0.12}.items(), start=1
        )
        for place in places
    ]
    _csv(
        folder, "data/evaluate/roles.csv", "layer,head,role,score,baseline,positions,claimed", roles
    )
    rises = {place: 0.4 / (place[0] * place[1]) if place != places[-1] else 0.0 for place in places}
    ablated = [
        (*place, 1.95 + rise, rise, rise - 0.01, rise + 0.01) for place, rise in rises.items()
    ]
    _csv(
        folder,
        "data/evaluate/ablation.csv",
        "layer,head,nats_per_token,loss_increase,low,high",
        ablated,
    )
    training = [  # attention that grows sharper, heads that part, and a role that is there from epoch 0.1 on
        (
            "" if epochs is None else epochs,
            layer,
            head,
            4.0 - 0.5 * n,
            0.3 * bool(n) - 0.1 * (head - 1),
        )
        for n, epochs in enumerate(KEPT)
        for layer, head in places
    ]
    head = "epochs,layer,head,entropy_nats,previous token"
    _csv(folder, "data/evaluate/heads_training.csv", head, training)


def write_run(folder: Path, *, updates: int, layers: int, heads: int, sentences: list[str]) -> None:
    """Write every file of a run below `folder`, with plausible figures."""
    held = yaml.safe_load((Path(__file__).parent / "run.yaml").read_text("utf-8"))
    conditions, seconds, times = held.pop("conditions"), held.pop("seconds"), _times()
    for stage, figures in _figures(held, updates, layers, heads).items():
        _json(folder, f"data/figures/{stage}.json", figures)
        spent = {"seconds": seconds[stage], "conditions": conditions}
        _json(folder, f"metrics/{stage}_time.json", spent | times.get(stage, {}))
    _write_curves(folder, updates)
    _write_texts(folder)
    rng = np.random.default_rng(1)
    arrays: dict[str, Any] = {}
    for number, sentence in enumerate(sentences, start=1):
        words = ["<sos>", *sentence.split()]
        maps = np.tril(np.tril(rng.gamma(0.3, size=(layers, heads, len(words), len(words)))) + 1e-6)
        maps = (maps / maps.sum(axis=-1, keepdims=True)).astype(np.float32)
        arrays |= {f"words_{number}": np.array(words), f"maps_{number}": maps}
        arrays |= {f"next_{number}": np.array("and"), f"next_prob_{number}": np.array(0.731)}
    np.savez(folder / "data/evaluate/attention.npz", **arrays)
    moments = {
        "words": arrays["words_1"],
        "maps": np.stack([arrays["maps_1"]] * 2),
        "epochs": np.array([0.1, 0.5]),
    }
    known: dict[str, Any] = {"next": np.array(["a", "and"]), "next_prob": np.array([0.02, 0.4])}
    np.savez(folder / "data/evaluate/moments.npz", **moments, **known)
    _write_heads(folder, layers, heads, rng)


@contextmanager
def times_of_any_result():
    """The times here are those of metrics/*_time.json, with whatever result; tests/host/test_times.py has the rule."""

    def read_times(name: str, stage: str, made: str, folder: str) -> dict | None:
        path = Path(folder) / f"metrics/{name}_time.json"
        return read_json(path) if path.exists() else None

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sources, "read_times", read_times)
        yield


@pytest.fixture(scope="module", autouse=True)
def in_the_room():
    with times_of_any_result():
        yield


@pytest.fixture(scope="session")
def params() -> dict:
    """The parameters of the default preset, with two moments of training kept."""
    chosen = load_params(FOLDER / "storybook.yaml")
    chosen["train"]["keep_epochs"] = [0.1, 0.5]
    return chosen


@pytest.fixture(scope="session")
def make_run() -> Callable[[Path], None]:
    """Writes a small complete run into a folder."""
    return partial(
        write_run, updates=100, layers=2, heads=3, sentences=["the fox ran home", "a small owl"]
    )


@pytest.fixture
def run_folder(tmp_path: Path, make_run: Callable[[Path], None]) -> Path:
    """A small complete run."""
    make_run(tmp_path)
    return tmp_path


@pytest.fixture(scope="session")
def as_read(
    tmp_path_factory: pytest.TempPathFactory, params: dict, make_run: Callable[[Path], None]
) -> Run:
    """That run, read once: not to be changed."""
    folder = tmp_path_factory.mktemp("as_read")
    make_run(folder)
    with times_of_any_result():
        return read_run(folder, params)


@pytest.fixture
def run(as_read: Run) -> Run:
    """That run, to be changed as a test likes."""
    return copy.deepcopy(as_read)


@pytest.fixture(scope="session")
def drawn(as_read: Run) -> dict[str, Picture]:
    """Its pictures."""
    return draw_pictures(as_read)


@pytest.fixture(scope="session")
def written(
    tmp_path_factory: pytest.TempPathFactory, params: dict, make_run: Callable[[Path], None]
):
    """Its folder with page, paper and pictures, and the run as they show it; what is recorded comes from docs/."""
    folder = tmp_path_factory.mktemp("written")
    make_run(folder)
    with times_of_any_result():
        run = read_run(folder, params)
    write_report(run, SETTINGS, folder)
    return folder, run
