"""The generator: pinned bytes, sound English, facts that stay as they were first told."""

import os
import re
import subprocess
import sys
from collections import Counter
from itertools import islice
from pathlib import Path

import pytest

from tinylm.storybook.corpus import RULES, Sampler, Story, generate, normalise, sample_telling
from tinylm.storybook.corpus import render as render_pieces
from tinylm.storybook.lexicon import KINDS, SLOTS, Weighted

PINNED_FIRST_100 = "c612e1cbd92fe69f1bb39675e5bdc4708568c235b4a0a623fb07cb60da46e849"
PRINT_DIGEST = """
import hashlib
from tinylm.storybook.corpus import generate
rows = "\\n".join(f"{s.text}\\t{s.log_prob:.6f}" for s in generate(100, 10, 1)[0])
print(hashlib.sha256(rows.encode()).hexdigest())
"""


@pytest.fixture(scope="module")
def texts():
    train, evaluation = generate(5_000, 1_000, seed=1)
    return [story.text for story in train], [story.text for story in evaluation]


@pytest.fixture(scope="module")
def tellings():
    sampler = Sampler("telling tests")
    tellings = [sample_telling(sampler) for _ in range(2_000)]
    return [(render_pieces(telling.pieces), telling.world) for telling in tellings]


def word(world, slot, part=""):
    return world.facts[slot].parts[part]


@pytest.mark.parametrize("hash_seed", ["0", "12345"])
def test_the_first_stories_have_the_pinned_bytes_under_any_hash_seed(hash_seed):
    root = str(Path(__file__).parents[2])
    environment = {**os.environ, "PYTHONHASHSEED": hash_seed, "PYTHONPATH": root}
    command = [sys.executable, "-c", PRINT_DIGEST]
    result = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    assert result.stdout.strip() == PINNED_FIRST_100


def test_no_story_is_there_twice_or_in_both_splits(texts):
    train, evaluation = ({normalise(text) for text in split} for split in texts)
    assert len(train) == 5_000
    assert len(evaluation) == 1_000
    assert not train & evaluation


def test_stories_that_the_other_split_has_are_skipped(monkeypatch):
    drawn = iter(["A b.", "C d.", "a B!", "E f.", "e, f", "G h."])
    monkeypatch.setattr(
        "tinylm.storybook.corpus.sample_story", lambda sampler: Story(next(drawn), 0.0)
    )
    train, evaluation = generate(train=2, evaluation=2, seed=0)
    assert [story.text for story in evaluation] == ["A b.", "C d."]
    assert [story.text for story in train] == ["E f.", "G h."]


def test_train_streams_and_a_shorter_one_is_a_prefix():
    assert list(islice(generate(10**9, 5, 3)[0], 20)) == list(generate(20, 5, 3)[0])
    assert list(generate(5, 5, 3)[0]) != list(generate(5, 5, 4)[0])


def test_vocabulary_lengths_and_characters(texts):
    train, evaluation = texts
    counts = Counter(word for text in train for word in normalise(text).split())
    assert sum(count >= 5 for count in counts.values()) >= 2_300
    lengths = [len(text.split()) for text in train]
    assert min(lengths) >= 70
    assert max(lengths) <= 190
    assert 105 <= sum(lengths) / len(lengths) <= 132
    assert all(re.fullmatch(r"[A-Za-z .,!?'\"]+", text) for text in train + evaluation)


def test_article_fits_the_sound_that_follows(tellings):
    consonant = ("uni", "use", "usu", "ukul", "one", "eu")
    for text, _ in tellings:
        for article, next_word in re.findall(r"\b([Aa]n?) ([a-z]+)", text):
            vowel = next_word[0] in "aeiou" and not next_word.startswith(consonant)
            vowel = vowel or next_word.startswith(("honest", "hour"))
            assert (article.lower() == "an") == vowel, f"{article} {next_word}"


def test_sentences_are_capitalised_and_closed(tellings):
    for text, _ in tellings:
        assert text[0].isupper()
        assert text[-1] in '.!?"'
        assert text.count('"') % 2 == 0
        assert not re.search(r"\. \"?[a-z]", text), text
        assert not re.search(r"  | [.,!?]|[.,!?]{2}|\^|[{}<>$|\[\]()]", text), text


def test_no_piece_is_glued_to_another():
    sampler = Sampler("glue")
    for _ in range(300):
        pieces = sample_telling(sampler).pieces
        alone = [word for piece in pieces for word in normalise(piece).split()]
        whole = normalise(render_pieces(pieces)).split()
        assert [re.sub("^an$", "a", word) for word in alone] == [
            re.sub("^an$", "a", word) for word in whole
        ]


@pytest.mark.parametrize(
    ("quality", "noun"), [("adj", "thing"), ("air", "place"), ("fur", "pet"), ("fabric", "cloth")]
)
def test_what_was_settled_once_stays_the_same_to_the_end(tellings, quality, noun):
    repeated = seen = 0
    for text, world in tellings:
        if quality in world.facts and noun in world.facts:
            pair = f"{word(world, quality)} {word(world, noun)}"
            other = rf"\b{re.escape(word(world, quality))} (?!{re.escape(word(world, noun))})"
            seen += 1
            repeated += text.count(pair) >= 2
            assert pair in text or re.search(other, text), text
    assert seen > 100
    assert repeated / seen > 0.8


def test_a_hidden_thing_is_found_where_it_was_hidden():
    sampler = Sampler("hidden")
    for _ in range(100):
        telling = sample_telling(sampler, "hidden")
        text = render_pieces(telling.pieces)
        place = f"the {word(telling.world, 'air')} {word(telling.world, 'place')}"
        hidden = f"{word(telling.world, 'place', 'in')} {place}"
        found_at = max(text.rfind(hidden), text.rfind(f"to {place}"))
        assert 0 <= text.find(hidden) < found_at, text


def test_a_lent_thing_comes_back_from_the_one_who_has_it_last():
    sampler = Sampler("relay")
    holders = set()
    for _ in range(100):
        telling = sample_telling(sampler, "relay")
        text = render_pieces(telling.pieces)
        facts = telling.world.facts
        holder = "third" if facts["holder"] is facts.get("third") else "pal"
        holders.add(holder)
        name = facts["holder"].parts[""]
        assert re.search(rf"{name} gave the|said {name}\.|But {name} was sad", text), text
        handed_on = f"{name} has it" in text or f"I gave it to {name}" in text
        assert handed_on == (holder == "third"), text
    assert holders == {"third", "pal"}


def test_nobody_plays_two_parts(tellings):
    for _, world in tellings:
        people = [world.facts[slot] for slot in ("hero", "pal", "third") if slot in world.facts]
        assert len({id(person) for person in people}) == len(people)


def test_every_rule_slot_and_list_is_used_and_defined():
    lines = " ".join(line for phrases in RULES.values() for line in phrases)
    called = {match.split(":")[0] for match in re.findall(r"<([^>]*)>", lines)}
    assert called | {"story"} == set(RULES)
    mentioned = set(re.findall(r"\{([a-z0-9]+)", lines))
    assert mentioned - {"he", "his", "him", "himself"} == set(SLOTS)
    drawn = {kind.partition(" by ")[0] for kind in SLOTS.values()}
    drawn |= set(re.findall(r"\{\*([a-z]+)", lines))
    assert {name.partition(":")[0] for name in KINDS} == drawn
    for name, phrases in RULES.items():
        bare = [line.partition("| ")[2] or line for line in phrases]
        assert len(set(bare)) == len(bare), name


def test_sampler_draws_in_proportion_and_never_a_banned_option():
    weighted = Weighted("abc", [1, 2, 5])
    sampler = Sampler("proportions")
    counts = [0, 0, 0]
    for _ in range(6_000):
        counts[sampler.pick(weighted, (1,))] += 1
    assert counts[1] == 0
    assert counts[0] / 6_000 == pytest.approx(1 / 6, abs=0.02)


def test_weights_are_positive_integers_one_each():
    with pytest.raises(ValueError, match="positive integers"):
        Weighted("ab", [1, 0])
