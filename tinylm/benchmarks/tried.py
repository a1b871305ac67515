"""What was tried for the recipe of tinystories-2m and is not in it: each candidate trained with it and without.

Data, shape and rates of line `loss`, at two budgets; one thread a run, two runs at once. The rates of both optimizers
are tried with the first seed at the small budget (times 1, 0.7, 1.4); the best on held-out is then run with three seeds
there, and at the larger budget if it is better there, beside the recipe at the same rates. Kept in docs/candidates.json
run by run; called again, only what is missing runs.

python -m tinylm.benchmarks.tried [NAME ...]
"""

import concurrent.futures
import dataclasses
import json
import statistics
import subprocess
import sys
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from tinylm.base.files import read_json, write_json
from tinylm.bench.seeds import student_tail
from tinylm.benchmarks import loss
from tinylm.benchmarks.candidates import CANDIDATES, Candidate
from tinylm.benchmarks.options import Options
from tinylm.benchmarks.shape import AS_NANOGPT, PAD_ID, model_settings, section, train_settings
from tinylm.host.command import guard
from tinylm.scoring.split_loss import split_loss
from tinylm.text.tokens.batches import scoring_batches
from tinylm.text.tokens.token_store import TokenStore
from tinylm.text.tokens.tokenizer import open_tokenizer
from tinylm.text.vectors.matrix import embedding_matrix
from tinylm.text.vectors.settings import EmbeddingSettings
from tinylm.training.assembly import assemble
from tinylm.training.trainer import Trainer

BUDGETS = (125_000, 500_000)  # tokens, with the recipe's rates for short and for longer runs
FACTORS, SEEDS = (1.0, 0.7, 1.4), (1, 2, 3)
PLAIN = "the recipe"
FILE, OPTIONS = Path("docs/candidates.json"), Options()


def trained(
    name: str, budget: int, seed: int, factor: float, options: Options = OPTIONS, corpus: str | None = None
) -> float:
    """Held-out nats per token."""
    candidate = CANDIDATES[name]
    torch.set_num_threads(1)
    folder, shape = loss.prepare(options, corpus or loss.default_corpus())
    shape = dataclasses.replace(shape, dropout=0.0)
    recipe = loss.recipes_of(loss.RECIPE)[budget > BUDGETS[0]]
    train = recipe["train"] | candidate.train | {"tokens": budget, "seed": seed}
    train |= {rate: train[rate] * factor for rate in ("lr", "muon_lr")}
    train["batch_size"] = round(train["batch_size"] * train.pop("batch", 1))
    settings = train_settings(shape, **train)
    model = recipe["model"] | candidate.form
    vectors = section("embedding", EmbeddingSettings, {"width": shape.width} | recipe["embedding"])
    stores = {split: TokenStore(folder / "tokens", split) for split in ("train", "held_out")}
    tokenizer = open_tokenizer(folder / "tokenizer.json")
    matrix, _ = embedding_matrix(vectors, tokenizer, lambda: (), lambda: stores["train"].ids)
    form = model_settings(shape, AS_NANOGPT | model)
    made = assemble(form, settings, torch.from_numpy(matrix), stores, PAD_ID, "cpu", 1)
    candidate.build(made.model)
    trainer = Trainer(made.model, made.batches, settings)
    candidate.learner(trainer)
    run(trainer, candidate, budget)
    batches = list(scoring_batches(stores["held_out"], "stream", 32, shape.context, PAD_ID))
    nats, tokens = split_loss(made.model, batches)
    return nats / tokens


def run(trainer: Trainer, candidate: Candidate, budget: int) -> None:
    """Train to the end; the average replaces the weights if the candidate has one."""
    place = taken = 0
    mean: list[Tensor] = []
    while True:
        progress = trainer.tokens / budget
        upcoming = candidate.batches(trainer, place, progress)
        if trainer.tokens + sum(batch.tokens for batch in upcoming) > trainer.end:
            break
        place += len(upcoming)
        trainer.update(upcoming)
        share = candidate.average(trainer.tokens / budget, taken)
        if share is not None:
            weights = [p.detach() for p in trainer.model.parameters()]
            mean = mean or [torch.zeros_like(p) for p in weights]
            torch._foreach_lerp_(mean, weights, share)
            taken += 1
    with torch.no_grad():
        for parameter, value in zip(trainer.model.parameters(), mean, strict=False):
            parameter.copy_(value)


def main() -> None:
    if sys.argv[1:2] == ["--one"]:
        name, budget, seed, factor = json.loads(sys.argv[2])
        print(trained(name, budget, seed, factor))
        return
    results: dict[str, float] = read_json(FILE) if FILE.exists() else {}

    def do(*task: Any) -> float:
        key = json.dumps(task)
        if key not in results:
            command = [sys.executable, "-m", "tinylm.benchmarks.tried", "--one", key]
            results[key] = float(subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout)
            write_json(FILE, dict(results))
        return results[key]

    small, large = BUDGETS
    loss.prepare(OPTIONS, loss.default_corpus())

    factors: dict[str, float] = {}
    found: dict[str, list[list[float]]] = {}

    def short(name: str) -> None:
        factors[name] = min(FACTORS, key=lambda factor: do(name, small, SEEDS[0], factor))
        found[name] = [[do(name, small, seed, factors[name]) for seed in SEEDS]]

    def longer(name: str) -> None:
        found[name].append([do(name, large, seed, factors[name]) for seed in SEEDS])

    names = list(dict.fromkeys([PLAIN, *(sys.argv[1:] or CANDIDATES)]))
    with concurrent.futures.ThreadPoolExecutor(2) as both:
        list(both.map(short, names))
        limit = statistics.fmean(found[PLAIN][0])
        kept = [name for name in names if statistics.fmean(found[name][0]) <= limit]
        beside = [(small, factor) for factor in set(factors.values())]
        beside += [(large, factor) for factor in {factors[name] for name in kept}]
        tasks = [(budget, seed, factor) for budget, factor in beside for seed in SEEDS]
        losses = dict(zip(tasks, both.map(lambda task: do(PLAIN, *task), tasks), strict=True))
        list(both.map(longer, kept))
    plain: dict[float, list[list[float]]] = {}
    for budget, factor in beside:
        plain.setdefault(factor, []).append([losses[budget, seed, factor] for seed in SEEDS])
    print(table({name: (factors[name], found[name]) for name in names}, plain))


def table(of_all: dict[str, tuple[float, list[list[float]]]], plain: dict[float, list[list[float]]]) -> str:
    """Markdown: mean held-out losses; differences from the recipe at the same rates, seed by seed, and their p."""
    lines = ["| candidate | rates times | after 125,000 tokens | after 500,000 tokens |", "|---|---|---|---|"]
    rows = [
        (PLAIN, factor, [f"{statistics.fmean(losses):.3f}" for losses in plain[factor]]) for factor in sorted(plain)
    ]
    for name, (factor, found) in of_all.items():
        cells = []
        for mine, base in zip(found, plain[factor], strict=False):
            apart = [one - other for one, other in zip(mine, base, strict=True)]
            mean, error = statistics.fmean(apart), statistics.stdev(apart) / len(apart) ** 0.5
            p = student_tail(mean / error, len(apart) - 1) if error else 1.0
            cells.append(f"{statistics.fmean(mine):.3f} ({mean:+.3f} ± {error:.3f}, p = {p:.2g})")
        rows += [(name, factor, cells)] if name != PLAIN else []
    for name, factor, cells in rows:
        lines.append(f"| {name} | {factor:g} | {' | '.join(cells + ['–'] * (len(BUDGETS) - len(cells)))} |")
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(guard(main))
