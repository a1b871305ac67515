import pytest
import torch

from tinylm.base.config import InputError
from tinylm.decoding.session import Session

CONTEXT = 13


def plain_logits(model, ids: list[int], slide: str) -> torch.Tensor:
    """The next token's logits from the text alone: no batch, no cache."""
    start = 0
    while len(ids) - start > CONTEXT:  # the window is too full
        start += CONTEXT // 2 if slide == "half" else 1
    with torch.no_grad():
        return model(torch.tensor([ids[start:]]))[0, -1]


@pytest.mark.parametrize("slide", ["half", "one"])
@pytest.mark.parametrize("use_cache", [True, False])
def test_logits_equal_those_of_each_text_alone(model, prompts, slide, use_cache):
    session = Session(model, prompts, slide=slide, use_cache=use_cache, new_tokens=30)
    texts = [list(prompt) for prompt in prompts]
    for step in range(30):  # past the context of every row, some windows moving twice
        logits = session.next_logits()
        expected = torch.stack([plain_logits(model, text, slide) for text in texts])
        torch.testing.assert_close(logits, expected, rtol=1e-9, atol=1e-9, msg=f"step {step}")
        torch.testing.assert_close(session.next_logits(), logits, rtol=1e-9, atol=1e-9)
        tokens = logits.argmax(-1)
        for text, token in zip(texts, tokens.tolist(), strict=True):
            text.append(token)
        session.append(tokens)
    assert [session.ids(row) for row in range(session.rows)] == texts


@pytest.mark.parametrize("slide", ["half", "one"])
def test_reordered_rows_match_fresh_session(model, prompts, slide):
    """Rows duplicated, swapped within a prompt (beams), and dropped, at every distance from a window's move."""
    numbers = torch.Generator().manual_seed(3)
    session = Session(model, prompts[:3], slide=slide, new_tokens=34)
    texts = [list(prompt) for prompt in prompts[:3]]
    for step in range(34):
        expected = torch.stack([plain_logits(model, text, slide) for text in texts])
        torch.testing.assert_close(
            session.next_logits(), expected, rtol=1e-9, atol=1e-9, msg=f"step {step}"
        )
        if step == 0:
            rows = [0, 0, 0, 1, 1, 1, 2, 2, 2]
        elif step % 11 == 10:
            rows = [row for row in range(len(texts)) if row != step // 11]  # one leaves
        else:
            drawn = torch.randint(3, (len(texts),), generator=numbers).tolist()
            rows = [3 * (row // 3) + beam for row, beam in enumerate(drawn)]
            rows = [min(row, len(texts) - 1) for row in rows]
        session.select(torch.tensor(rows))
        texts = [list(texts[row]) for row in rows]
        tokens = torch.randint(4, 31, (len(texts),), generator=numbers)
        session.append(tokens)
        for text, token in zip(texts, tokens.tolist(), strict=True):
            text.append(token)
    assert len(texts) == 6


def test_rows_that_differ_only_in_length_swap_their_caches(model):
    """An id 0 behind the shorter row looks like the longer one's last token, but their windows start apart."""
    short = [5, 9, 7, 20, 4, 8, 30, 11, 6, 17, 22, 10, 19]
    texts = [short, [*short, 0]]
    session = Session(model, texts)
    session.next_logits()
    session.select(torch.tensor([1, 0]))
    expected = torch.stack([plain_logits(model, text, "half") for text in reversed(texts)])
    torch.testing.assert_close(session.next_logits(), expected, rtol=1e-9, atol=1e-9)


def test_cache_is_no_larger_than_needed(model):
    small, large = Session(model, [[0, 4]], new_tokens=3), Session(model, [[0, 4]], new_tokens=300)
    for session in (small, large):
        assert session.cache_bytes == 0
        session.next_logits()
    assert small.cache_bytes * 13 == large.cache_bytes * 5


@pytest.mark.parametrize("prompts", [[], [[0], []], [[0, 31]], [[-1]]])
def test_prompts_without_meaning_are_refused(model, prompts):
    with pytest.raises(ValueError, match="prompt"):
        Session(model, prompts)


def test_diverged_weights_are_an_error_in_one_line(make_model):
    model = make_model()
    with torch.no_grad():
        model.embedding[7, 3] = float("nan")
    with pytest.raises(InputError, match="not finite"):
        Session(model, [[0, 7]]).next_logits()


def test_a_model_in_low_precision_gives_logits_in_float32(make_model):
    model = make_model(dtype=torch.bfloat16)
    assert Session(model, [[0, 4]]).next_logits().dtype == torch.float32
