"""The figures of graded texts, n-gram samples, and the curve over training."""

import numpy as np
import pytest

from tinylm.evaluate import sense_methods as module
from tinylm.evaluate.ngram import KneserNey
from tinylm.evaluate.sense import grade, sense, wilson
from tinylm.evaluate.sense_methods import over_training, rows_of, sample_ngrams
from tinylm.storybook.corpus import generate, normalise
from tinylm.vocab.prompts import Prompt
from tinylm.vocab.words import SPECIALS

STORY = normalise(next(generate(1, 1, 5)[0]).text)
START, REST = " ".join(STORY.split()[:6]), " ".join(STORY.split()[6:])
SHORT = " ".join(STORY.split()[:20])


@pytest.mark.parametrize(
    ("count", "of", "low", "high"),
    [(0, 50, 0.0, 0.0713), (50, 50, 0.9287, 1.0), (5, 10, 0.2366, 0.7634), (1, 10, 0.0179, 0.4042)],
)
def test_wilsons_interval(count, of, low, high):
    """Against the values of Newcombe (1998), method 3, and of the formula's limits."""
    found = wilson(count, of)
    assert (found["value"], found["low"], found["high"]) == pytest.approx(
        (count / of, low, high), abs=1e-4
    )
    assert wilson(0, 0) is None


def test_texts_are_read_up_to_their_first_impossible_word():
    whole, broken = grade(
        [(START, REST, True), (START, f"{' '.join(REST.split()[:4])} zzz and more", False)]
    )
    assert whole.verdict.kind == ""
    assert whole.read == len(REST.split())
    assert (broken.read, broken.verdict.word) == (5, "zzz")
    early = grade([(START, " ".join(REST.split()[:4]), True)])[0]
    assert (early.read, early.verdict.kind) == (5, "end")  # the end is what is impossible


def test_an_impossible_prompt_is_left_out_and_nothing_is_read_after_an_unknown_word():
    assert grade([("zzz once", "upon a time", False)]) == []
    (found,) = grade([(START, f"{' '.join(REST.split()[:3])} <unk> zzz", True)])
    assert (found.verdict.kind, found.read) == ("", 3)


def test_figures_count_words_per_impossible_one():
    texts = [
        (START, REST, True),
        (START, " ".join(REST.split()[:9]) + " zzz", False),
        (START, "zzz", False),
    ]
    found = sense(grade(texts), 200, 1)
    assert found["texts"] == 3
    assert found["possible"]["value"] == pytest.approx(1 / 3)
    assert found["words"]["value"] == pytest.approx((len(REST.split()) + 10 + 1) / 2)
    assert found["words"]["low"] <= found["words"]["value"] <= found["words"]["high"]
    assert sum(found["kinds"].values()) == 2
    assert found == sense(grade(texts), 200, 1)


def test_no_impossible_word_and_no_text_at_all():
    assert sense(grade([(START, REST, True)]), 50, 1)["words"] is None
    nothing = sense([], 50, 1)
    assert (nothing["texts"], nothing["possible"], nothing["words"]) == (0, None, None)


def test_rows_name_the_word_and_what_could_stand_there():
    rows = rows_of(
        "decode", grade([(START, REST, True), (START, f"{' '.join(REST.split()[:4])} zzz", False)])
    )
    (row,) = rows
    assert (row["method"], row["word"], row["story"]) == (
        "decode",
        "zzz",
        " ".join(STORY.split()[:10]),
    )
    assert STORY.split()[10] in row["instead"].split(", ") or row["instead"].count(",") == 4
    (end,) = rows_of("x", grade([(START, " ".join(REST.split()[:4]), True)]))
    assert (end["word"], end["kind"]) == ("<eos>", "end")


def test_the_samples_of_training_are_graded_point_by_point():
    samples = [
        {
            "update": 0,
            "tokens": 0,
            "prompt": START,
            "text": f"{START} zzz",
            "others": [f"{START} zzz"] * 2,
        },
        {"update": 9, "tokens": 90, "prompt": START, "text": SHORT, "others": [f"{SHORT} zzz"]},
    ]
    first, last = over_training(samples, 50, 1)
    assert (first["update"], first["tokens"], first["texts"], first["words"]["value"]) == (
        0,
        0,
        3,
        1.0,
    )
    assert (last["tokens"], last["possible"]["value"], last["words"]["value"]) == (90, 0.5, 29.0)


class Words:
    """As much of a tokenizer as the sampler asks for."""

    eos_id = 1

    def decode(self, ids):
        return " ".join(3 * chr(ord("a") + index) for index in ids if index >= len(SPECIALS))


def test_n_gram_samples_follow_the_model_and_end_at_eos():
    rng = np.random.default_rng(1)
    texts = [np.array([0, *rng.integers(5, 9, 8), 1]) for _ in range(50)]
    ngrams, tokenizer = KneserNey(texts, 3, 9), Words()
    prompts = [Prompt([0, 5], [], number) for number in range(40)]
    drawn = sample_ngrams(ngrams, prompts, tokenizer, [0, 2, 3], 30, 1)
    assert drawn == sample_ngrams(ngrams, prompts, tokenizer, [0, 2, 3], 30, 1)
    assert drawn != sample_ngrams(ngrams, prompts, tokenizer, [0, 2, 3], 30, 2)
    assert {prompt for prompt, _, _ in drawn} == {"fff"}
    assert len({text for _, text, _ in drawn}) > 30
    assert any(ended for *_, ended in drawn)
    assert all(ended or len(text.split()) == 30 for _, text, ended in drawn)
    alone = sample_ngrams(ngrams, prompts[:3], tokenizer, [0, 2, 3], 30, 1)
    assert alone == drawn[:3]


def test_every_method_is_judged_on_the_same_prompts(monkeypatch):
    """The stories' own make sense; what each method is asked to do is what its name says."""
    asked = []

    class Found:
        ids, finished = [7, 8], False

    def generate(model, prompts, settings, **options):
        asked.append(
            (settings.temperature, settings.top_k, settings.top_p, options["max_new_tokens"])
        )
        return [Found] * len(prompts)

    from tinylm.decoding.settings import DecodeSettings
    from tinylm.evaluate.settings import EvaluateSettings

    monkeypatch.setattr(module, "generate", generate)
    monkeypatch.setattr(module, "decoder_of", lambda *_: None)
    monkeypatch.setattr(module, "never_generated", lambda *_: [0])
    monkeypatch.setattr(module, "sample_ngrams", lambda *_: [(START, "zzz", False)])
    settings = EvaluateSettings(
        stories=1, prompts="starts", prompt_tokens=5, new_tokens=12, reference="cut", stop_at_eos=True, greedy=0,
        ngram_order=2, attention_sentences=1, tendency_sentences=1, ablation_stories=1, bootstrap=20, seed=1,
    )  # fmt: skip
    rows = [{"prompt": START, "reference": REST, "continuation": "zzz", "finished": False}]
    decode = DecodeSettings(temperature=0.8, top_k=50)
    figures, table = module.judge_methods(
        None, Words(), [Prompt([0], [], 0)], rows, None, settings, decode
    )
    assert list(figures["methods"]) == [
        "references", "decode", "greedy", "temperature 0.5", "temperature 1", "temperature 1.5", "kneser_ney"
    ]  # fmt: skip
    assert asked == [(0.0, 50, 1.0, 12), (0.5, 0, 1.0, 12), (1.0, 0, 1.0, 12), (1.5, 0, 1.0, 12)]
    assert figures["methods"]["references"]["possible"]["value"] == 1.0
    assert figures["methods"]["decode"]["words"]["value"] == 1.0
    assert {row["method"] for row in table} == set(figures["methods"]) - {"references"}
