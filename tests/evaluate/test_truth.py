"""The excess adds up to the model's loss above the generator's, and shows where a model is wrong."""

import math
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
import torch
import torch.nn.functional as F

from tests.support.folders import write_stories
from tests.support.small import model_settings, words_of
from tinylm.evaluate import truth
from tinylm.evaluate.truth import TrueTokens, compared_stories, measure_truth, token_measures
from tinylm.model.transformer import TinyLM
from tinylm.run.evaluated import Divergence
from tinylm.storybook.corpus import generate
from tinylm.storybook.world import storybook

STORIES = list(generate(6, 6, 2)[1])


def run_of(tokenizer, folder, monkeypatch, context=200):
    """What `measure_truth` needs of a run, with a random model in float64."""
    monkeypatch.chdir(folder)
    texts = [story.text for story in STORIES]
    write_stories(folder / "data/stories/evaluation.jsonl", texts)
    settings = model_settings(context=context)
    model = TinyLM(settings, torch.randn(len(tokenizer), 16)).double().eval()
    return SimpleNamespace(
        model=model, checkpoints=[(0.5, model)], epochs=1.0, tokens=110, saved_tokens=110,
        tokenizer=tokenizer, world=storybook(), ngrams=SimpleNamespace(unseen_mass=0.25),
    )  # fmt: skip


def measured(run):
    """The result of `measure_truth` on the stories that can be compared."""
    return measure_truth(run, compared_stories(run))


@pytest.mark.parametrize("known_stories", [300, 3])
def test_the_words_add_up_to_both_losses_of_every_story(tmp_path, monkeypatch, known_stories):
    texts = [story.text for story in generate(known_stories, 6, 2)[0]]
    if known_stories == 300:
        texts += [story.text for story in STORIES]
    tokenizer = words_of(texts)
    run = run_of(tokenizer, tmp_path, monkeypatch)
    divergence, tables = measured(run)
    words = tables["truth"]
    difference = divergence.unknown_nats
    for number, story in enumerate(STORIES):
        rows = words[words["story"] == number]
        ids = torch.tensor(tokenizer.encode_story(story.text))
        loss = F.cross_entropy(run.model(ids[None, :-1])[0], ids[1:], reduction="sum").item()
        assert rows["model"].sum() == pytest.approx(loss, abs=1e-6)
        by_kind = rows.groupby("kind")["excess"].sum()
        assert by_kind.sum() == pytest.approx(loss - rows["true"].sum(), abs=1e-6)
        difference += rows["true"].sum() + story.log_prob
    assert difference == pytest.approx(0, abs=1e-5)  # log_prob has six decimals
    assert (divergence.unknown_nats < 1e-9) == (known_stories == 300)
    assert list(words["word"][words["kind"] == "end"]) == ["<eos>"] * len(STORIES)


@pytest.mark.parametrize("more", [0, 1])
def test_the_first_story_is_shown_to_its_end_also_if_it_fills_the_context(
    tmp_path, monkeypatch, more
):
    tokenizer = words_of([" ".join(storybook().vocabulary())])
    words = [*tokenizer.split(STORIES[0].text), "<eos>"]
    _, tables = measured(run_of(tokenizer, tmp_path, monkeypatch, context=len(words) + more))
    assert tables["truth_story"]["word"].tolist() == words


def test_metrics_are_means_of_the_words(tmp_path, monkeypatch):
    tokenizer = words_of([" ".join(storybook().vocabulary())])
    found, tables = measured(run_of(tokenizer, tmp_path, monkeypatch))
    words = tables["truth"]
    assert (found.stories, found.words) == (len(STORIES), len(words))
    for name in ("true", "model", "excess", "kl", "impossible"):
        measure = getattr(found, name)
        assert measure.value == pytest.approx(words[name].mean())
        assert measure.low <= measure.value <= measure.high
        by_kind = [getattr(found.kinds[kind], name).value for kind in storybook().meaning]
        assert sum(by_kind) == pytest.approx(measure.value)
    # the divergence is the expectation of the excess
    gaps = (words["excess"] - words["kl"]).groupby(words["story"]).sum()
    assert abs(gaps.mean()) < 3 * gaps.std() / math.sqrt(len(gaps))
    training = pd.DataFrame(tables["truth_training"])
    assert training["tokens"].unique().tolist() == [55, 110]
    assert training.groupby("tokens")["value"].sum().to_list() == pytest.approx(
        [found.kl.value] * 2
    )
    assert found.above_floor()["above_floor"] == found.kl.value


@pytest.mark.parametrize("saved", [5_000, 11_904, 23_808])
def test_a_number_of_tokens_has_one_point_in_order(tmp_path, monkeypatch, saved):
    run = run_of(words_of([" ".join(storybook().vocabulary())]), tmp_path, monkeypatch)
    run.tokens, run.epochs, run.saved_tokens = 23_808, 2.0, saved
    run.checkpoints = [(epochs, run.model) for epochs in (1.0, 2.0, 2.003)]
    training = pd.DataFrame(measured(run)[1]["truth_training"])
    points = sorted({saved, 11_904, 23_808})
    assert training["tokens"].unique().tolist() == points
    assert len(training) == len(points) * len(storybook().meaning)


def test_distributions_are_compared_as_their_definitions_say():
    true = np.array([[0.5, 0.5, 0.0], [1.0, 0.0, 0.0]])
    model = np.log([[0.25, 0.25, 0.5], [0.9, 0.1, 0.0005]])
    positions, ids = np.nonzero(true)
    tokens = TrueTokens(positions, ids, true[positions, ids])
    found = token_measures(tokens, model, np.array([1, 2]))
    assert found["true"].tolist() == [math.log(2), math.inf]
    assert found["model"] == pytest.approx([math.log(4), -math.log(0.0005)])
    assert found["kl"] == pytest.approx([math.log(2), -math.log(0.9)])
    assert found["impossible"] == pytest.approx([0.5, 0.1])


def test_a_model_that_mixes_up_places_pays_for_places(tmp_path, monkeypatch):
    """Its distributions are the true ones, with the probabilities of places shuffled."""
    tokenizer = words_of([story.text for story in STORIES])
    places = {
        entry[""]
        for kind in ("village", "outside", "inside")
        for entry in storybook().lists[kind].options
    }
    ids = [index for index, word in enumerate(tokenizer.tokens) if word in places]
    shuffled = np.random.default_rng(1).permutation(ids)
    run = run_of(tokenizer, tmp_path, monkeypatch)

    def distribution(model, story_ids):
        positions = truth.read_words([tokenizer.tokens[token] for token in story_ids[1:]])
        tokens = truth.true_tokens(tokenizer, positions)
        probs = np.full((len(positions), len(tokenizer)), 1e-6)
        probs[tokens.positions, tokens.ids] += tokens.probs
        probs[:, ids] = probs[:, shuffled]
        return np.log(probs / probs.sum(1, keepdims=True))

    monkeypatch.setattr(truth, "log_probabilities", distribution)
    kinds = measured(run)[0].kinds
    excess = {kind: measures.kl.value for kind, measures in kinds.items()}
    assert excess["place"] > 0.9 * sum(excess.values()) > 0.1


def test_nothing_is_compared_where_words_or_stories_are_not_the_generators(tmp_path, monkeypatch):
    texts = [story.text for story in STORIES]
    run = run_of(words_of(texts), tmp_path, monkeypatch)
    run.world = None
    reason = "the stories are not the storybook's"
    assert measured(run) == (Divergence(left_out=reason), {})
    assert truth.problem_with(words_of(texts)) == ""
    for other in (words_of([*texts, "zebu"]), words_of(texts, punctuation="keep")):
        run = SimpleNamespace(tokenizer=other, world=storybook())
        divergence, tables = measured(run)
        assert divergence.left_out
        assert divergence.above_floor() == tables == {}


def test_a_text_is_explained_up_to_its_first_impossible_word(tmp_path, monkeypatch):
    tokenizer = words_of([" ".join(storybook().vocabulary())])
    run = run_of(tokenizer, tmp_path, monkeypatch)
    table = truth.explain(run.model, tokenizer, ["once", "upon", "a", "time"])
    assert table["word"].tolist() == ["once", "upon", "a", "time", ""]
    assert table["true"].isna().tolist() == table["model"].isna().tolist() == [False] * 4 + [True]
    assert table["true_next"].iloc[-1] == {"there": 1.0}
    log_probs = torch.log_softmax(run.model(torch.tensor([tokenizer.encode_story("once")[:2]])), -1)
    (upon,) = tokenizer.encode("upon")
    assert table["model"][1] == pytest.approx(-log_probs[0, -1, upon].item())
    table = truth.explain(run.model, tokenizer, ["once", "once", "upon"])
    assert table["word"].tolist() == ["once", "once"]
    assert table["true"][1] == math.inf
