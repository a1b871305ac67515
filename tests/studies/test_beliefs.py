"""Probes of what a model knows: positions and labels, splits, planted directions, control tasks and flips."""

import pandas as pd
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from studies import beliefs, probes
from studies.fresh_stories import (
    FACTS,
    SLOT_OF,
    WORLD,
    draw,
    label_of,
    positions,
    stories_with,
    story_of,
)
from studies.probes import Examples, control_labels, examples_of, flips, probed
from tests.pictures import beliefs as drawn_beliefs
from tests.pictures.noted import PICTURES
from tests.support.small import random_model, words_of
from tinylm.base import paths
from tinylm.base.config import InputError
from tinylm.model.checkpoint import save_model
from tinylm.storybook.corpus import Sampler, Telling, sample_telling

MIA = {"": "Mia", "he": "she", "him": "her", "his": "her", "himself": "herself", "kind": "girl"}
OTTO = {"": "Otto", "he": "he", "him": "him", "his": "his", "himself": "himself", "kind": "boy"}
OAK = {"": "pear tree", "in": "under", "style": "tree"}
TOLD = [
    ("a ", ""), ("girl", "child.kind"), (" named ", ""), ("Mia", "child"), (". ^", ""), ("she", "child.he"),
    (" took ", ""), ("her", "child.his"), (" ", ""), ("pears", "food"), (" to the ", ""), ("pear tree", "outside"),
    (". ", ""), ("Otto", "child"), (" told ", ""), ("his", "child.his"), (" dog about ", ""), ("Mia", "child"),
    (" and the ", ""), ("pear tree", "outside"), (".", ""),
]  # fmt: skip


@pytest.fixture
def story():
    """a girl named mia she took her pears to the pear tree otto told his dog about mia and the pear tree"""
    telling = Telling(WORLD, [], {"hero": MIA, "pal": OTTO, "place": OAK, "food": {"": "pears"}})
    telling.pieces, telling.origins = map(list, zip(*TOLD, strict=True))
    return story_of(telling)


def test_positions_of_a_told_story_are_of_the_right_kind(story):
    def words(fact):
        found = positions(story, fact)
        return {kind: [story.words[n].text for n in numbers] for kind, numbers in found.items()}

    of_hero = {
        "at": ["mia", "mia"],
        "pronoun": ["took"],
        "before": ["about"],
        "other": [
            "pears",
            "to",
            "the",
            "pear",
            "tree",
            "otto",
            "told",
            "dog",
            "and",
            "the",
            "pear",
        ],
    }
    assert words("gender") == words("hero") == of_hero
    assert positions(story, "hero")["at"] == [3, 17]
    assert words("number") == {
        "at": ["pears"],
        "other": [
            "to",
            "the",
            "pear",
            "tree",
            "otto",
            "told",
            "dog",
            "about",
            "mia",
            "and",
            "the",
            "pear",
        ],
    }
    assert words("place") == {
        "at": ["tree"],
        "other": ["otto", "told", "dog", "about", "mia", "and"],
        "before": ["the"],
    }
    assert words("next")["article"] == ["a", "the", "the"]


def test_labels_of_a_told_story_are_its_facts(story):
    assert [label_of(story, fact, 5) for fact in FACTS[:-1]] == [
        "she",
        "plural",
        "Mia",
        "pear tree",
    ]
    honey = story._replace(facts={"food": {"": "honey"}})
    assert label_of(honey, "number", 5) == "singular"
    following = [label_of(story, "next", number) for number in (0, 2, 8, 10, 13, 14)]
    assert following == ["person", "person", "plot", "place", "person", "plot"]


@given(st.integers(0, 10**9))
def test_every_label_of_a_drawn_story_is_the_fact_of_its_telling(seed):
    telling = sample_telling(Sampler(f"test {seed}"))
    story = story_of(telling)
    assert story.text == WORLD.normalise(WORLD.render(telling.pieces))
    texts = story.text.split()
    he = {entry[""]: entry["he"] for entry in WORLD.lists["child"].options}
    for fact, slot in SLOT_OF.items():
        if slot not in telling.facts:
            continue
        name = telling.facts[slot][""]
        of_name = {"gender": he.get(name), "number": ["singular", "plural"][name[-1] == "s"]}
        found = positions(story, fact)
        mentions = [text for text in telling.pieces if text == name]
        assert 0 < len(found["at"]) <= len(mentions)
        length = len(WORLD.normalise(name).split())
        for kind, numbers in found.items():
            for number in numbers:
                assert label_of(story, fact, number) == of_name.get(fact, name)
                first = number + 1 - length if kind == "at" else number + 1
                is_name = texts[first : first + length] == WORLD.normalise(name).split()
                assert is_name == (kind in ("at", "before")) or kind == "other"
                own = (
                    ("he", "him", "his", "himself")
                    if he.get(name) == "he"
                    else ("she", "her", "herself")
                )
                assert kind != "pronoun" or texts[number + 1] in own
                assert kind == "at" or number > found["at"][0]
        all_numbers = [number for numbers in found.values() for number in numbers]
        assert len(all_numbers) == len(set(all_numbers))


def test_fresh_stories_are_the_same_in_every_call_and_have_the_fact():
    drawn = draw(300)
    assert [story.text for story in drawn[:5]] == [story.text for story in draw(5)]
    heroes = {label_of(story, "hero", 0) for story in stories_with("hero", drawn)}
    assert len(heroes) == 10
    assert all(" " not in label_of(story, "place", 0) for story in stories_with("place", drawn))
    assert all("food" in story.facts for story in stories_with("number", drawn))
    assert len(stories_with("next", drawn)) == len(stories_with("gender", drawn)) == 300


def planted(strength, count=1200):
    """Two layers of noise of width 8; the label is planted in the second, along a known direction."""
    generator = torch.Generator().manual_seed(3)
    labels = torch.randint(2, (count,), generator=generator)
    x = torch.randn((2, count, 8), generator=generator)
    x[1] += strength * (labels[:, None] - 0.5) * torch.eye(8)[2]
    words = torch.randint(300, (count,), generator=generator)
    return Examples(x, labels, words, torch.arange(count) // 2, words)


def test_a_probe_finds_a_planted_direction_and_chance_in_noise():
    examples = planted(8.0)
    noise, signal = probed(examples, examples.stories)
    assert (noise["layer"], signal["layer"]) == (0, 1)
    assert signal["accuracy"] > 0.98
    for chance in (noise["accuracy"], noise["control"], signal["control"], noise["majority"]):
        assert chance == pytest.approx(0.5, abs=0.09)  # 400 positions: 3.6 standard deviations
    found = flips(examples)[1]
    assert abs(found.direction[2].item()) > 0.95
    assert found.means.diff().abs().item() == pytest.approx(8, rel=0.05)


def test_a_flip_moves_to_the_mean_of_the_other_label_and_a_random_one_as_far():
    flip = flips(planted(8.0))[1]
    x = torch.randn(5, 8)
    moved = flip.moved(x, 0, flip.direction)
    assert torch.allclose(moved @ flip.direction, flip.means[0].expand(5), atol=1e-5)
    along = torch.eye(8)[0]
    other = flip.moved(x, 0, along)
    assert torch.allclose((moved - x).norm(dim=1), (other - x).norm(dim=1), atol=1e-5)
    assert torch.equal(other[:, 1:], x[:, 1:])


@pytest.mark.parametrize("split", ["stories", "names"])
def test_no_story_or_name_is_trained_on_that_chooses_the_l2_or_tests_the_probe(split, monkeypatch):
    examples = planted(8.0)
    groups = getattr(examples, split)
    examples = examples._replace(streams=groups[None, :, None].float())
    fitted, judged = [], []  # numbers of the groups, call by call
    monkeypatch.setattr(probes, "fit", lambda x, *_: fitted.append(set(x.flatten().tolist())))

    def accuracy(probe, x, labels):
        judged.append(set(x.flatten().tolist()))
        return 0.5

    monkeypatch.setattr(probes, "accuracy", accuracy)
    (_,) = probed(examples, groups)
    every = set(groups.tolist())
    strengths = len(probes.STRENGTHS)
    for task in range(2):  # the probe and its control
        calls = slice(task * (strengths + 1), (task + 1) * (strengths + 1))
        *choosing, final = fitted[calls]
        *chosen_on, tested = judged[calls]
        assert len(choosing) == strengths
        for fit_on, judged_on in zip(choosing, chosen_on, strict=True):
            assert not fit_on & judged_on
            assert fit_on | judged_on == final
        assert not final & tested
        assert final | tested == every
        assert len(tested) == pytest.approx(len(every) / 3, abs=1)


def test_control_labels_are_fixed_for_each_word_and_as_frequent_as_the_labels():
    words = torch.randint(2000, (9000,), generator=torch.Generator().manual_seed(1))
    labels = (torch.arange(9000) % 10 == 0).long()
    control = control_labels(labels, words)
    assert torch.equal(control, control_labels(labels, words))
    by_word = pd.Series(control).groupby(pd.Series(words)).nunique()
    assert (by_word == 1).all()
    assert control.double().mean().item() == pytest.approx(0.1, abs=0.03)
    assert (control[labels == 1] == 1).double().mean().item() < 0.2


def small_run(drawn, layers=2):
    tokenizer = words_of(
        [story.text for story in drawn] + ["he him his himself she her herself"],
        lower_case=True,
        punctuation="drop",
    )
    model = random_model(vocab=len(tokenizer), width=12, context=192, layers=layers, heads=2)
    return beliefs.Run(model, tokenizer)


def test_examples_are_streams_of_the_story_at_the_position():
    drawn = draw(12)
    run = small_run(drawn)
    examples = beliefs.gather(run, drawn, "gender")["at"]
    assert examples.streams.shape == (3, len(examples.labels), 12)
    embedded = run.model.embed_tokens(examples.words)
    positions_added = examples.streams[0] - embedded
    assert positions_added.abs().max() <= 1 + 1e-5  # sinusoids
    for index, name in zip(examples.stories.tolist(), examples.words.tolist(), strict=True):
        assert run.tokenizer.tokens[name] == drawn[index].facts["hero"][""].lower()
    genders = ["he", "she"]
    for index, label in zip(examples.stories.tolist(), examples.labels.tolist(), strict=True):
        assert genders[label] == drawn[index].facts["hero"]["he"]
    by_name = pd.DataFrame({"name": examples.names, "label": examples.labels}).groupby("name")
    assert (by_name["label"].nunique() == 1).all()


def test_a_patch_of_the_name_acts_before_the_last_layer_only():
    drawn = [story for story in draw(40) if "pronoun" in positions(story, "gender")]
    run = small_run(drawn)
    width = run.model.width
    flip = probes.Flip(torch.eye(width)[0], torch.tensor([-9.0, 9.0]))
    first, second, last = beliefs.patched(run, drawn[0], "at", [flip] * 3)
    assert [row["layer"] for row in (first, second, last)] == [0, 1, 2]
    usual = first["usual"]
    for row in (first, second):
        assert row["usual"] == pytest.approx(usual)
        assert abs(row["flipped"] - usual) > 1e-4 < abs(row["random"] - usual)
    assert last["flipped"] == pytest.approx(usual, abs=1e-12)
    *_, at_the_pronoun = beliefs.patched(run, drawn[0], "pronoun", [flip] * 3)
    assert abs(at_the_pronoun["flipped"] - usual) > 1e-4


def test_intervals_are_over_the_runs():
    rows = [
        {"layer": layer, "run": run, "share": share + layer / 10 + noise, "other": 1.0}
        for run, share in enumerate((0.5, 0.6, 0.7))
        for layer in (0, 1)
        for noise in (-0.05, 0.05)
    ]
    table = beliefs.over_seeds(rows, ["layer"], "share")
    margin = 4.303 * 0.1 / 3**0.5
    assert list(table["share"]) == pytest.approx([0.6, 0.7])
    assert list(table["low"]) == pytest.approx([0.6 - margin, 0.7 - margin], abs=1e-3)
    assert list(table["high"]) == pytest.approx([0.6 + margin, 0.7 + margin], abs=1e-3)
    assert list(table["seeds"]) == [3, 3]
    one = beliefs.over_seeds(rows[:1], ["layer"], "share")
    assert one[["low", "high"]].isna().all(axis=None)


def test_the_study_reads_finished_runs_and_writes_its_tables(tmp_path, monkeypatch):
    drawn = draw(120)
    run = small_run(drawn, layers=1)
    monkeypatch.setattr(probes, "STRENGTHS", (0.1,))
    monkeypatch.setattr(probes, "ITERATIONS", 2)
    save_model(tmp_path / paths.MODELS, run.model)
    run.tokenizer.save(tmp_path / paths.TOKENIZER)
    for name, value in (
        ("STORIES", 24),
        ("PATCHED", 2),
        ("FOLDER", tmp_path),
        ("draw", lambda: drawn),
    ):
        monkeypatch.setattr(beliefs, name, value)
    monkeypatch.setattr("sys.argv", ["beliefs", str(tmp_path), str(tmp_path)])
    beliefs.main()
    table = pd.read_csv(tmp_path / "beliefs.csv")
    columns = {
        "fact",
        "layer",
        "position",
        "accuracy",
        "low",
        "high",
        "control",
        "majority",
        "seeds",
    }
    assert columns <= set(table.columns)
    assert set(table["fact"]) == set(FACTS)
    assert (table["seeds"] == 2).all()
    assert (table["low"] == table["high"]).all()  # the same run twice
    assert len(pd.read_csv(tmp_path / "beliefs_patch.csv")) == 6
    words_of(["Some other words"]).save(tmp_path / paths.TOKENIZER)
    with pytest.raises(InputError, match="expected"):
        beliefs.read_run(tmp_path)


def test_numbers_of_examples_follow_the_order_of_labels():
    rows = [(torch.zeros(2, 3), label, 5, 0, label) for label in ("she", "he", "she")]
    assert examples_of(rows).labels.tolist() == [1, 0, 1]


def test_the_page_and_its_picture_show_the_recorded_tables():
    probes, patches = drawn_beliefs.recorded()
    assert drawn_beliefs.table_of(probes) in drawn_beliefs.PAGE.read_text("utf-8")
    assert (PICTURES / "beliefs.svg").read_bytes() == drawn_beliefs.draw(probes, patches)
    assert probes["accuracy"].between(probes["low"], probes["high"]).all()
