"""Stages download, vocab, train and seeds: counts, curves and weights of two runs."""

import math
import statistics
from itertools import pairwise

import numpy as np
import pytest
import torch

from tests.recomputed.plain_run import PlainRun


def near(value, rel=1e-4):
    return pytest.approx(value, rel=rel, abs=1e-5)


def assert_weights(model, expected):
    """Without the biases of keys, which softmax takes away: their gradient is rounding."""
    for name, tensor in model.state_dict().items():
        wanted = expected[name]
        if name.endswith("qkv.bias"):
            tensor, wanted = (torch.cat([t.chunk(3)[0], t.chunk(3)[2]]) for t in (tensor, wanted))
        torch.testing.assert_close(tensor, wanted, rtol=1e-3, atol=1e-4)


def test_words_and_ids(plain):
    download, vocab = (plain.json(f"data/figures/{name}") for name in ("download", "vocab"))
    data = plain.folder / "data"
    assert plain.one.read_vocabulary(data) == plain.vocabulary
    assert vocab["size"] == len(plain.vocabulary) == len(plain.one.read_embedding(data))
    assert vocab["words_seen"] == len(plain.counts)
    assert vocab["words_seen_once"] == list(plain.counts.values()).count(1)
    for split, stories in plain.ids.items():
        assert plain.one.read_stories(data, split) == stories
        words = sum(len(story) - 2 for story in stories)
        assert download["splits"][split] == {"stories": len(stories), "words": words}
        assert vocab["tokens"][split] == words + 2 * len(stories)
        unknown = sum(story.count(3) for story in stories) / words
        assert vocab["unknown_share"][split] == near(unknown)
        assert vocab["coverage"][split] == near(1 - unknown)
    texts = {tuple(story) for stories in plain.words.values() for story in stories}
    assert len(texts) == sum(map(len, plain.ids.values())) == 90
    lengths = [len(story) for story in plain.words["train"]]
    expected = {"mean": near(statistics.mean(lengths)), "median": statistics.median(lengths)}
    assert vocab["sequence_length"] == expected | {"largest": max(lengths)}


def test_curves(plain):
    run = plain.training
    ends = range(10, len(run.loss) + 1, 10)
    rows = [(end, run.tokens[end - 1], np.mean(run.loss[end - 10 : end])) for end in ends]
    norms = [(*row[:2], np.mean(run.norm[row[0] - 10 : row[0]])) for row in rows]
    expected = {
        "loss": {"train": rows, "held-out": run.held_out},
        "learning_rate": {"learning rate": [(*row[:2], run.rate[row[0] - 1]) for row in rows]},
        "grad_norm": {"gradient norm": norms},
    }
    expected["perplexity"] = {
        series: [(step, tokens, math.exp(loss)) for step, tokens, loss in values]
        for series, values in expected["loss"].items()
    }
    for name, of_table in expected.items():
        table = plain.table(f"plots/{name}")
        assert set(table["series"]) == set(of_table)
        for series, values in of_table.items():
            found = table.loc[table["series"] == series, ["step", "tokens", "value"]]
            np.testing.assert_allclose(found.to_numpy(), values, rtol=1e-4)


def test_metrics_and_weights(plain):
    run = plain.training
    metrics = plain.json("data/figures/train")
    last = run.held_out[-1]
    saved = last if plain.train["patience"] is None else run.best
    assert (saved != last) == run.stopped_early == (plain.train["patience"] is not None)
    model = plain.model()
    expected = {
        "seed": plain.train["seed"],
        "updates": len(run.loss),
        "tokens": run.tokens[-1],
        "epochs": near(run.tokens[-1] / plain.tokens_per_epoch),
        "train_loss": near(np.mean(run.loss[-20:])),
        "held_out_loss_last": near(last[2]),
        "held_out_loss_best": near(run.best[2]),
        "best_update": run.best[0],
        "held_out_perplexity": near(math.exp(saved[2])),
        "stopped_early": run.stopped_early,
        "parameters": sum(p.numel() for p in model.parameters()),
    }
    assert expected == {name: metrics[name] for name in expected}
    done = [tokens // plain.tokens_per_epoch for tokens in [0, *run.tokens]]  # whole epochs
    ends = [number for number in range(1, len(done)) if done[number] > done[number - 1]]
    of_epochs = []
    for start, end in pairwise([0, *ends]):
        loss = near(next(loss for step, _, loss in run.held_out if step == end))
        row = {"epoch": done[end], "update": end, "train_loss": near(np.mean(run.loss[start:end]))}
        of_epochs.append(row | {"held_out_loss": loss})
    for row in metrics.get("by_epoch", []):
        assert row.pop("held_out_perplexity") == near(math.exp(row["held_out_loss"]))
    assert metrics.get("by_epoch", []) == of_epochs
    assert_weights(model, run.weights[saved[0]])
    kept = {path.stem for path in (plain.folder / "models/checkpoints").iterdir()}
    for share in (0.02, 0.05, 0.1, 0.25, 0.5):
        goal = share * plain.train["tokens"]
        name = f"{goal / plain.tokens_per_epoch:.3g}"
        assert (name in kept) == (goal <= run.tokens[-1])
        if name in kept:
            update = 1 + sum(tokens < goal for tokens in run.tokens)
            assert_weights(plain.model(f"models/checkpoints/{name}"), run.weights[update])
    times, shown = plain.json("data/times/train"), plain.json("metrics/train")
    assert times["tokens_per_s"] == near(run.tokens[-1] / times["train_s"], rel=1e-2)
    epoch_s = pytest.approx(plain.tokens_per_epoch / times["tokens_per_s"], abs=0.01)
    assert shown == {"val_loss": near(saved[2]), "epoch_s": epoch_s}


def test_another_seed_and_the_spread(finished_run):
    plain = PlainRun(finished_run, seed=2)
    run = plain.training
    held_out = plain.json("data/seeds/2/run")["held_out"]
    np.testing.assert_allclose(held_out, run.held_out, rtol=1e-4)
    table = plain.table("plots/seeds")
    plotted = table.loc[table["series"] == "seed 2", ["step", "tokens", "value"]]
    np.testing.assert_allclose(plotted.to_numpy(), run.held_out, rtol=1e-4)
    models = [plain.model(), plain.model("data/seeds/2/model")]
    assert_weights(models[1], run.weights[-1])
    losses = [plain.loss(model, plain.ids["evaluation"]) for model in models]
    seeds = plain.json("data/figures/seeds")
    held_out = [plain.loss(model, plain.ids["held_out"]) for model in models]
    for name, values in (
        ("nats_per_token", losses),
        ("perplexity", np.exp(losses)),
        ("held_out_loss", held_out),
    ):
        assert [seeds["by_seed"][seed][name] for seed in "12"] == near(list(values))
        sd = np.std(values, ddof=1)
        assert seeds[name]["mean"] == near(np.mean(values))
        assert seeds[name]["sd"] == near(sd, rel=1e-3)
        assert seeds[name]["difference"] == near(12.7062 * 2**0.5 * sd, rel=1e-3)  # t, df 1
