"""Quotes and printed numbers against the sources, where ../shared has them, and what their material computes to."""

import re
from itertools import chain
from pathlib import Path

import pytest
import torch
from sacrebleu.metrics import BLEU

from studies.records import SYSTEMS, published, read
from tinylm.model.transformer import sinusoids
from tinylm.vocab.gpt2 import load_gpt2
from tinylm.vocab.settings import VocabSettings

SHARED = Path(__file__).resolve().parents[3] / "shared"
SOURCES = {system: SHARED / f"sources/{system}.txt" for system in SYSTEMS}
SOURCES["assignment"] = SHARED / "sources/S.txt"
needs_sources = pytest.mark.skipif(not SOURCES["A"].exists(), reason="no ../shared/sources")
NUMBER = re.compile(r"(?:\d+(?:,\d{3})+|\d*\.?\d+)(?:e-?\d+)?")


def plain(text):
    """Without Markdown's bold and code, TeX's dollars and line breaks."""
    return " ".join(re.sub(r"\*\*|[`$*]", "", text).split())


def source(system):
    return plain(SOURCES[system].read_text("utf-8"))


def numbers(line):
    """All numbers of a line, without signs; those before % as shares too."""
    line = re.sub(r"\s*(?:×|\\times)\s*10\^\{(-\d+)\}|\\text\{e(-)\}", r"e\1\2", line)
    found = [float(match.replace(",", "")) for match in NUMBER.findall(line)]
    shares = [float(share) / 100 for share in re.findall(r"([\d.]+)%", line)]
    return found + shares


def stands(value, line):
    """Whether a line has the number, or one that rounds to it."""
    decimals = len(repr(value).partition(".")[2]) if "e" not in repr(value) else 12
    slack = 0.501 * 10**-decimals if isinstance(value, float) else 0
    return any(abs(printed - abs(value)) <= slack for printed in numbers(line))


def missing(node, lines, place):
    """Places of numbers that stand in no line; those of a row of a table must stand in one."""
    if isinstance(node, dict):
        return [m for key, part in node.items() for m in missing(part, lines, f"{place}/{key}")]
    if isinstance(node, list):
        wrong = []
        for row, part in enumerate(node):
            per_line = [missing(part, [line], f"{place}/{row}") for line in lines or [""]]
            wrong += min(per_line, key=len)
        return wrong
    is_number = isinstance(node, int | float) and not isinstance(node, bool)
    return [place] if is_number and not any(stands(node, line) for line in lines) else []


@pytest.mark.parametrize("system", SYSTEMS)
def test_every_number_stands_in_a_printed_line(system):
    parts = dict(published()[system])
    lines = parts.pop("printed")
    parts.pop("checked", None)
    assert set(lines) <= set(parts)
    for name, part in parts.items():
        assert missing(part, lines.get(name, []), name) == []


def test_a_changed_digit_is_noticed():
    assert missing({"a": [{"b": 2.69, "c": 4}]}, ["loss 2.694 at 4", "5"], "") == []
    assert missing({"a": [{"b": 2.69, "c": 5}]}, ["loss 2.694 at 4", "5"], "") == ["/a/0/c"]
    assert missing({"a": 0.102}, ["10.06%"], "") == ["/a"]


@needs_sources
@pytest.mark.parametrize("system", SYSTEMS)
def test_every_quote_and_printed_line_stands_in_its_source(system):
    text = source(system)
    quotes = [row["quote"] for row in read("ledger.yaml").values() if row["system"] == system]
    lines = chain.from_iterable(published()[system]["printed"].values())
    assert [quote for quote in [*quotes, *lines] if plain(quote) not in text] == []


def test_the_embedding_rows_of_d_are_those_of_seed_0():
    example = published()["D"]["example"]
    torch.manual_seed(0)
    rows = torch.nn.Embedding(example["embedding_rows"], example["embedding_width"]).weight
    assert rows[0, :3].tolist() == pytest.approx(example["first_row"], abs=5e-5)


def test_the_positions_of_d_have_its_exponent_doubled():
    printed = torch.tensor(published()["D"]["example"]["third_position"])
    angles = 3 / 10_000 ** (torch.tensor([0.0, 4.0]) / 16)  # 4i/d in place of 2i/d
    doubled = torch.stack([angles.sin(), angles.cos()], dim=1).flatten()
    torch.testing.assert_close(doubled, printed, atol=1e-5, rtol=0)
    by_formula = torch.tensor(published()["D"]["checked"]["third_position"])
    torch.testing.assert_close(sinusoids(10, 16)[3, :4], by_formula, atol=1e-5, rtol=0)


@needs_sources
def test_the_ids_of_d_are_gpt2s():
    printed = source("D").partition("first 100 indices): tensor([")[2].partition("]")[0]
    ids = [int(number) for number in printed.split(",")]
    settings = VocabSettings(tokenizer="gpt2", lower_case=False, path=str(SHARED / "gpt2"))
    tokenizer = load_gpt2(settings)
    text = tokenizer.decode(ids)
    story = re.sub("[“”]", '"', source("A"))
    assert " ".join(text.split()) in story
    assert tokenizer.encode(text) == ids
    assert len(ids) == 100


@needs_sources
def test_the_printed_attention_of_b_never_reads_its_values():
    forward = source("B").partition("def forward(self, q, k, v, mask=None):")[2]
    body = forward.partition("Layer Normalization")[0]
    assert body.strip().endswith("return torch.softmax(scores, dim=-1)")
    assert not re.search(r"\bv\b|self\.w_", body)


@needs_sources
def test_the_samples_of_b_scored_again():
    checked = published()["B"]["checked"]
    table = source("B").partition("per_sample_ppl ")[2].partition("Quantitative Evaluation")[0]
    rows = re.findall(r"(.*?),\s*(\d+\.\d{6,})", table)
    texts, references = [], []
    for row, _ in rows:  # its quotation marks are broken: a row is cut where some 50 words are left
        text = row.replace('""', '"')
        prompt = re.match(r'\s*"?(?:\S+\s+){4}[^\s"]+"?,?\s*"?', text)
        cuts = [cut.end() for cut in re.finditer(r'(?:"|(?<=[.!]))\s*,\s*"', text)]
        last = max(at for at in cuts if len(text[at:].split()) > 45)
        texts.append(text[last:].strip('" '))
        references.append(text[prompt.end() : last].strip('", '))
    perplexities = [float(perplexity) for _, perplexity in rows]
    assert len(rows) == published()["B"]["samples"]["count"]
    assert round(sum(perplexities) / len(rows), 2) == checked["sample_perplexity"]
    assert round(max(perplexities), 1) == checked["highest_perplexity"]
    cut = [" ".join(r.split()[: len(t.split())]) for r, t in zip(references, texts, strict=True)]
    for name, whole in {"bleu": references, "bleu_cut": cut, "bleu_13a": references}.items():
        tokenize = "13a" if name == "bleu_13a" else "none"
        for order, expected in enumerate(checked[name], start=1):
            bleu = BLEU(tokenize=tokenize, max_ngram_order=order, smooth_method="none")
            score = bleu.corpus_score(texts, [whole]).score / 100
            assert score == pytest.approx(expected, abs=0.005), (name, order)
