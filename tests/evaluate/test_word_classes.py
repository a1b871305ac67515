"""Words, marks and sentences of rows of tokens, and the relations between classified words."""

import pytest

from tinylm.evaluate.word_classes import Word, noun_phrase, preposition, read_row, subject
from tinylm.storybook.classes import look_up

SOS, EOS, UNK = range(3)


class Pieces:
    """A tokenizer whose tokens are given strings, joined as they stand."""

    specials, unk_id = frozenset({SOS, EOS, UNK}), UNK

    def __init__(self, *pieces):
        self.pieces = ["", "", "<unk>", *dict.fromkeys(pieces)]

    def ids(self, *pieces):
        named = {"<sos>": SOS, "<eos>": EOS, "<unk>": UNK}
        return [named[p] if p in named else self.pieces.index(p) for p in pieces]

    def decode(self, ids):
        return "".join(self.pieces[i] for i in ids)


def read(*pieces):
    tokenizer = Pieces(*(piece for piece in pieces if not piece.startswith("<")))
    return read_row(tokenizer, tokenizer.ids(*pieces))


def words_of(text):
    """Words of a text whose marks stand before the words, as in "tom |ran"."""
    plain = text.replace("|", "").split()
    marked = [i == 0 or word.startswith("|") for i, word in enumerate(text.split())]
    return [
        Word(w, i, name, m) for i, (w, name, m) in enumerate(zip(plain, look_up(plain), marked))
    ]


def test_words_are_found_where_letters_meet():
    row = read(
        "<sos>", "The", " ca", "t", " did", "n", "'t", " see", " it", ".", ' "', "Hi", '!"', "<eos>"
    )
    assert [(w.text, w.token) for w in row.words] == [
        ("the", 1), ("cat", -1), ("didn't", -1), ("see", 7), ("it", 8), ("hi", 11)
    ]  # fmt: skip
    assert [w.marked for w in row.words] == [True, False, False, False, False, True]
    assert row.marks == [i in (9, 10, 12) for i in range(14)]
    assert row.text == [0 < i < 13 for i in range(14)]


def test_marks_attached_to_words_count_as_marks():
    row = read("<sos>", "Wow", ", ", "she", " said. ", "Then", " (no")
    assert [w.text for w in row.words] == ["wow", "she", "said", "then", "no"]
    assert [w.marked for w in row.words] == [True, True, False, True, True]
    assert row.marks == [False, False, True, False, True, False, False]


def test_unknown_words_keep_their_place_and_part_nothing():
    row = read("<sos>", "the ", "<unk>", " ran", "<eos>", "<sos>", "so")
    assert [(w.text, w.token, w.marked) for w in row.words] == [
        ("the", 1, True),
        ("", 2, False),
        ("ran", 3, False),
        ("so", 6, True),
    ]
    assert row.text == [False, True, False, True, False, False, True]


def test_sentences_start_behind_the_marks_that_end_them():
    row = read("<sos>", "Go", "! ", '"', "I", " am", ". ", '" ', "He", "llo", "?", " ", "x")
    assert row.starts == [-1, -1, -1, -1, -1, 4, -1, -1, -1, 8, -1, -1, -1]


@pytest.mark.parametrize(
    ("text", "relations"),
    [
        ("tom ran", {1: 0}), ("the big dog barked", {3: 2}), ("she was not very happy", {1: 0}),
        ("they could never climb", {1: 0, 3: 0}), ("the boy from farley walked", {4: 1}),
        ("mrs hill the baker gave tom bread", {4: 1}), ("she wanted to swim", {1: 0}),
        ("she saw him and laughed", {1: 0}), ("in the evening |tom slept", {4: 3}),
        ("under the rug stood a chest", {}), ("the ball |said tom", {}), ("the ball said tom", {}),
        ("a boy named tom", {}), ("tom |ran", {})
    ],
)  # fmt: skip
def test_subjects_of_verbs(text, relations):
    words = words_of(text)
    subjects = {index: subject(words, index) for index in range(len(words))}
    assert {verb: key for verb, key in subjects.items() if key is not None} == relations


@pytest.mark.parametrize(
    ("text", "phrases"),
    [
        ("a big red ball", {3: (0, 0, [2, 1], None)}), ("under the old apple tree", {4: (1, 1, [2], 0)}),
        ("with her mother", {2: (1, None, [], 0)}), ("from mrs hill", {2: (1, None, [], 0)}),
        ("to |tom", {1: (1, None, [], None)}), ("the |red ball", {2: (1, None, [1], None)}),
        ("the very old dog", {3: (0, 0, [2], None)}),
        ("the dog |cat", {1: (0, 0, [], None), 2: (2, None, [], None)}), ("she was red", {})
    ],
)  # fmt: skip
def test_noun_phrases_and_their_prepositions(text, phrases):
    words = words_of(text)
    result = {i: phrase for i in range(len(words)) if (phrase := noun_phrase(words, i)) is not None}
    assert {
        i: (phrase.start, phrase.article, phrase.adjectives, preposition(words, phrase))
        for i, phrase in result.items()
    } == phrases
