import numpy as np
import pytest

from tests.evaluate.test_continuations import SETTINGS
from tinylm.evaluate.copied import ORDERS
from tinylm.evaluate.memorised import measure_memorised, words_of
from tinylm.vocab.bpe import train_bpe
from tinylm.vocab.settings import VocabSettings
from tinylm.vocab.token_store import TokenStore, write_store
from tinylm.vocab.words import build_tokenizer, count_words


def test_copies_of_train_stand_out_beside_the_true_continuations(corpus):
    folder, tokenizer = corpus
    copy, true = "the cat saw the dog and the dog saw the cat", "the dog sang to a bird"
    rows = [
        {
            "prompt": f"p{n}",
            "ids": tokenizer.encode_story(copy)[1:],
            "reference_ids": tokenizer.encode(true),
        }
        for n in range(3)
    ]
    figures, table = measure_memorised(
        rows, tokenizer, TokenStore(folder / "tokens", "train"), SETTINGS
    )
    own, other = figures["continuations"], figures["references"]
    assert figures["train_stories"] == 20
    assert (own["count"], own["words"], own["whole"]) == (3, 33, 3)
    assert own["longest_run"] == {"value": 11.0, "low": 11.0, "high": 11.0}
    assert own["overlap"]["value"] == 1.0
    assert {name: row["value"] for name, row in own["new"].items()} == dict.fromkeys(
        map(str, ORDERS), 0.0
    )
    assert other["longest_run"]["value"] == other["longest_run_largest"] == 2  # the dog | a bird
    assert other["new"]["1"]["value"] == pytest.approx(1 / 6)  # "to", as <unk>
    assert other["new"]["2"]["value"] == pytest.approx(3 / 5)
    assert list(other["new"]) == ["1", "2", "3", "4", "5", "6"]  # six words have no 7-gram
    assert other["whole"] == 0
    assert [row["text"] for row in table] == ["continuation", "reference"] * 3
    first, second = table[:2]
    assert (first["run"], first["run_story"], first["nearest_story"], first["nearest"]) == (
        copy,
        1,
        1,
        copy,
    )
    assert (second["run"], second["nearest_story"], second["nearest"]) == ("the dog", "", "")
    assert second["new_2"] == pytest.approx(3 / 5)
    assert second["new_7"] is None


def test_intervals_are_over_texts_and_pool_their_ngrams(corpus):
    folder, tokenizer = corpus
    texts = [tokenizer.encode("a bird sang"), tokenizer.encode("sang sang cat")]
    rows = [{"prompt": "", "ids": ids, "reference_ids": []} for ids in texts]
    figures, _ = measure_memorised(
        rows, tokenizer, TokenStore(folder / "tokens", "train"), SETTINGS
    )
    assert figures["continuations"]["longest_run"] == {"value": 2.0, "low": 1.0, "high": 3.0}
    assert figures["continuations"]["new"]["2"] == {"value": 0.5, "low": 0.0, "high": 1.0}
    assert figures["references"] == {"count": 0, "words": 0}  # nothing was said: no figure


def test_words_of_are_the_vocabularys_without_marks_but_unknown_ones(corpus):
    _, tokenizer = corpus
    assert words_of(tokenizer, tokenizer.encode_story("the dog zebra ran")) == [
        "the",
        "dog",
        "<unk>",
        "ran",
    ]


def test_marks_of_punctuation_are_words_of_their_own_wherever_a_text_is_cut():
    vocab = VocabSettings(tokenizer="words", punctuation="keep")
    text = 'the dog said "run home" and "go"'
    tokenizer = build_tokenizer(count_words([text], vocab), vocab)
    ids = tokenizer.encode(text)
    assert (
        words_of(tokenizer, ids)[4:]
        == words_of(tokenizer, ids[4:])
        == ["run", "home", '"', "and", '"', "go", '"']
    )


def test_byte_pairs_are_compared_as_words(tmp_path):
    stories = ["The dog ran home, happy.", "A cat sang."]
    tokenizer = train_bpe(
        iter(stories), VocabSettings(tokenizer="bpe", lower_case=False, max_size=280)
    )
    write_store(tmp_path, "train", map(tokenizer.encode_story, stories), len(tokenizer))
    assert words_of(tokenizer, tokenizer.encode(" ran home, happy.")) == ["ran", "home,", "happy."]
    rows = [
        {
            "prompt": "",
            "ids": tokenizer.encode(" ran home, sad."),
            "reference_ids": tokenizer.encode(" cat sang."),
        }
    ]
    figures, table = measure_memorised(rows, tokenizer, TokenStore(tmp_path, "train"), SETTINGS)
    assert [row["run"] for row in table] == ["ran home,", "cat sang."]
    assert figures["references"]["whole"] == 1
    assert np.isclose(figures["continuations"]["new"]["1"]["value"], 1 / 3)
