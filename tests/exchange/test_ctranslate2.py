"""An export through CTranslate2's own converter: the ids of our greedy decoding and, where they are defined, scores."""

import json

import pytest
import torch

from tinylm.decoding.beam_search import beam_search
from tinylm.decoding.sampling import generate
from tinylm.decoding.texts import banned_ids, encode_prompt
from tinylm.vocab.longest_match import train_longest_match
from tinylm.vocab.settings import VocabSettings
from tinylm.vocab.words import build_tokenizer, count_words

ctranslate2 = pytest.importorskip("ctranslate2")
pytest.importorskip("transformers")

NEW = 12
PROMPTS = ["the cat", "", "rain came down on two big dogs", "home"]
FORMS = {
    "gpt2": {"heads": 1},
    "gpt2-uneven-heads": {},
    "gpt2-rms-relu": {"norm_kind": "rms", "activation": "relu", "positions": "learned"},
    "opt": {"norm": "post", "final_norm": False, "activation": "relu"},
    "opt-final-norm": {"norm": "post", "norm_eps": 1e-3},
    "opt-rms": {"norm": "post", "norm_kind": "rms", "positions": "none"},
}


class EightsConverter(ctranslate2.converters.TransformersConverter):
    """As in docs/how-to/export.md: CTranslate2 has OPT's vocabulary in eights, so the model gets further rows."""

    def load_model(self, model_class, name, **options):
        model = super().load_model(model_class, name, **options)
        model.resize_token_embeddings(pad_to_multiple_of=8, mean_resizing=False)
        return model


@pytest.fixture
def converted(tmp_path):
    """CTranslate2's generator of an export."""

    def convert(folder, converter=ctranslate2.converters.TransformersConverter):
        out = converter(str(folder)).convert(str(tmp_path / "converted"))
        return ctranslate2.Generator(out, device="cpu", inter_threads=1, intra_threads=1)

    return convert


def prompt_ids(words):
    return [encode_prompt(words, text, "prompt") for text in PROMPTS]


def elsewhere(generator, words, further=(), **options):
    """Each prompt's hypotheses. Their <eos> is left out unless asked for; what is never generated is named by us."""
    return generator.generate_batch(
        [[words.tokens[index] for index in ids] for ids in prompt_ids(words)],
        max_batch_size=1,
        include_prompt_in_result=False,
        return_end_token=True,
        suppress_sequences=[[words.tokens[index]] for index in banned_ids(words)]
        + [[word] for word in further],
        **{"max_length": NEW} | options,
    )


@pytest.mark.parametrize("form", FORMS)
def test_the_same_greedy_ids(speaking_model, export_of, converted, words, decode_settings, form):
    model = speaking_model(**FORMS[form])
    generator = converted(export_of(model))
    greedy = decode_settings().greedy()
    ours = generate(
        model,
        prompt_ids(words),
        greedy,
        max_new_tokens=NEW,
        eos_id=words.eos_id,
        banned=banned_ids(words),
    )
    assert [row.sequences_ids[0] for row in elsewhere(generator, words, beam_size=1)] == [
        row.ids for row in ours
    ]
    assert len({tuple(row.ids) for row in ours}) > 2


def test_a_beam_of_words_that_may_all_be_said(speaking_model, export_of, converted, words):
    """With nothing suppressed the log-probabilities are ours: without length normalisation, the same beams."""
    model = speaking_model(heads=1)
    generator = converted(export_of(model))
    ours = beam_search(
        model, prompt_ids(words), width=5, max_new_tokens=NEW, eos_id=None, banned=[], n_best=3
    )
    tokens = [[words.tokens[index] for index in ids] for ids in prompt_ids(words)]
    options = {
        "beam_size": 5,
        "num_hypotheses": 3,
        "length_penalty": 0.0,
        "return_scores": True,
        "end_token": [],
    }
    made = generator.generate_batch(
        tokens, max_batch_size=1, max_length=NEW, include_prompt_in_result=False, **options
    )
    assert [row.sequences_ids for row in made] == [
        [hypothesis.ids for hypothesis in row] for row in ours
    ]
    for row, hypotheses in zip(made, ours):
        assert row.scores == pytest.approx(
            [hypothesis.log_prob for hypothesis in hypotheses], abs=1e-4
        )


def test_its_scores_are_of_what_is_left_when_words_are_suppressed(
    speaking_model, export_of, converted, words
):
    """It shares the probability of suppressed words out among the others; we leave it where it is."""
    model = speaking_model(heads=1)
    generator = converted(export_of(model))
    banned = banned_ids(words)
    made = elsewhere(generator, words, max_length=1, beam_size=1, return_scores=True)
    for row, ids in zip(made, prompt_ids(words), strict=True):
        (ours,) = beam_search(
            model, [ids], width=1, max_new_tokens=1, eos_id=words.eos_id, banned=banned
        )[0]
        with torch.no_grad():
            left = 1.0 - model(torch.tensor([ids]))[0, -1].softmax(-1)[banned].sum()
        assert row.sequences_ids == [ours.ids]
        assert row.scores[0] == pytest.approx(ours.log_prob - float(left.log()), abs=1e-5)
        assert row.scores[0] > ours.log_prob + 1e-4


def test_an_opt_of_another_vocabulary_than_eights(
    random_model, export_of, converted, decode_settings
):
    settings = VocabSettings(tokenizer="words")
    words = build_tokenizer(count_words([" ".join(PROMPTS)], settings), settings)
    assert len(words) == 14
    model = random_model(vocab=14, norm="post", tied_output=False, context=29)
    folder = export_of(model, tokenizer=words)
    with pytest.raises(
        ValueError, match="Vocabulary has size 16 but the model expected a vocabulary of size 14"
    ):
        converted(folder)
    generator = converted(folder, EightsConverter)
    greedy = decode_settings().greedy()
    ours = generate(
        model,
        prompt_ids(words),
        greedy,
        max_new_tokens=NEW,
        eos_id=words.eos_id,
        banned=banned_ids(words),
    )
    made = elsewhere(generator, words, further=["madeupword0000", "madeupword0001"], beam_size=1)
    assert [row.sequences_ids[0] for row in made] == [row.ids for row in ours]


def test_a_pre_norm_model_without_final_norm_is_refused_by_the_converter(
    random_model, export_of, converted, words
):
    folder = export_of(random_model(vocab=len(words), final_norm=False, context=29))
    with pytest.raises(ValueError, match="decoder/layer_norm/gamma"):
        converted(folder)


def test_a_vocabulary_without_special_tokens_wants_names_for_them(
    tmp_path, random_model, export_of, converted
):
    """What docs/how-to/export.md says to write into the converted config.json; no id of the model is meant by it."""
    settings = VocabSettings(
        tokenizer="longest_match", lower_case=False, punctuation="keep", max_size=40
    )
    own = train_longest_match(["the cat sat on a mat, and saw two big dogs run far"], settings)
    model = random_model(vocab=len(own), heads=1, context=29)
    folder = export_of(model, tokenizer=own)
    with pytest.raises(RuntimeError, match="type must be string"):
        converted(folder)
    config = tmp_path / "converted" / "config.json"
    content = json.loads(config.read_text())
    config.write_text(
        json.dumps(content | dict.fromkeys(("bos_token", "eos_token", "unk_token"), "<none>"))
    )
    generator = ctranslate2.Generator(
        str(config.parent), device="cpu", inter_threads=1, intra_threads=1
    )
    ids = own.encode("the cat sat")
    ours = beam_search(model, [ids], width=1, max_new_tokens=NEW, eos_id=None, banned=[])[0][0]
    tokens = [own.tokens[index] for index in ids]
    made = generator.generate_batch(
        [tokens], max_length=NEW, beam_size=1, include_prompt_in_result=False
    )
    assert made[0].sequences_ids == [ours.ids]
