"""Rows 40 to 42 and 48: prompts, settings of decoding, and BLEU of nothing."""

import math

import pytest

from tests.fuzz.seeds import WORDS, tiny_model
from tests.support.small import DECODE
from tinylm.base.config import InputError, read_section
from tinylm.decoding.beam_search import beam_search
from tinylm.decoding.sampling import generate
from tinylm.decoding.settings import DecodeSettings
from tinylm.decoding.texts import generate_text
from tinylm.evaluate.bleu import Bleu
from tinylm.vocab.settings import VocabSettings
from tinylm.vocab.words import build_tokenizer, count_words

VOCAB = VocabSettings(tokenizer="words")
TOKENIZER = build_tokenizer(count_words([" ".join(WORDS)], VOCAB), VOCAB)
MODEL = tiny_model(len(TOKENIZER))


def settings(**changes) -> DecodeSettings:
    return DecodeSettings(**(DECODE | changes))


@pytest.mark.parametrize("prompt", ["", "   ", "\0", "\n\t", "!?"])
def test_fault_40_a_prompt_without_words_starts_a_story(prompt):
    (text,) = generate_text(MODEL, TOKENIZER, [prompt], settings(), max_new_tokens=5)
    (empty,) = generate_text(MODEL, TOKENIZER, [""], settings(), max_new_tokens=5)
    assert text == empty


def test_fault_40_unknown_words_and_long_prompts_are_warned_of():
    with pytest.warns(UserWarning, match="no word of it is known; the model sees <unk>"):
        generate_text(MODEL, TOKENIZER, ["zebra xylophone"], settings(), max_new_tokens=2)
    context = MODEL.settings.context
    with pytest.warns(UserWarning, match=f"the context holds {context}; the model sees the last"):
        generate_text(MODEL, TOKENIZER, ["dog " * 50], settings(), max_new_tokens=2)
    with pytest.warns(UserWarning, match=f"50001 tokens, the context holds {context}"):
        (text,) = generate_text(MODEL, TOKENIZER, ["dog " * 50_000], settings(), max_new_tokens=2)
    assert text.startswith("dog dog")
    with pytest.warns(UserWarning, match="the context holds"):
        generate_text(MODEL, TOKENIZER, ["x" * 1_000_000], settings(), max_new_tokens=2)


HOSTILE = [
    {"temperature": 1e-9}, {"temperature": 5e-324}, {"temperature": 1e6}, {"temperature": 0.0}, {"top_k": 1},
    {"top_k": 10**9}, {"top_p": 1e-300}, {"repetition_penalty": 1000.0},
    {"temperature": 0.0, "temperature_end": 1e6}
]  # fmt: skip


@pytest.mark.parametrize("changes", HOSTILE)
def test_fault_41_hostile_settings_give_a_finite_text(changes):
    (found,) = generate(
        MODEL,
        [[0, 5]],
        settings(**changes),
        max_new_tokens=20,
        eos_id=TOKENIZER.eos_id,
        banned=[],
        with_log_probs=True,
    )
    assert 1 <= len(found.ids) <= 20
    assert all(math.isfinite(value) and value <= 0 for value in found.log_probs)


def test_fault_41_cold_sampling_is_greedy_and_no_tokens_are_none():
    greedy = generate(
        MODEL,
        [[0, 5]],
        settings(temperature=0.0),
        max_new_tokens=20,
        eos_id=TOKENIZER.eos_id,
        banned=[],
    )
    for changes in ({"temperature": 1e-9}, {"top_k": 1}, {"top_p": 1e-300}):
        assert (
            generate(
                MODEL,
                [[0, 5]],
                settings(**changes),
                max_new_tokens=20,
                eos_id=TOKENIZER.eos_id,
                banned=[],
            )[0].ids
            == greedy[0].ids
        )
    (nothing,) = generate(
        MODEL, [[0, 5]], settings(), max_new_tokens=0, eos_id=TOKENIZER.eos_id, banned=[]
    )
    assert nothing.ids == []
    only_end = [index for index in range(len(TOKENIZER)) if index != TOKENIZER.eos_id]
    (ended,) = generate(
        MODEL, [[0]], settings(), max_new_tokens=5, eos_id=TOKENIZER.eos_id, banned=only_end
    )
    assert ended.ids == [TOKENIZER.eos_id]


def test_fault_41_beams_up_to_the_vocabulary_are_defined_and_wider_ones_refused():
    def search(width: int):
        return beam_search(
            MODEL,
            [[0, 5]],
            width=width,
            max_new_tokens=3,
            length_penalty=0.6,
            eos_id=TOKENIZER.eos_id,
            banned=[],
            n_best=4,
        )[0]

    assert all(math.isfinite(hypothesis.score) for hypothesis in search(len(TOKENIZER)))
    with pytest.raises(InputError, match="beam width = 16; allowed: 1 to the vocabulary's 15"):
        search(len(TOKENIZER) + 1)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("temperature", math.inf),
        ("temperature", math.nan),
        ("top_p", 0.0),
        ("top_p", 1.1),
        ("top_k", -1),
        ("seed", -1),
    ],
)
def test_fault_41_values_out_of_range_are_refused(key, value):
    with pytest.raises(InputError, match=rf"params.yaml: decode\.{key} = .*; allowed: "):
        read_section({"decode": DECODE | {key: value}}, "decode", DecodeSettings)


@pytest.mark.parametrize("slide", ["half", "one"])
@pytest.mark.parametrize("temperature", [0.0, 0.9])
def test_fault_42_past_the_context_the_cache_changes_nothing(slide, temperature):
    prompts = [[0, 5], [0, *range(4, 14), 5, 6, 7], [0]]
    chosen = settings(slide=slide, temperature=temperature)
    cached, plain = (
        generate(
            MODEL,
            prompts,
            chosen,
            max_new_tokens=4 * MODEL.settings.context,
            eos_id=None,
            banned=[],
            use_cache=use,
        )
        for use in (True, False)
    )
    assert [one.ids for one in cached] == [one.ids for one in plain]
    assert len(cached[0].ids) == 4 * MODEL.settings.context


@pytest.mark.parametrize(
    ("predictions", "references", "score"),
    [
        ([], [], 0.0), ([""], [""], 0.0), ([""], ["a b c d e"], 0.0), (["a b c d e"], [""], 0.0),
        (["a"], ["a"], 0.0), (["a b c"], ["a b c"], 0.0), (["a b c d"], ["a b c d"], 1.0),
        (["", "a b c d"], ["", "a b c d"], 1.0)
    ],
)  # fmt: skip
@pytest.mark.parametrize("tokenize", ["13a", "none"])
def test_fault_48_bleu_of_next_to_nothing_is_defined(predictions, references, score, tokenize):
    found = Bleu().compute(predictions=predictions, references=references, tokenize=tokenize)
    assert found["bleu4"] == pytest.approx(score)
    for name in ("bleu1", "bleu2", "bleu3", "bleu4", "sentence_bleu", "brevity_penalty"):
        assert 0.0 <= found[name] <= 1.0
