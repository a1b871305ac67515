import hashlib
import os
import re
import subprocess
import sys
from collections import Counter
from itertools import islice
from pathlib import Path

import pytest

from tinylm.storybook.corpus import generate, normalise

TRAIN, EVALUATION = 20_000, 1_000
PINNED_FIRST_100 = "c612e1cbd92fe69f1bb39675e5bdc4708568c235b4a0a623fb07cb60da46e849"


@pytest.fixture(scope="module")
def stories():
    train, evaluation = generate(TRAIN, EVALUATION, seed=1)
    return list(train), list(evaluation)


def digest(seed: int, count: int = 100) -> str:
    train, _ = generate(count, 10, seed)
    return hashlib.sha256(
        "\n".join(f"{s.text}\t{s.log_prob:.6f}" for s in train).encode()
    ).hexdigest()


def test_counts_and_no_story_twice_nor_in_both_splits(stories):
    train, evaluation = ({normalise(story.text) for story in split} for split in stories)
    assert len(train) == TRAIN
    assert len(evaluation) == EVALUATION
    assert not train & evaluation


def test_stories_that_the_other_split_holds_are_passed_over(monkeypatch):
    texts = iter(["A b.", "C d.", "a B!", "E f.", "e, f", "G h."])
    monkeypatch.setattr("tinylm.storybook.corpus.tell", lambda sampler: (next(texts), None))
    train, evaluation = generate(train=2, evaluation=2, seed=0)
    assert [story.text for story in evaluation] == ["A b.", "C d."]
    assert [story.text for story in train] == ["E f.", "G h."]


def test_vocabulary_is_wide_and_every_word_is_met_often(stories):
    counts = Counter(word for story in stories[0] for word in normalise(story.text).split())
    assert sum(count >= 5 for count in counts.values()) >= 2_700


def test_lengths(stories):
    lengths = [len(normalise(story.text).split()) for story in stories[0]]
    assert min(lengths) >= 70
    assert max(lengths) <= 190
    assert 105 <= sum(lengths) / len(lengths) <= 132


def test_characters_are_plain(stories):
    for split in stories:
        assert all(re.fullmatch(r"[A-Za-z .,!?'\"]+", story.text) for story in split)


def test_train_streams_and_a_shorter_one_is_a_prefix():
    assert list(islice(generate(10**9, 5, 3)[0], 20)) == list(generate(20, 5, 3)[0])


def test_seeds_differ():
    assert digest(1) != digest(2)


def test_pinned_bytes_of_the_first_stories():
    assert digest(1) == PINNED_FIRST_100


@pytest.mark.parametrize("hash_seed", ["0", "12345"])
def test_same_bytes_under_any_hash_seed(hash_seed):
    code = (
        "import hashlib\nfrom tinylm.storybook.corpus import generate\n"
        "rows = '\\n'.join(f'{s.text}\\t{s.log_prob:.6f}' for s in generate(100, 10, 1)[0])\n"
        "print(hashlib.sha256(rows.encode()).hexdigest())"
    )
    root = str(Path(__file__).parents[3])
    environment = {**os.environ, "PYTHONHASHSEED": hash_seed, "PYTHONPATH": root}
    result = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True
    )
    assert result.stdout.strip() == PINNED_FIRST_100
