"""Stages download, vocab and train: counts, curves and weights of two runs; and the model in one file."""

import math
from itertools import chain, pairwise

import numpy as np
import pytest

from tests.support.plain_run import ONE_FILE, PlainRun, assert_weights, constants, near
from tinylm.base.config import load_params
from tinylm.decoding.settings import DecodeSettings
from tinylm.decoding.texts import generate_text
from tinylm.learn.worker import load
from tinylm.model.checkpoint import load_model
from tinylm.presets.write import FOLDER
from tinylm.vocab.kinds import open_tokenizer


def test_words_and_ids(plain):
    download, vocab = (plain.json(f"data/figures/{name}") for name in ("download", "vocab"))
    data = plain.folder / "data"
    assert plain.one.read_vocabulary(data) == plain.vocabulary
    assert vocab["size"] == len(plain.vocabulary) == len(plain.one.read_embedding(data))
    assert vocab["words_seen"] == len(plain.counts)
    assert vocab["words_seen_once"] == list(plain.counts.values()).count(1)
    for split, stories in plain.ids.items():
        assert plain.one.read_stories(data, split) == stories
        ids = list(chain(*stories))
        words = len(ids) - 2 * len(stories)
        assert download["splits"][split] == {"stories": len(stories), "words": words}
        assert vocab["tokens"][split] == len(ids)
        assert vocab["unknown_share"][split] == near(ids.count(3) / words)
        assert vocab["coverage"][split] == near(1 - ids.count(3) / words)
    lengths = [len(story) for story in plain.words["train"]]
    found = [vocab["sequence_length"][name] for name in ("mean", "median", "largest")]
    assert found == near([np.mean(lengths), np.median(lengths), max(lengths)])


def test_curves(plain):
    run = plain.training
    ends = range(10, len(run.loss) + 1, 10)
    rows = [(end, run.tokens[end], np.mean(run.loss[end - 10 : end])) for end in ends]
    for series, expected in (("train", rows), ("held-out", run.held_out)):
        plain.assert_plotted("loss", series, expected)
        perplexities = [(step, tokens, math.exp(loss)) for step, tokens, loss in expected]
        plain.assert_plotted("perplexity", series, perplexities)
    rates = [(end, run.tokens[end], run.rate[end - 1]) for end in ends]
    plain.assert_plotted("learning_rate", "learning rate", rates)
    norms = [(end, run.tokens[end], np.mean(run.norm[end - 10 : end])) for end in ends]
    plain.assert_plotted("grad_norm", "gradient norm", norms)


def test_metrics_and_weights(plain):
    run = plain.training
    metrics = plain.json("data/figures/train")
    last = run.held_out[-1]
    saved = last if plain.train["patience"] is None else run.best
    assert (saved != last) == run.stopped_early == (plain.train["patience"] is not None)
    model = plain.model()
    assert_weights(model.state_dict(), run.weights[saved[0]])
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
    assert expected.items() <= metrics.items()
    times, shown = plain.json("data/times/train"), plain.json("metrics/train")
    assert times["tokens_per_s"] == near(run.tokens[-1] / times["train_s"], rel=1e-2)
    epoch_s = plain.tokens_per_epoch / times["tokens_per_s"]
    assert shown["epoch_s"] == pytest.approx(epoch_s, abs=0.01)
    assert shown["val_loss"] == near(saved[2])


def test_epochs_and_checkpoints(plain):
    run = plain.training
    epochs = [tokens // plain.tokens_per_epoch for tokens in run.tokens]  # whole ones
    ends = [number for number in range(1, len(epochs)) if epochs[number] > epochs[number - 1]]
    held_out = {update: loss for update, _, loss in run.held_out}
    expected = []
    for start, end in pairwise([0, *ends]):
        losses = {"train_loss": np.mean(run.loss[start:end]), "held_out_loss": held_out[end]}
        row = losses | {"held_out_perplexity": math.exp(held_out[end])}
        expected.append(near({"epoch": epochs[end], "update": end} | row))
    assert plain.json("data/figures/train").get("by_epoch", []) == expected
    kept = {path.stem for path in (plain.folder / "models/checkpoints").iterdir()}
    for share in (0.02, 0.05, 0.1, 0.25, 0.5):
        goal = share * plain.train["tokens"]
        name = f"{goal / plain.tokens_per_epoch:.3g}"
        assert (name in kept) == (goal <= run.tokens[-1])
        if name in kept:
            update = sum(tokens < goal for tokens in run.tokens)
            model = plain.model(f"models/checkpoints/{name}")
            assert_weights(model.state_dict(), run.weights[update])


def test_constants_are_the_default_settings():
    one = load(ONE_FILE, "one_file")
    expected = constants(load_params(FOLDER / "storybook.yaml"), one)
    assert len(expected) == 11
    assert {name: getattr(one, name) for name in expected} == expected


def test_greedy_text_equals_the_packages(finished_run):
    plain = PlainRun(finished_run)
    tokenizer = open_tokenizer(finished_run / "data/vocab/tokenizer.json")
    model, _ = load_model(finished_run / "models")
    (text,) = generate_text(
        model, tokenizer, ["one day"], DecodeSettings().greedy(), max_new_tokens=20
    )
    assert plain.one.greedy(plain.model(), plain.vocabulary, "one day", 20) == text
