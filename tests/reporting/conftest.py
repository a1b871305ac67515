"""A small run folder with every file that the report reads."""

import json
import math
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import yaml

from tinylm.base.files import read_json
from tinylm.reporting import sources

CONDITIONS = {
    "cpu": "Example CPU",
    "cores": 2,
    "threads": 2,
    "device": "cpu",
    "torch": "2.13.0",
    "python": "3.11.9",
    "date": "2025-01-02",
}
WEIGHTS = ("previous", "first", "self", "same_word", "punctuation", "within_word")


def _interval(value: float, width: float = 0.05) -> dict:
    return {"value": value, "low": value * (1 - width), "high": value * (1 + width)}


def _sense(words: float | None) -> dict:
    """Figures of texts of one origin: 40 of 50 with an impossible word, or none."""
    return {
        "texts": 50,
        "possible": {"value": 0.2, "low": 0.11, "high": 0.33} if words else {"value": 1.0, "low": 0.93, "high": 1.0},
        "words": words and _interval(words, 0.1),
        "kinds": {"person": 30, "grammar": 10} if words else {"person": 0, "grammar": 0},
    }


def _json(folder: Path, name: str, value: object) -> None:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(value), encoding="utf-8")


def _csv(folder: Path, name: str, rows: list[dict]) -> None:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    pd.DataFrame(rows).to_csv(path, index=False)


def _write_data(folder: Path) -> None:
    splits = {"train": 19600, "held_out": 400, "evaluation": 500}
    _json(
        folder,
        "data/figures/download.json",
        {
            "source": "storybook",
            "splits": {name: {"stories": n, "words": 92 * n, "bytes": 480 * n} for name, n in splits.items()},
        },
    )
    _json(
        folder,
        "data/figures/vocab.json",
        {
            "size": 1204,
            "words_seen": 1200,
            "words_seen_once": 3,
            "unknown_share": {"train": 0.0, "held_out": 0.0, "evaluation": 0.0005},
            "tokens": {name: 94 * n for name, n in splits.items()},
            "sequence_length": {"mean": 94.2, "longest": 181},
            "embedding": {"source": "skipgram", "width": 128, "coverage": 1.0},
        },
    )
    for stage, spent in {
        "download": 3.1,
        "vocab": 9.8,
        "train": 182.0,
        "evaluate": 41.0,
        "beam_bench": 30.2,
        "kv_bench": 61.0,
        "accum_sweep": 2.0,
        "ckpt_bench": 18.0,
        "seeds": 0.3,
    }.items():
        _json(folder, f"metrics/{stage}_time.json", {"seconds": spent, "conditions": CONDITIONS})


def _write_training(folder: Path, updates: int) -> None:
    rng = np.random.default_rng(0)
    per_update = 1_500_000 // updates
    curve, rates = [], []
    for step in range(10, updates + 1, 10):
        train = 1.9 + 5 * math.exp(-step / (updates / 6)) + rng.normal(0, 0.04)
        curve.append({"step": step, "tokens": step * per_update, "series": "train", "value": train})
        if step % 50 == 0:
            value = 1.95 + 5 * math.exp(-step / (updates / 6))
            curve.append({"step": step, "tokens": step * per_update, "series": "held-out", "value": value})
        rate = 3e-3 * min(step / (0.05 * updates), 0.5 + 0.5 * math.cos(math.pi * step / updates))
        rates.append({"step": step, "tokens": step * per_update, "series": "learning rate", "value": rate})
    _csv(folder, "plots/loss.csv", curve)
    _csv(folder, "plots/perplexity.csv", [row | {"value": math.exp(row["value"])} for row in curve])
    _csv(folder, "plots/learning_rate.csv", rates)
    norms = [row | {"series": "gradient norm", "value": 1.5 + 1 / (1 + row["step"])} for row in rates]
    _csv(folder, "plots/grad_norm.csv", norms)
    parts = {"embedding": 154112, "blocks": 790016, "output": 0, "norms": 256}
    _json(
        folder,
        "data/figures/train.json",
        {
            "precision": "bf16",
            "parameters": 944384,
            "parameters_by_part": parts,
            "updates": updates,
            "tokens": 1500000,
            "epochs": 0.82,
            "train_loss": 1.91,
            "held_out_loss_last": 1.962,
            "held_out_loss_best": 1.962,
            "best_update": updates,
            "held_out_perplexity": math.exp(1.962),
            "stopped_early": False,
            "forward_flop_per_token": 2100000,
            "training_flop_per_token": 6300000,
        },
    )
    _json(
        folder,
        "metrics/train_time.json",
        {"seconds": 182.0, "train_s": 170.1, "tokens_per_s": 8818.0, "conditions": CONDITIONS},
    )
    story = "once upon a time there was a little fox named tim he lived in a small house near the river"
    _json(
        folder,
        "models/samples.json",
        [
            {"update": update, "tokens": update * per_update, "text": story}
            for update in range(updates // 5, updates + 1, updates // 5)
        ],
    )


def _write_evaluation(folder: Path, layers: int, heads: int, sentences: list[str]) -> None:
    rng = np.random.default_rng(1)
    plain = {"uniform": 1204.0, "unigram": 182.0, "kneser_ney": 9.4, "floor": 5.9}
    baselines: dict = {name: {"perplexity": v, "nats_per_token": math.log(v)} for name, v in plain.items()}
    baselines["kneser_ney"]["order"] = 5
    _json(
        folder,
        "data/figures/evaluate.json",
        {
            "perplexity": 7.1,
            "nats_per_token": math.log(7.1),
            "tokens": 47000,
            "bits_per_byte": 0.58,
            "unknown_share": 0.0005,
            "perplexity_interval": [6.9, 7.3],
            "protocol": "every token but the first <sos> scored, non-overlapping windows of 192 tokens.",
            "baselines": baselines,
            "heads": {
                "passages": 200,
                "classified_share": 0.98,
                "margin": 0.1,
                "not_measured": {"sentence start": "the tokens hold no sentence ends"},
                "ablation": {"stories": 40, "nats_per_token": 1.95},
                "tagger": {"words": 25000, "right": 0.985, "unknown": 0.001},
                "induction": {
                    "sequences": 20,
                    "tokens": 25,
                    "nats_first": 14.0,
                    "nats_second": 13.0,
                    "saved": {"value": 1.0, "low": 0.5, "high": 1.5},
                    "even": 0.03,
                    "heads": [
                        {"layer": layer + 1, "head": head + 1, "score": 0.1 * layer + 0.02 * head}
                        for layer in range(layers)
                        for head in range(heads)
                    ],
                },
                "logit_lens": [
                    {"layer": layer, "nats_per_token": 9.0 - layer, "same_as_last": 1 / (layers + 1 - layer)}
                    for layer in range(layers + 1)
                ],
            },
            "pairs": _pairs(),
            "cache": {"texts": 50, "same": 50, "bleu4": {"cache": 4.1, "no_cache": 4.1}},
            "sense": {
                "protocol": "A continuation is read up to its first impossible word",
                "kinds": {"person": "somebody else than the story has there", "grammar": "no story has it"},
                "methods": {
                    "references": _sense(None),
                    "decode": _sense(38.0),
                    "greedy": _sense(46.0),
                    "temperature 0.5": _sense(73.0),
                    "temperature 1": _sense(20.0),
                    "kneser_ney": _sense(4.6),
                },
                "training": [{"update": n, "tokens": 1000 * n} | _sense(n / 10) for n in (100, 200, 300)],
            },
            "memorised": {
                "protocol": "Words as the model has them.",
                "train_stories": 19600,
                "continuations": _copied(9.0, 1),
                "references": _copied(6.0, 0),
            },
            "samples": {
                "count": 50,
                "protocol": "50 starts of stories, 5 tokens each, continued at temperature 0.8",
                "continuation_perplexity": _interval(4.2),
                "reference_perplexity": _interval(7.0),
                "bleu1": _interval(31.0),
                "bleu2": _interval(14.0),
                "bleu3": _interval(7.5),
                "bleu4": _interval(4.1, 0.4),
                "sentence_bleu": 5.2,
                "brevity_penalty": 0.98,
                "hypothesis_tokens": 2900,
                "reference_tokens": 2950,
                "distinct1": 0.21,
                "distinct2": 0.58,
                "distinct3": 0.8,
                "repeated_4grams": 0.07,
                "reference_distinct1": 0.24,
                "reference_distinct2": 0.64,
                "reference_distinct3": 0.85,
                "reference_repeated_4grams": 0.04,
            },
        },
    )
    _csv(
        folder,
        "data/evaluate/samples.csv",
        [
            {
                "prompt": "once upon a time there",
                "reference": f"was a small cat {i} who liked the blue river",
                "continuation": f"was a little dog {i} who lived near the forest and loved to run",
                "perplexity": 4.0 + i / 7,
                "reference_perplexity": 6.5,
                "bleu": 3.3 * i,
                "finished": i % 2 == 0,
            }
            for i in range(12)
        ],
    )
    arrays: dict[str, np.ndarray] = {}
    for number, sentence in enumerate(sentences):
        words = ["<sos>", *sentence.split()]
        maps = np.tril(rng.gamma(0.3, size=(layers, heads, len(words), len(words)))) + 1e-6
        maps = np.tril(maps)
        arrays[f"words_{number + 1}"] = np.array(words)
        arrays[f"maps_{number + 1}"] = (maps / maps.sum(axis=-1, keepdims=True)).astype(np.float32)
        arrays |= {f"next_{number + 1}": np.array("and"), f"next_prob_{number + 1}": np.array(0.731)}
    (folder / "data/evaluate").mkdir(parents=True, exist_ok=True)
    np.savez(folder / "data/evaluate/attention.npz", **arrays)  # type: ignore[arg-type]
    moments: dict = {
        "epochs": np.array([0.1, 0.5]),
        "words": arrays["words_1"],
        "maps": np.stack([arrays["maps_1"]] * 2),
    }
    np.savez(  # type: ignore[arg-type]
        folder / "data/evaluate/moments.npz", **moments, next=np.array(["a", "and"]), next_prob=np.array([0.02, 0.4])
    )
    _write_heads(folder, layers, heads, rng)
    _write_roles(folder, layers, heads)
    probabilities = {"ran": 0.9312, "home": 0.4, "<eos>": 0.003}
    _csv(
        folder,
        "data/evaluate/greedy.csv",
        [
            {"prompt": prompt, "number": number, "token": token, "probability": probability}
            for prompt in ("the fox", "the fox")
            for number, (token, probability) in enumerate(probabilities.items(), start=1)
        ],
    )


def _copied(longest: float, whole: int) -> dict:
    """What 12 texts share with train."""
    return {
        "count": 12,
        "words": 700,
        "longest_run": _interval(longest),
        "longest_run_median": longest,
        "longest_run_largest": 21,
        "whole": whole,
        "new": {str(n): _interval(0.1 * n) for n in range(1, 9)},
        "overlap": _interval(0.2),
    }


def _share(value: float, width: float = 0.05) -> dict:
    return {"value": value, "low": max(value - width, 0.0), "high": min(value + width, 1.0)}


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
        name: {"about": about, "pairs": 200, "model": _share(model), "untrained": _share(0.48), "unigram": _share(0.5)}
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
            for place, epochs in enumerate((0.0, 0.1, 0.5, None))
        ],
    }


def _write_pairs(folder: Path) -> None:
    start = "Once upon a time there was a girl named Mia. "
    rows = {"word order": ("Mia saw the red ball.", "Mia saw the ball red."), "a and an": ("An owl.", "A owl.")}
    _csv(
        folder,
        "data/evaluate/pairs.csv",
        [
            {"phenomenon": name, "right": start + right, "wrong": start + wrong, "model": 1.5, "kneser_ney": 0.5}
            for name, (right, wrong) in rows.items()
            for _ in range(2)
        ],
    )


def _write_heads_training(folder: Path, layers: int, heads: int) -> None:
    """Attention that grows sharper, heads that part, and a role that is there from epoch 0.1 on."""
    _csv(
        folder,
        "data/evaluate/heads_training.csv",
        [
            {
                "epochs": "" if epochs is None else epochs,
                "layer": layer + 1,
                "head": head + 1,
                "entropy_nats": 4.0 - 0.5 * place,
                "bits_from_layer": 0.1 * place * (layer + 1),
                "previous token": 0.3 * bool(place) - 0.1 * head,
            }
            for place, epochs in enumerate((0.0, 0.1, 0.5, None))
            for layer in range(layers)
            for head in range(heads)
        ],
    )


def _write_sense(folder: Path) -> None:
    _csv(
        folder,
        "data/evaluate/sense.csv",
        [
            {
                "method": method,
                "story": f"once upon a time there was a girl named amy {i}",
                "word": "he",
                "kind": "person",
                "instead": "amy, she",
            }
            for method in ("decode", "greedy")
            for i in range(10)
        ],
    )


def _write_memorised(folder: Path) -> None:
    _csv(
        folder,
        "data/evaluate/memorised.csv",
        [
            {
                "prompt": f"once upon a time {i}",
                "text": text,
                "words": 30,
                "longest_run": 5 + i,
                "run": f"was a little dog {i} who",
                "run_story": i,
                **{f"new_{n}": 0.1 * n for n in range(1, 9)},
                "overlap": 0.25,
                "nearest_story": 100 + i,
                "nearest": f"the nearest story {i}",
            }
            for i in range(12)
            for text in ("continuation", "reference")
        ],
    )


def _write_seeds(folder: Path, updates: int) -> None:
    figures = {"perplexity": 7.1, "nats_per_token": 1.96, "bits_per_byte": 0.58, "held_out_loss": 1.962}
    _json(
        folder,
        "data/figures/seeds.json",
        {
            "n": 3,
            "seeds": [1, 2, 3],
            **{name: {"mean": value, "sd": value / 100, "difference": value / 16} for name, value in figures.items()},
            "by_seed": {str(seed): {name: value + seed / 50 for name, value in figures.items()} for seed in (1, 2, 3)},
        },
    )
    rows = []
    for shift, series in enumerate(("lowest", "seed 1", "mean", "seed 2", "seed 3", "highest")):
        for step in range(50, updates + 1, 50):
            value = 1.9 + shift / 50 + 5 * math.exp(-step / (updates / 6))
            rows.append({"step": step, "tokens": 1_500_000 // updates * step, "series": series, "value": value})
    _csv(folder, "plots/seeds.csv", rows)


def _write_roles(folder: Path, layers: int, heads: int) -> None:
    """Head 1 of layer 1 looks at the previous token and is needed; the last head is idle."""
    places = [(layer + 1, head + 1) for layer, head in np.ndindex(layers, heads)]
    roles = {"previous token": 0.85, "subject-verb": 0.31, "punctuation": 0.12}
    rows = [
        {
            "layer": layer,
            "head": head,
            "role": role,
            "score": score if (layer, head) == (1, number) else 0.2,
            "baseline": 0.2,
            "positions": 900,
            "claimed": (layer, head) == (1, number) and score > 0.3,
        }
        for number, (role, score) in enumerate(roles.items(), start=1)
        for layer, head in places
    ]
    _csv(folder, "data/evaluate/roles.csv", rows)
    ablation = []
    for layer, head in places:
        increase = 0.4 / (layer * head) if (layer, head) != places[-1] else 0.0
        ends = {"loss_increase": increase, "low": increase - 0.01, "high": increase + 0.01}
        ablation.append({"layer": layer, "head": head, "nats_per_token": 1.95 + increase} | ends)
    _csv(folder, "data/evaluate/ablation.csv", ablation)


def _write_heads(folder: Path, layers: int, heads: int, rng: np.random.Generator) -> None:
    rows = []
    for layer, head in np.ndindex(layers, heads):
        row: dict = {"layer": layer + 1, "head": head + 1}
        for name in WEIGHTS:
            row |= {name: round(float(rng.beta(0.6, 4)), 4), f"{name}_even": 0.05}
        row |= {"entropy_nats": float(rng.uniform(0.5, 3)), "entropy_nats_even": 3.1}
        row |= {"distance_tokens": float(rng.uniform(1, 20)), "distance_tokens_even": 15.0}
        strong = row["previous"] > 0.2
        row["interpretation"] = (
            "the previous token: 30% of the weight (5% if spread evenly)" if strong else "spread evenly"
        )
        rows.append(row)
    rows[-1] |= {"previous": 0.91, "interpretation": "the previous token: 91% of the weight (5% if spread evenly)"}
    _csv(folder, "data/evaluate/heads.csv", rows)
    _csv(
        folder,
        "data/evaluate/head_distances.csv",
        [
            {
                "layer": i // heads + 1,
                "head": i % heads + 1,
                "other_layer": j // heads + 1,
                "other_head": j % heads + 1,
                "bits": f"{((j - i) / layers / heads) ** 2:.5f}",
            }
            for i in range(layers * heads)
            for j in range(i + 1, layers * heads)
        ],
    )


def _write_benches(folder: Path) -> None:
    quality = {
        "sampling": (4.0, -2.0, 0.60, 0.05),
        "greedy": (5.0, -1.0, 0.45, 0.20),
        "beam 1": (5.0, -1.0, 0.45, 0.20),
        "beam 5": (5.4, -0.8, 0.40, 0.28),
        "beam 10": (5.5, -0.78, 0.38, 0.30),
    }
    _json(
        folder,
        "data/figures/beam_bench.json",
        {
            "prompts": 10,
            "new_tokens": 60,
            "methods": {
                name: {
                    "bleu4": bleu,
                    "log_prob_per_token": log,
                    "log_prob": 60 * log,
                    "distinct2": d2,
                    "repeated_4grams": r,
                    "sense": _sense(20.0 + len(name)),
                }
                for name, (bleu, log, d2, r) in quality.items()
            },
        },
    )
    speeds = {"sampling": 1500.0, "greedy": 1550.0, "beam 1": 1200.0, "beam 5": 420.0, "beam 10": 240.0}
    _json(
        folder,
        "metrics/beam_bench_time.json",
        {
            "seconds": 30.2,
            "conditions": CONDITIONS,
            "methods": {name: trials(tokens_per_s=speed, s_per_prompt=60 / speed) for name, speed in speeds.items()},
        },
    )
    _csv(
        folder,
        "data/beam_bench/outputs.csv",
        [
            {
                "prompt": f"the {animal} went to",
                "reference": "the river to drink",
                "method": name,
                "text": f"the forest and saw a {animal} {name}",
                "log_prob": -60.0,
                "score": -5.1,
            }
            for animal in ("fox", "owl")
            for name in quality
        ],
    )
    _json(folder, "data/figures/kv_bench.json", {"batch": 20, "same_ids": True, "lengths": [32, 64, 128, 256]})
    _json(
        folder,
        "metrics/kv_bench_time.json",
        {
            "seconds": 61.0,
            "conditions": CONDITIONS,
            "settings": [
                {
                    "new_tokens": n,
                    "cache": cache,
                    **trials(tokens_per_s=2500 - n if cache else 36000 / n, first_token_s=0.02),
                    **trials(rest_s_per_token=0.008 if cache else n / 2000),
                    "peak_mib": 40 + n / 8 if cache else 60 + n / 4,
                    "process_mib": 500.0,
                    "past_context": n + 5 > 192,
                }
                for n in (32, 64, 128, 256)
                for cache in (True, False)
            ],
        },
    )
    _write_accumulation(folder)
    _json(folder, "data/figures/ckpt_bench.json", {"same_loss": True, "same_gradients": True, "depths": [2, 4, 8]})
    _json(
        folder,
        "metrics/ckpt_bench_time.json",
        {
            "seconds": 18.0,
            "conditions": CONDITIONS,
            "settings": [
                {
                    "layers": n,
                    "recompute": on,
                    "peak_mib": 60 + n * (8 if on else 55),
                    **trials(step_s=n * (0.13 if on else 0.1), epoch_s=600 * n * (0.13 if on else 0.1)),
                }
                for n in (2, 4, 8)
                for on in (True, False)
            ],
            "other_ways": [
                {"layers": n, "recompute": "sqrt", "peak_mib": 61 + n, **trials(step_s=n * 0.15, epoch_s=90.0 * n)}
                for n in (2, 4, 8)
            ],
        },
    )


def trials(**times: float) -> dict[str, float]:
    """Figures with the lowest and highest trial of each, two hundredths apart."""
    return {
        name: value * by
        for key, value in times.items()
        for name, by in ((key, 1), (f"low_{key}", 0.99), (f"high_{key}", 1.01))
    }


def _write_accumulation(folder: Path) -> None:
    steps = (1, 2, 4, 8)
    _json(
        folder,
        "data/figures/accum_sweep.json",
        {
            "batch_size": 16,
            "budget_tokens": 160000,
            "equal_updates": 13,
            "learning_rate": "the same peak rate",
            "settings": {
                str(n): {
                    "updates": 104 // n,
                    "tokens": 160000,
                    "held_out_loss_at_equal_tokens": 4.0 + 0.12 * n,
                    "held_out_loss_at_equal_updates": 5.0 - 0.02 * n,
                    "train_loss_last_tenth": 4.0 + 0.1 * n,
                }
                for n in steps
            },
            "answers": [
                "Equal tokens: which setting learns most from the same text.",
                "Equal updates: what a larger batch gives each update.",
            ],
        },
    )
    _json(
        folder,
        "metrics/accum_sweep_time.json",
        {
            "seconds": 2.0,
            "settings": {
                str(n): trials(epoch_s=210.0 + n, tokens_per_s=8700.0 - 10 * n) | {"peak_mib": 140.0 + n} for n in steps
            },
        },
    )
    rng = np.random.default_rng(3)
    for name, x in {"tokens": "tokens", "updates": "update", "micro_steps": "micro_step"}.items():
        rows = []
        for n in steps:
            for i in range(n, 105, n):
                place = {"tokens": 1540 * i, "updates": i // n, "micro_steps": i}[name]
                value = 4.0 + 0.1 * n + 3 * math.exp(-i / n / 20) + rng.normal(0, 0.03)
                rows.append({x: place, "series": f"accumulation {n}", "value": value})
        _csv(folder, f"plots/accum_{name}.csv", rows)


def write_run(folder: Path, *, updates: int, layers: int, heads: int, sentences: list[str]) -> None:
    """Write every file of a run below `folder`, with plausible figures."""
    _write_data(folder)
    _write_training(folder, updates)
    _write_evaluation(folder, layers, heads, sentences)
    _write_memorised(folder)
    _write_sense(folder)
    _write_pairs(folder)
    _write_heads_training(folder, layers, heads)
    _write_seeds(folder, updates)
    _write_benches(folder)


@pytest.fixture(scope="module", autouse=True)
def times_of_any_result():
    """The times here are those of metrics/*_time.json, with whatever result; tests/host/test_times.py has the rule."""

    def read_times(name: str, stage: str, made: str, folder: str) -> dict | None:
        path = Path(folder) / f"metrics/{name}_time.json"
        return read_json(path) if path.exists() else None

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sources, "read_times", read_times)
        yield


@pytest.fixture(scope="session")
def params() -> dict:
    """The parameters of the default preset, with two moments of training kept."""
    import tinylm

    chosen = yaml.safe_load((Path(tinylm.__file__).parent / "presets/storybook.yaml").read_text(encoding="utf-8"))
    chosen["train"]["keep_epochs"] = [0.1, 0.5]
    return chosen


@pytest.fixture(scope="session")
def make_run() -> Callable[[Path], None]:
    """Writes a small complete run into a folder."""
    return partial(write_run, updates=100, layers=2, heads=3, sentences=["the fox ran home", "a small owl"])


@pytest.fixture
def run_folder(tmp_path: Path, make_run: Callable[[Path], None]) -> Path:
    """A small complete run."""
    make_run(tmp_path)
    return tmp_path
