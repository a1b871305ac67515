"""Stage evaluate: the loss of every story, n-grams, texts and heads of two runs.

Other tests compare formulas, such as that of BLEU, with independent ones. Here they are given what they should be given.
"""

import numpy as np
import pytest
import torch

from tests.support.plain_run import near
from tinylm.evaluate.bleu import Bleu
from tinylm.evaluate.diversity import distinct_n, repeated_share
from tinylm.evaluate.head_roles import HeadRoles, role_pairs
from tinylm.evaluate.memorised import nearest_story
from tinylm.evaluate.ngram import KneserNey
from tinylm.evaluate.scoring import with_interval
from tinylm.evaluate.settings import RESAMPLES, SEED
from tinylm.evaluate.statistics import mean, pooled_perplexity, pooled_ratio


def measured(rows, statistic):
    """Value and interval of a statistic of sums over texts."""
    return near(with_interval(rows, statistic))


def test_losses(plain):
    metrics = plain.json("data/figures/evaluate")
    stories = plain.ids["evaluation"]
    of_tokens = [plain.nats(plain.model(), story) for story in stories]
    nats = [(sum(values), len(values)) for values in of_tokens]
    table = plain.table("data/evaluate/stories")
    np.testing.assert_allclose(table[["nats", "tokens"]], nats, rtol=1e-4)
    total, tokens = np.sum(nats, axis=0)
    units = nats
    if len(nats) < 5:  # too few stories: rows
        cuts = [
            np.array_split(v, range(plain.one.CONTEXT, len(v), plain.one.CONTEXT))
            for v in of_tokens
        ]
        units = [(sum(row), len(row)) for rows in cuts for row in rows]
    low, high = metrics["perplexity_interval"]
    found = {"value": metrics["perplexity"], "low": low, "high": high}
    assert found == measured(units, pooled_perplexity)
    assert plain.json("metrics/evaluate")["perplexity"] == metrics["perplexity"]
    assert metrics["nats_per_token"] == near(total / tokens)
    assert metrics["tokens"] == tokens
    assert metrics["stories"] == metrics["different_stories"] == len(stories)
    words = np.concatenate([story[1:-1] for story in stories])
    assert metrics["unknown_share"] == near(np.mean(words == 3))
    baselines = metrics["baselines"]
    assert baselines["uniform"]["perplexity"] == near(len(plain.vocabulary))
    for name, order in (("unigram", 1), ("kneser_ney", 5)):
        ngrams = KneserNey(plain.ids["train"], order, len(plain.vocabulary))
        others = np.array([-ngrams.log_probs(np.array(story)).sum() for story in stories])
        assert baselines[name]["nats_per_token"] == near(others.sum() / tokens)
        assert baselines[name]["perplexity"] == near(np.exp(others.sum() / tokens))
    gained = np.array(nats) - np.column_stack([others, 0 * others])
    difference = with_interval(gained, pooled_ratio) | {"stories": len(stories)}
    assert baselines["kneser_ney"]["difference"] == near(difference)


def test_continuations(plain):
    settings = plain.params["evaluate"]
    metrics = plain.json("data/figures/evaluate")
    samples = metrics["samples"]
    model = plain.model()
    stories = plain.ids["evaluation"]
    table = plain.table("data/evaluate/samples")
    spread = np.linspace(0, len(stories) - 1, min(settings["stories"], len(stories)))
    assert table["story"].tolist() == spread.astype(int).tolist()
    assert (samples["count"], samples["finished"]) == (len(table), table["finished"].sum())
    nats = {"perplexity": [], "reference_perplexity": []}
    cut = 1 + settings["prompt_tokens"]

    def shown(ids):
        return " ".join(plain.vocabulary[token] for token in ids if token > 1)

    for row in table.to_dict("records"):
        ids = stories[row["story"]]
        reference = ids[cut : cut + settings["new_tokens"]]
        assert (row["prompt"], row["reference"]) == (shown(ids[:cut]), shown(reference))
        new = [plain.vocabulary.index(word) for word in row["continuation"].split()]
        new += [1] * row["finished"]
        assert row["finished"] or len(new) == settings["new_tokens"]
        for name, text in (("perplexity", new), ("reference_perplexity", reference)):
            values = plain.nats(model, ids[:cut] + text)[cut - 1 :]
            nats[name].append((sum(values), len(values)))
            assert row[name] == near(np.exp(np.mean(values)))
    for name, prefix in (("perplexity", "continuation_"), ("reference_perplexity", "")):
        assert samples[prefix + name] == measured(nats[name], pooled_perplexity)
    texts = {
        "continuation": table["continuation"].tolist(),
        "reference": table["reference"].tolist(),
    }
    bleu = Bleu().compute(predictions=texts["continuation"], references=texts["reference"])
    assert table["bleu"].tolist() == near(list(bleu["sentence_bleu"]))
    assert samples["sentence_bleu"] == measured(bleu["sentence_bleu"], mean)
    for order in (1, 2, 3, 4):
        assert samples[f"bleu{order}"]["value"] == near(bleu[f"bleu{order}"])
    known = [shown(story).split() for story in plain.ids["train"]]
    for name, lines in texts.items():
        prefix = "reference_" if name == "reference" else ""
        for n in (1, 2, 3):
            assert samples[f"{prefix}distinct{n}"] == near(distinct_n(lines, n))
        assert samples[f"{prefix}repeated_4grams"] == near(repeated_share(lines, 4))
        shares = np.array(nearest_story([line.split() for line in lines], known))
        nearest = metrics["memorised"][f"{name}s"]["nearest"]
        assert nearest == measured(shares[~np.isnan(shares)], mean)


def test_heads(plain):
    model = plain.model()
    size = plain.one.CONTEXT
    found = {}  # different pieces of stories
    for story in plain.ids["evaluation"]:
        for start in range(0, len(story), size):
            found.setdefault(tuple(story[start : start + size]))
    pieces = [list(piece) for piece in found]
    roles = HeadRoles()
    for ids in pieces:
        is_text = np.array(ids) > 3
        roles.add(plain.attention(model, ids), is_text, role_pairs(np.array(ids), is_text))
    rows = plain.table("data/evaluate/roles").to_dict("records")
    for row, expected in zip(rows, roles.table(RESAMPLES, SEED), strict=True):
        assert row.pop("role") == expected.pop("role")
        assert row == pytest.approx(expected, rel=1e-3, abs=1e-5)
    scored = sorted((piece for piece in pieces if len(piece) > 1), key=len)
    tokens = [len(piece) - 1 for piece in scored]
    whole = np.array([sum(plain.nats(model, piece)) for piece in scored])
    for row in plain.table("data/evaluate/ablation").to_dict("records"):
        weights = model.blocks[row["layer"] - 1].out.weight.data.chunk(plain.one.HEADS, dim=1)
        of_head = weights[row["head"] - 1]
        before = of_head.clone()
        of_head.zero_()
        nats = np.array([sum(plain.nats(model, piece)) for piece in scored])
        of_head.copy_(before)
        interval = {"value": row["loss_increase"], "low": row["low"], "high": row["high"]}
        assert interval == measured(np.column_stack([nats - whole, tokens]), pooled_ratio)
    drawn = np.load(plain.folder / "data/evaluate/attention.npz")
    starts = list(dict.fromkeys(tuple(story[:size]) for story in plain.ids["evaluation"]))
    for number, place in enumerate(np.linspace(0, len(starts) - 1, 3).astype(int), start=1):
        ids = list(starts[place][:24])
        assert drawn[f"words_{number}"].tolist() == [plain.vocabulary[token] for token in ids]
        np.testing.assert_allclose(drawn[f"maps_{number}"], plain.attention(model, ids), atol=1e-5)
        probs = model(torch.tensor([ids]))[0, -1].softmax(-1)
        assert drawn[f"next_{number}"] == plain.vocabulary[int(probs.argmax())]
        assert drawn[f"next_prob_{number}"] == near(probs.max().item())
