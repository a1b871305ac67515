"""Stage evaluate: the loss of every story, n-grams, texts and heads of two runs."""

import math

import numpy as np
import pytest
import torch
from sacrebleu import sentence_bleu

from tests.evaluate.test_bleu import papineni
from tests.evaluate.test_ngram import SlowKneserNey
from tests.recomputed.test_training import near


def pooled(sums):
    return sums[0] / sums[1]


def perplexity(sums):
    return math.exp(pooled(sums))


def assert_measured(found, rows, statistic):
    """Value and interval of a statistic of sums over texts, which are drawn with replacement."""
    table = np.array(rows)
    draws = np.random.default_rng(5).integers(len(table), size=(1000, len(table)))
    expected = np.quantile([statistic(table[texts].sum(0)) for texts in draws], [0.025, 0.975])
    tolerance = 0.2 * (expected[1] - expected[0]) + 1e-6
    assert found["value"] == near(statistic(table.sum(0)))
    assert [found["low"], found["high"]] == pytest.approx(expected, abs=tolerance)


def test_losses(plain):
    metrics = plain.json("data/figures/evaluate")
    stories = plain.ids["evaluation"]
    model = plain.model()
    size = plain.one.CONTEXT
    of_tokens = [plain.nats(model, story) for story in stories]
    nats = [(sum(values), len(values)) for values in of_tokens]
    table = plain.table("data/evaluate/stories")
    np.testing.assert_allclose(table[["nats", "tokens"]].to_numpy(), nats, rtol=1e-4)
    assert metrics["tokens"] == sum(count for _, count in nats)
    assert metrics["stories"] == metrics["different_stories"] == len(stories)
    assert metrics["nats_per_token"] == near(pooled(np.sum(nats, axis=0)))
    value = [metrics["perplexity"], *metrics["perplexity_interval"]]
    units = nats
    if len(nats) < 5:  # too few stories: rows
        cuts = [np.array_split(v, range(size, len(v), size)) for v in of_tokens]
        units = [(sum(row), len(row)) for rows in cuts for row in rows]
    assert_measured(dict(zip(("value", "low", "high"), value, strict=True)), units, perplexity)
    assert plain.json("metrics/evaluate")["perplexity"] == metrics["perplexity"]
    words = [word for story in stories for word in story[1:-1]]
    assert metrics["unknown_share"] == near(words.count(3) / len(words))
    baselines = metrics["baselines"]
    assert baselines["uniform"]["perplexity"] == near(len(plain.vocabulary))
    for name, order in (("unigram", 1), ("kneser_ney", 5)):
        ngrams = SlowKneserNey(plain.ids["train"], order, len(plain.vocabulary))
        others = []
        for ids in stories:
            probs = [ngrams.prob(ids[:place], ids[place]) for place in range(1, len(ids))]
            others.append(-np.log(probs).sum())
        loss = sum(others) / metrics["tokens"]
        expected = {"nats_per_token": near(loss), "perplexity": near(math.exp(loss))}
        assert expected == {key: baselines[name][key] for key in expected}
    gained = [(own - other, count) for (own, count), other in zip(nats, others, strict=True)]
    assert_measured(baselines["kneser_ney"]["difference"], gained, pooled)


def grams_of(text, n):
    words = text.split()
    return [tuple(words[start : start + n]) for start in range(len(words) - n + 1)]


def shown(plain, ids):
    return " ".join(plain.vocabulary[token] for token in ids if token > 1)


def test_continuations(plain):
    settings = plain.params["evaluate"]
    metrics = plain.json("data/figures/evaluate")
    samples = metrics["samples"]
    model = plain.model()
    stories = plain.ids["evaluation"]
    table = plain.table("data/evaluate/samples")
    count = min(settings["stories"], len(stories))
    spread = np.linspace(0, len(stories) - 1, count).astype(int)
    assert table["story"].tolist() == spread.tolist()
    assert (samples["count"], samples["finished"]) == (len(table), table["finished"].sum())
    nats = {"perplexity": [], "reference_perplexity": []}
    cut = 1 + settings["prompt_tokens"]
    for row in table.to_dict("records"):
        ids = stories[row["story"]]
        reference = ids[cut : cut + settings["new_tokens"]]
        assert row["prompt"] == shown(plain, ids[:cut])
        assert row["reference"] == shown(plain, reference)
        new = [plain.vocabulary.index(word) for word in row["continuation"].split()]
        new += [1] * row["finished"]
        assert row["finished"] or len(new) == settings["new_tokens"]
        for name, text in (("perplexity", new), ("reference_perplexity", reference)):
            values = plain.nats(model, ids[:cut] + text)[cut - 1 :]
            nats[name].append((sum(values), len(values)))
            assert row[name] == near(math.exp(np.mean(values)))
        bleu = sentence_bleu(row["continuation"], [row["reference"]], tokenize="none")
        assert row["bleu"] == near(bleu.score / 100)
    assert_measured(samples["continuation_perplexity"], nats["perplexity"], perplexity)
    assert_measured(samples["reference_perplexity"], nats["reference_perplexity"], perplexity)
    sentences = [(value, 1) for value in table["bleu"]]
    assert_measured(samples["sentence_bleu"], sentences, pooled)
    known = [set(grams_of(shown(plain, story), 4)) for story in plain.ids["train"]]
    texts = {
        "continuation": table["continuation"].tolist(),
        "reference": table["reference"].tolist(),
    }
    for order in (1, 2, 3, 4):
        bleu = papineni(*texts.values(), order)
        assert samples[f"bleu{order}"]["value"] == near(bleu)
    for name, lines in texts.items():
        prefix = "reference_" if name == "reference" else ""
        for n in (1, 2, 3):
            grams = [gram for line in lines for gram in grams_of(line, n)]
            assert samples[f"{prefix}distinct{n}"] == near(len(set(grams)) / len(grams))
        fours = [grams_of(line, 4) for line in lines if grams_of(line, 4)]
        repeated = [1 - len(set(grams)) / len(grams) for grams in fours]
        assert samples[f"{prefix}repeated_4grams"] == near(np.mean(repeated))
        nearest = [max(len(set(grams) & own) for own in known) / len(set(grams)) for grams in fours]
        assert metrics["memorised"][f"{name}s"]["nearest"]["value"] == near(np.mean(nearest))


def test_heads(plain):
    model = plain.model()
    size = plain.one.CONTEXT
    found = {}  # different pieces of stories
    for story in plain.ids["evaluation"]:
        for start in range(0, len(story), size):
            found.setdefault(tuple(story[start : start + size]))
    pieces = [list(piece) for piece in found]
    cases = {"previous token": [], "first token": []}  # weights (N, H), of uniform attention
    for ids in pieces:
        weights = plain.attention(model, ids)
        for query in range(1, len(ids)):
            even = 1 / (query + 1)
            if ids[query] > 3 and ids[query - 1] > 3:
                cases["previous token"].append((weights[:, :, query, query - 1], even))
            if ids[query] > 3 and query > 1:
                cases["first token"].append((weights[:, :, query, 0], even))
    roles = plain.table("data/evaluate/roles")
    for role, of_role in cases.items():
        rows = roles[roles["role"] == role]
        scores = np.mean([weights for weights, _ in of_role], axis=0)
        np.testing.assert_allclose(rows["score"], scores.ravel(), rtol=1e-4, atol=1e-5)
        assert set(rows["positions"]) == {len(of_role)}
        assert rows["baseline"].tolist() == near(
            [np.mean([even for _, even in of_role])] * len(rows)
        )
    scored = [piece for piece in pieces if len(piece) > 1]

    def nats():
        return np.array([sum(plain.nats(model, piece)) for piece in scored])

    whole = nats()
    for row in plain.table("data/evaluate/ablation").to_dict("records"):
        weights = model.blocks[row["layer"] - 1].out.weight.data.chunk(plain.one.HEADS, dim=1)
        of_head = weights[row["head"] - 1]
        before = of_head.clone()
        of_head.zero_()
        pairs = np.column_stack([nats() - whole, [len(piece) - 1 for piece in scored]])
        assert_measured(row | {"value": row["loss_increase"]}, pairs, pooled)
        of_head.copy_(before)
    drawn = np.load(plain.folder / "data/evaluate/attention.npz")
    starts = list(dict.fromkeys(tuple(story[:size]) for story in plain.ids["evaluation"]))
    for number, place in enumerate(np.linspace(0, len(starts) - 1, 3).astype(int), start=1):
        ids = list(starts[place][:24])
        assert drawn[f"words_{number}"].tolist() == [plain.vocabulary[token] for token in ids]
        maps = plain.attention(model, ids)
        np.testing.assert_allclose(drawn[f"maps_{number}"], maps, atol=1e-5)
        probs = model(torch.tensor([ids]))[0, -1].softmax(-1)
        assert drawn[f"next_{number}"] == plain.vocabulary[int(probs.argmax())]
        assert drawn[f"next_prob_{number}"] == near(probs.max().item())
