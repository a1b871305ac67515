import dataclasses
import math

import pytest
import torch

from tests.support.small import EVALUATE
from tinylm.base.config import InputError
from tinylm.decoding.settings import DecodeSettings
from tinylm.evaluate.continuations import (
    continue_greedily,
    continue_prompts,
    continue_stories,
    evaluation_prompts,
    never_generated,
    samples_over_training,
    summarise,
)
from tinylm.evaluate.scoring import token_log_probs
from tinylm.model.transformer import TinyLM
from tinylm.vocab.prompts import choose_prompts
from tinylm.vocab.token_store import TokenStore

DECODE = DecodeSettings(seed=5)
SETTINGS = EVALUATE


@pytest.fixture
def rows(corpus, model):
    folder, tokenizer = corpus
    prompts = choose_prompts(TokenStore(folder / "tokens", "evaluation"), 3, 2, 9, sos_id=0)
    return prompts, continue_stories(model, tokenizer, prompts, SETTINGS, DECODE)


def test_rows_hold_texts_and_the_models_own_perplexities(corpus, model, rows):
    _, tokenizer = corpus
    prompts, found = rows
    assert [row["prompt"] for row in found] == ["the dog", "a cat", "the <unk>"]
    for prompt, row in zip(prompts, found, strict=True):
        ids = [
            *prompt.ids,
            *tokenizer.encode(row["continuation"]),
            *([tokenizer.eos_id] if row["finished"] else []),
        ]
        own = -token_log_probs(model, ids, len(prompt.ids), "half")
        assert row["tokens"] == len(own) <= 9
        assert row["perplexity"] == pytest.approx(math.exp(own.mean()), rel=1e-4)
        true = -token_log_probs(model, [*prompt.ids, *prompt.reference], len(prompt.ids), "half")
        assert row["reference_perplexity"] == pytest.approx(math.exp(true.mean()), rel=1e-6)
        assert not {"<unk>", "<sos>", "<pad>"} & set(row["continuation"].split())


def test_summary_has_intervals_round_each_value(rows):
    _, found = rows
    figures, sentences = summarise(found, SETTINGS)
    assert figures["count"] == len(sentences) == 3
    for name in ("continuation_perplexity", "reference_perplexity", "bleu1", "sentence_bleu"):
        assert figures[name]["low"] <= figures[name]["value"] <= figures[name]["high"]
    nats, tokens = (sum(row[name] for row in found) for name in ("nats", "tokens"))
    assert figures["continuation_perplexity"]["value"] == pytest.approx(math.exp(nats / tokens))


def prompts_of(corpus, **changes):
    folder, tokenizer = corpus
    settings = dataclasses.replace(SETTINGS, **changes)
    return evaluation_prompts(TokenStore(folder / "tokens", "evaluation"), tokenizer, settings)


def test_prompts_are_those_of_the_settings(corpus):
    folder, tokenizer = corpus
    stream = TokenStore(folder / "tokens", "evaluation").ids.tolist()
    sos, eos = tokenizer.sos_id, tokenizer.eos_id
    _, starts, _ = prompts_of(corpus)
    assert starts.reference == [*tokenizer.encode("ran home"), eos]
    _, across, _ = prompts_of(corpus, stop_at_eos=False)
    assert across.reference == [
        *tokenizer.encode("ran home"),
        eos,
        sos,
        *tokenizer.encode("the zebra sang to the"),
    ]
    assert across.ids == starts.ids
    _, whole, _ = prompts_of(corpus, stop_at_eos=False, reference="whole")
    assert whole.reference == starts.reference
    cuts = prompts_of(corpus, prompts="stream", stories=10)
    assert len(cuts) == 10
    for cut in cuts:
        piece = cut.ids + cut.reference
        assert any(stream[at : at + 11] == piece for at in range(len(stream)))
    assert cuts == prompts_of(corpus, prompts="stream", stories=10)
    assert cuts != prompts_of(corpus, prompts="stream", stories=10, seed=2)


@pytest.mark.parametrize("kind", ["starts", "stream"])
def test_prompts_longer_than_the_split_are_refused(corpus, kind):
    with pytest.raises(InputError, match=r"evaluate\.prompt_tokens = 500"):
        prompts_of(corpus, prompts=kind, prompt_tokens=500)


def test_past_the_end_the_next_story_may_begin(corpus, model):
    _, tokenizer = corpus
    marks = {tokenizer.sos_id, tokenizer.pad_id, tokenizer.unk_id}
    assert set(never_generated(tokenizer, True)) == marks
    assert set(never_generated(tokenizer, False)) == marks - {tokenizer.sos_id}
    with torch.no_grad():
        model.output.weight.zero_()
    settings = dataclasses.replace(SETTINGS, stop_at_eos=False, new_tokens=60)
    prompts = prompts_of(corpus, stop_at_eos=False)
    for row in continue_stories(
        model, tokenizer, prompts, settings, DECODE
    ):  # every id is as likely
        assert (row["tokens"], row["finished"]) == (60, False)
        assert row["nats"] == pytest.approx(60 * math.log(len(tokenizer)), rel=1e-5)
        assert (
            0 < len(row["continuation"].split()) < 60
        )  # <eos> and <sos> are among them and not shown
    stopped = continue_stories(
        model, tokenizer, prompts, dataclasses.replace(settings, stop_at_eos=True), DECODE
    )
    assert any(row["finished"] for row in stopped)


def test_greedy_rows_hold_each_tokens_probability_past_the_context(corpus, model):
    _, tokenizer = corpus
    settings = dataclasses.replace(SETTINGS, new_tokens=30, stop_at_eos=False)
    decode = dataclasses.replace(DECODE, slide="one", repetition_penalty=2.0, top_k=1)
    prompts = prompts_of(corpus)[:2]
    rows = continue_greedily(model, tokenizer, prompts, settings, decode)
    assert [row["number"] for row in rows] == list(range(1, 31)) * 2
    barred = never_generated(tokenizer, False)
    for prompt, start in zip(prompts, (0, 30), strict=True):
        ids = list(prompt.ids)
        for row in rows[start : start + 30]:
            with torch.no_grad():
                shares = torch.softmax(
                    model(torch.tensor([ids[-model.settings.context :]]))[0, -1], dim=-1
                )
            free = shares.clone()
            free[barred] = 0.0
            ids.append(int(free.argmax()))
            assert row["prompt"] == tokenizer.decode(prompt.ids)
            assert row["token"] == tokenizer.tokens[ids[-1]]
            assert row["probability"] == pytest.approx(float(shares[ids[-1]]), rel=1e-4)


def test_every_checkpoint_continues_the_first_prompts(corpus, model):
    _, tokenizer = corpus
    prompts = prompts_of(corpus)
    other = TinyLM(model.settings, torch.randn_like(model.embedding)).eval()
    rows = samples_over_training(
        [(0.0, other), (None, model)], tokenizer, prompts, SETTINGS, DECODE
    )
    assert [row["epochs"] for row in rows] == [0.0] * 3 + [None] * 3
    texts = continue_prompts(model, tokenizer, prompts, SETTINGS, DECODE)
    assert [(row["prompt"], row["text"], row["finished"]) for row in rows[3:]] == texts
