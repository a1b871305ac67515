"""generate() of transformers on an export: our ids and scores, and where it differs."""

import dataclasses
import itertools
from pathlib import Path

import pytest
import torch
from hypothesis import HealthCheck, example, given
from hypothesis import settings as drawn
from hypothesis import strategies as st

from tests.drawn.drawing import settings_changes, with_changes
from tests.exchange.conftest import WORDS
from tests.support.remote_code import own_modules
from tests.support.small import words_of
from tinylm.base.config import read_section
from tinylm.base.files import read_json
from tinylm.decoding.beam_search import beam_search
from tinylm.decoding.decoder import Decoder
from tinylm.decoding.filters import ban, penalise_repeats, probabilities
from tinylm.decoding.sampling import generate
from tinylm.decoding.settings import BeamSettings, DecodeSettings
from tinylm.decoding.texts import banned_ids
from tinylm.exchange.generation import GENERATION_CONFIG, beam_search_call, untranslated

NEW = 12
# At much higher temperatures, words differ in probability by rounding alone, which would decide what a filter keeps.
HOTTEST = 10.0
FURTHER = [
    f"word{number}" for number in range(60)
]  # without top_k in the file, generate() keeps 50 words
PROMPTS = ["the cat", "", "rain came down on two big dogs", "home", "a mat saw the rain"]
FORMS = {
    "gpt2": ("transformers", {"heads": 1}),
    "gpt2-wider": ("transformers", {"head_width": 7}),
    "neox": ("transformers", {"positions": "rotary", "width": 20, "heads": 2}),
    "own": ("tinylm", {"norm_kind": "std", "positions": "learned"}),
}


@pytest.fixture
def read_export(export_of):
    """(model, tokenizer) of transformers, read from an export."""
    transformers = pytest.importorskip("transformers")

    def read(model, form="transformers", **decode):
        folder = export_of(model, form, **decode)
        trust = {"trust_remote_code": True} if form == "tinylm" else {}
        exported = transformers.AutoModelForCausalLM.from_pretrained(folder, **trust)
        assert {parameter.dtype for parameter in exported.parameters()} == {torch.float32}
        return exported.eval(), transformers.AutoTokenizer.from_pretrained(folder, **trust)

    with own_modules():
        yield read


def prompt_ids(words):
    return [words.encode_prompt(text, "prompt") for text in PROMPTS]


def continuations(rows, start, eos_id):
    """New ids of each row, up to and with <eos>: what follows is padding."""
    continued = []
    for row in rows[:, start:].tolist():
        continued.append(row[: row.index(eos_id) + 1] if eos_id in row else row)
    return continued


def exported_texts(exported, tokenizer, **options):
    """(new ids, scores) that generate() gives for all prompts in one batch, padded on the left."""
    batch = tokenizer(PROMPTS, return_tensors="pt", padding=True)
    options = {"do_sample": False, "max_new_tokens": NEW} | options
    result = exported.generate(**batch, **options, return_dict_in_generate=True, output_scores=True)
    ids = continuations(result.sequences, batch.input_ids.shape[1], tokenizer.eos_token_id)
    return ids, getattr(result, "sequences_scores", torch.zeros(0)).tolist()


def beams(model, words, width, alpha, n_best):
    decoder = Decoder(model=model, eos_id=words.eos_id, banned=banned_ids(words))
    settings = BeamSettings(width=width, length_penalty=alpha, n_best=n_best)
    rows = beam_search(decoder, prompt_ids(words), settings, max_new_tokens=NEW)
    return list(itertools.chain(*rows))


@pytest.mark.parametrize("form", FORMS)
def test_greedy_and_beams_give_our_ids_and_scores(
    speaking_model, read_export, words, decode_settings, form
):
    """Texts of unequal prompts, ended and unended."""
    kind, settings = FORMS[form]
    model = speaking_model(**settings)
    exported, tokenizer = read_export(model, kind)
    decoder = Decoder(model=model, eos_id=words.eos_id, banned=banned_ids(words))
    greedy = decode_settings().greedy()
    expected = generate(decoder, prompt_ids(words), greedy, max_new_tokens=NEW)
    assert exported_texts(exported, tokenizer)[0] == [text.ids for text in expected]
    lengths = set()
    for width, alpha in ((5, 0.6), (5, 0.0), (10, 1.0)):
        hypotheses = beams(model, words, width, alpha, 3)
        options = {"num_beams": width, "length_penalty": alpha, "early_stopping": "never"}
        options["num_return_sequences"] = 3
        ids, scores = exported_texts(exported, tokenizer, **options)
        assert ids == [hypothesis.ids for hypothesis in hypotheses], (width, alpha)
        assert scores == pytest.approx([one.score for one in hypotheses], abs=2e-5)
        lengths |= {len(row) for row in ids}
    assert len(lengths) > 3  # else length normalisation is not tested


@drawn(max_examples=10, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    alpha=st.sampled_from([0.0, 0.6, 2.0]),
    temperature=st.sampled_from([0.0, 1.0, 3.0]),
    penalty=st.sampled_from([1.0, 1.5, 10.0]),
)
def test_the_printed_call_is_our_beam_search_whatever_section_decode_says(
    speaking_model, read_export, words, alpha, temperature, penalty
):
    torch.manual_seed(0)
    model = speaking_model()
    decode = {"temperature": temperature, "repetition_penalty": penalty}
    exported, tokenizer = read_export(model, **decode)
    batch = tokenizer(PROMPTS, return_tensors="pt", padding=True)

    def generate(**options):
        return exported.generate(**batch, **options, max_new_tokens=NEW)

    rows = eval(beam_search_call(alpha), {"generate": generate})
    ids = continuations(rows, batch.input_ids.shape[1], words.eos_id)
    assert ids == [best.ids for best in beams(model, words, 5, alpha, 1)]


@pytest.mark.parametrize("is_greedy", [False, True])
@drawn(max_examples=15, suppress_health_check=[HealthCheck.function_scoped_fixture])
@example(changes={"decode.temperature": 1e-40})
@given(changes=settings_changes(("decode",)))
def test_generate_draws_from_our_distribution_whatever_section_decode_says(
    random_model, read_export, is_greedy, changes
):
    """Checked at each token that generate() writes with the file's settings alone.

    Settings that the file cannot express have their defaults.
    """
    torch.manual_seed(0)
    words = words_of([WORDS, " ".join(FURTHER)])
    decode = read_section(with_changes(changes), "decode", DecodeSettings)
    decode = dataclasses.replace(
        decode,
        fallback_mass=0.0,
        repetition_window=None,
        temperature=0.0 if is_greedy else min(decode.temperature, HOTTEST),
    )
    assert untranslated(decode) == []
    model = random_model(vocab=len(words), context=29)
    exported, tokenizer = read_export(model, tokenizer=words, **dataclasses.asdict(decode))
    written = read_json(Path(exported.name_or_path) / GENERATION_CONFIG)
    marks = {
        "bos_token_id": words.sos_id,
        "eos_token_id": words.eos_id,
        "pad_token_id": words.pad_id,
    }
    assert written.items() >= (marks | {"max_length": 29}).items()
    assert not (is_greedy and {"temperature", "top_k", "top_p"} & written.keys())
    batch = tokenizer(PROMPTS, return_tensors="pt", padding=True)
    result = exported.generate(
        **batch, max_new_tokens=NEW, return_dict_in_generate=True, output_scores=True
    )
    starts = prompt_ids(words)
    padded = batch.input_ids.shape[1]
    rows = continuations(result.sequences, padded, words.eos_id)
    for number, (start, row) in enumerate(zip(starts, rows, strict=True)):
        for step in range(len(row)):
            ids = torch.tensor([[*start, *row[:step]]])
            with torch.no_grad():
                logits = ban(model(ids)[:, -1], banned_ids(words))
            seen = torch.zeros(logits.shape, dtype=torch.bool).scatter(1, ids, True)
            logits = penalise_repeats(logits, seen, decode.repetition_penalty)
            expected = probabilities(logits, decode)[0]
            scores = result.scores[step][number].double()
            theirs = scores.softmax(-1)
            if decode.temperature == 0.0:
                theirs = torch.eye(len(scores), dtype=torch.float64)[row[step]]
            torch.testing.assert_close(theirs, expected, atol=1e-4, rtol=0)


def test_what_their_generate_lacks_is_named(decode_settings):
    assert untranslated(decode_settings(temperature=0.5, top_k=3)) == []
    changes = {"fallback_mass": 0.5, "repetition_window": 20, "repetition_penalty": 1.2}
    lines = untranslated(decode_settings(**changes))
    keys = [line.split(" = ")[0] for line in lines]
    assert keys == ["decode.fallback_mass", "decode.repetition_window"]
