"""A session, from texts to logits and back, compared with each text alone."""

import warnings

import pytest
import torch

from tests.decoding.conftest import CONTEXT, EOS, PAD, SOS, UNK, decoder_of
from tests.drawn.models import window
from tinylm.base.config import InputError
from tinylm.decoding.sampling import generate
from tinylm.decoding.session import Session
from tinylm.decoding.texts import banned_ids, encode_prompts, generate_text
from tinylm.vocab.tokenizer import Tokenizer


def test_rows_that_differ_only_in_length_swap_their_caches(model):
    """An id 0 behind the shorter row looks like the longer one's last token, but their windows start apart."""
    short = [5, 9, 7, 20, 4, 8, 30, 11, 6, 17, 22, 10, 19]
    texts = [short, [*short, 0]]
    session = Session(model, texts)
    session.next_logits()
    session.select(torch.tensor([1, 0]))
    expected = []
    with torch.no_grad():
        for text in reversed(texts):
            expected.append(model(torch.tensor([window(text, CONTEXT, "half")]))[0, -1])
    found = session.next_logits()
    torch.testing.assert_close(found, torch.stack(expected), rtol=1e-9, atol=1e-9)


def test_cache_is_no_larger_than_needed(model):
    small, large = Session(model, [[0, 4]], new_tokens=3), Session(model, [[0, 4]], new_tokens=300)
    for session in (small, large):
        assert session._cache is None
        session.next_logits()
    assert small._cache.nbytes * 13 == large._cache.nbytes * 5


@pytest.mark.parametrize("prompts", [[], [[0], []], [[0, 31]], [[-1]]])
def test_prompts_without_meaning_are_refused(model, prompts):
    with pytest.raises(ValueError, match="prompt"):
        Session(model, prompts)


@pytest.mark.parametrize(
    ("dtype", "factor", "cause"),
    [(torch.float32, 3e38, "training diverged"), (torch.float16, 6e4, "65,504")],
)
def test_logits_that_are_not_finite_are_an_error_in_one_line(make_model, dtype, factor, cause):
    model = make_model(dtype=dtype)
    with torch.no_grad():
        model.final_norm.gain.fill_(factor)
    with pytest.raises(InputError, match=f"not finite: .*{cause}"):
        Session(model, [[0, 7]]).next_logits()


def test_large_logits_are_no_error(make_model):
    model = make_model(dtype=torch.float64)
    with torch.no_grad():
        model.final_norm.gain.mul_(1e307)
    assert Session(model, [[0, 7], [0, 4]]).next_logits().isfinite().all()


def test_a_model_in_low_precision_gives_logits_in_float32(make_model):
    model = make_model(dtype=torch.bfloat16)
    assert Session(model, [[0, 4]]).next_logits().dtype == torch.float32


class Letters:
    """Letters a to z are ids 5 to 30, all else <unk>; special tokens decode to nothing, but for <unk>."""

    sos_id, eos_id, pad_id, unk_id = SOS, EOS, PAD, UNK
    specials = frozenset({SOS, EOS, PAD, UNK})
    encode_prompt = Tokenizer.encode_prompt

    def encode(self, text: str) -> list[int]:
        letters = text.replace(" ", "")
        return [ord(letter) - 92 if "a" <= letter <= "z" else UNK for letter in letters]

    def decode(self, ids) -> str:
        shown = [token for token in ids if token not in (SOS, EOS, PAD)]
        return "".join("?" if token == UNK else chr(token + 92) for token in shown)


class Bare(Letters):
    """No special token at all; "a" fills inputs too."""

    sos_id = eos_id = unk_id = None
    pad_id = 5
    specials = frozenset()


class Shared(Letters):
    """One id in every special role."""

    sos_id = eos_id = pad_id = EOS
    unk_id = None
    specials = frozenset({EOS})


def test_a_text_starts_with_sos_and_keeps_its_prompt(model, settings):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ids = encode_prompts(Letters(), ["", "  ", "ab"], 13, "half")
        texts = generate_text(
            decoder_of(model), Letters(), ["", "once upon"], settings(), max_new_tokens=30
        )
    assert ids == [[SOS], [SOS], [SOS, 5, 6]]
    assert texts[1].startswith("onceupon")
    assert all(len(text) > 2 and "?" not in text for text in texts)


def test_the_end_is_no_part_of_the_text(model, settings):
    banned = [word for word in range(31) if word != EOS]
    decoder = decoder_of(model, banned=banned)
    texts = generate_text(decoder, Letters(), ["ab"], settings(), max_new_tokens=3)
    assert texts == ["ab"]


def test_a_text_may_run_on_past_the_end(model, settings):
    """Only `<eos>` and word 7 may be drawn; the text continues after `<eos>`."""
    decoder = decoder_of(model, banned=[word for word in range(31) if word not in (EOS, 7)])
    options = {"max_new_tokens": 40, "stop_at_eos": False}
    (text,) = generate_text(decoder, Letters(), ["ab"], settings(), **options)
    continued = generate(decoder, [[SOS, 5, 6]], settings(), **options)[0].ids
    assert EOS in continued[:-1]
    assert text == Letters().decode([5, 6, *continued])


def test_recent_tokens_of_a_short_row_are_its_own(model):
    """A row that is too short repeats its first token."""
    session = Session(model, [[9, 8, 7, 6], [5]])
    assert session.recent(3).tolist() == [[6, 7, 8], [5, 5, 5]]


def test_only_ids_that_are_neither_text_nor_an_end_are_banned():
    assert banned_ids(Letters()) == [SOS, PAD, UNK]
    assert banned_ids(Bare()) == banned_ids(Shared()) == []


def test_an_empty_prompt_needs_a_token_to_start_from():
    with pytest.raises(InputError, match="prompt 2"):
        encode_prompts(Bare(), ["a", " "], 13, "half")
    assert Shared().encode_prompt("", "the text") == [EOS]


def test_a_long_prompt_warns():
    with pytest.warns(UserWarning, match=r"prompt 1 .*21 tokens.* last 9 "):
        encode_prompts(Letters(), ["abcdefghijklmnopqrst"], 13, "half")
