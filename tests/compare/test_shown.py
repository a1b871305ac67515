"""The same findings in the terminal, on the page and as JSON."""

import dataclasses
import html
import json
import re

import numpy as np
import pytest

from tinylm.base.files import write_json
from tinylm.compare.comparison import compare
from tinylm.compare.page import to_html
from tinylm.compare.scaling import scaling_of
from tinylm.compare.sections import as_json, sections
from tinylm.compare.sweep_section import draw_sweep, sweep_of
from tinylm.compare.terminal import to_text

HOSTILE = '<script>alert(1)</script>\x1b[2J\u202eab & "c"'


@pytest.fixture
def pair(make_run):
    return compare(
        [make_run("main", told=""), make_run("warm-newt", {"train.lr": 0.01}, shift=-0.1)]
    )


@pytest.fixture
def many(make_run):
    kept = {
        "train": {
            "held_out_loss_best": 1.5,
            "train_loss": 1.25,
            "parameters": 94208,
            "tokens": 59940,
        }
    }
    runs = [
        make_run(f"r{i}", {"train.lr": i, "train.seed": i % 2}, dict(kept), shift=-i / 50)
        for i in range(7)
    ]
    for run in runs:
        run.metrics["evaluate"] |= {
            "perplexity_interval": [6.0, 9.0],
            "bits_per_byte": 0.5,
            "samples": {"bleu4": 0.1},
        }
    return compare(runs)


def row(text, start):
    """Cells of the line that begins so."""
    (line,) = [line for line in text.splitlines() if line.startswith(start)]
    return re.split(r"\s{2,}", line.strip())


def test_the_table_shows_parameters_figures_and_what_may_be_said(pair):
    text = to_text(sections(pair), 160)
    assert row(text, "train.lr") == ["train.lr", "0.003", "0.01"]
    found = pair.against[0].findings[0].difference
    assert f"{found.first:.3f} → {found.second:.3f}" in text
    assert "no difference claimed: better over these texts" in text
    assert "40 stories" in text
    assert "10 prompts" in text
    assert "main: (it ends there)" in text
    assert "warm-newt: the dog ran home" in text
    assert max(map(len, text.splitlines())) <= 160


@pytest.mark.parametrize("width", [80, 110, 200])
def test_lines_keep_to_the_terminals_width(pair, width):
    text = to_text(sections(pair), width)
    assert (
        "no difference claimed: better over these texts, but another seed alone might do as much"
        in " ".join(text.split())
    )
    assert max(map(len, text.splitlines())) <= width


def test_each_of_many_runs_is_a_row(many):
    text = to_text(sections(many, stories=False), 200)
    assert row(text, "run  train.lr") == ["run", "train.lr", "train.seed"]
    assert "r6" in re.findall(r"\nr6 .*", text)[0]
    assert "Stories that changed most" not in text
    assert "comparisons" not in text  # one seed each: nothing could be claimed


def test_a_table_too_wide_goes_on_below_with_its_first_column(many):
    text = to_text(sections(many, stories=False), 80)
    assert max(map(len, text.splitlines())) <= 80
    assert len(re.findall(r"\nr6 ", text)) == 3  # parameters, and the figures in two pieces
    assert len(re.findall(r"\nrun  ", text)) == 3


def test_a_revision_without_its_files_is_told(make_run):
    old = dataclasses.replace(
        make_run("old"), stories=None, samples=[], notes=["data/evaluate/stories.csv: lost"]
    )
    text = to_text(sections(compare([make_run("main"), old])), 120)
    assert "old: data/evaluate/stories.csv: lost." in text
    assert "old: no losses of single stories, so no intervals of differences." in text
    assert "Nothing that decides a figure here differs." in text


def test_the_page_says_the_same_and_needs_nothing_from_outside(pair):
    page = to_html(pair)
    plain = html.unescape(re.sub(r"<[^>]+>", " ", page))
    told = "no difference claimed: better over these texts, but another seed alone might do as much"
    for said in ("train.lr", told, "warm-newt against main", "(it ends there)"):
        assert said in plain
    assert page.count("<svg") == 4
    assert "difference from main, left is better" in plain
    assert "difference from main, right is better" in plain
    assert not re.search(r"<script|(?:src|href)=\"(?!#|data:)", page)


def test_nothing_is_drawn_of_runs_that_are_the_same(make_run):
    comparison = compare([make_run("a"), make_run("b")])
    assert "<svg" not in to_html(comparison)


def test_text_of_a_model_is_text_on_the_page_and_in_the_terminal(make_run):
    comparison = compare(
        [make_run("a", {"train.lr": HOSTILE}, told=HOSTILE), make_run(HOSTILE, {"train.lr": 1})]
    )
    page = to_html(comparison)
    assert "<script" not in page
    assert "&lt;script&gt;" in page
    text = to_text(sections(comparison), 120)
    assert "\x1b" not in text + page
    assert "\u202e" not in text + page


def test_json_has_the_figures_unrounded(pair, tmp_path):
    write_json(tmp_path / "found.json", as_json(pair))
    found = json.loads((tmp_path / "found.json").read_text("utf-8"))
    assert found["parameters"] == {"train.lr": {"main": 0.003, "warm-newt": 0.01}}
    assert [run["name"] for run in found["runs"]] == ["main", "warm-newt"]
    finding = found["against_first"]["warm-newt"]["findings"]["perplexity"]
    difference = pair.against[0].findings[0].difference
    assert finding["difference"] == difference.value == finding["second"] - finding["first"]
    assert (finding["low"], finding["high"], finding["verdict"]) == (
        difference.low,
        difference.high,
        "one seed",
    )
    assert (finding["seeds_give"], finding["p"], found["comparisons"]) == (None, None, 0)
    assert found["runs"][0]["figures"]["evaluate.perplexity"]["value"] == pair.runs[0].value(
        "evaluate", "perplexity"
    )
    changed = found["against_first"]["warm-newt"]["changed_most"]
    assert len(changed) == 5
    assert changed[0]["first_continuation"] == ""


def asked(run, right):
    """The run with 40 minimal pairs of which so many are right."""
    share = {"value": right / 40, "low": right / 40 - 0.1, "high": right / 40 + 0.1}
    phenomena = {"word order": {"model": share}, "reflexive pronoun": {"model": None}}
    found = run.metrics | {
        "evaluate": run.metrics["evaluate"]
        | {"pairs": {"all": {"model": right / 40}} | {"phenomena": phenomena}}
    }
    pairs = {("word order", f"right {i}", f"wrong {i}"): float(i < right) for i in range(40)}
    return dataclasses.replace(run, metrics=found, pairs=pairs)


def test_minimal_pairs_stand_side_by_side_and_are_compared_pair_by_pair(make_run):
    comparison = compare(
        [
            asked(make_run("old"), 22),
            asked(make_run("new", {"train.lr": 0.1}), 36),
            make_run("before"),
        ]
    )
    finding = comparison.against[0].findings[-1]
    assert (finding.metric, finding.difference.count, finding.verdict.kind) == (
        "minimal_pairs",
        40,
        "one seed",
    )
    assert (finding.difference.first, finding.difference.second) == (0.55, 0.9)
    assert "minimal_pairs" not in [found.metric for found in comparison.against[1].findings]
    text = to_text(sections(comparison), 120)
    assert "55.0 % (45.0 to 65.0)" in text
    assert "reflexive pronoun" not in text
    assert "40 pairs" in text
    assert (
        as_json(comparison)["against_first"]["new"]["findings"]["minimal_pairs"]["verdict"]
        == "one seed"
    )


SIZES = (1e5, 2e5, 4e5, 8e5)


def sized(make_run, size, texts=None):
    """A run of a sweep over the model's size: 0.1 nats per token for each doubling."""
    shift = -0.1 * np.log2(size / SIZES[0])
    run = make_run(f"s{size:.0f}", {"model.layers": size}, texts=texts, shift=shift)
    run.metrics["train"] = {"parameters": size, "tokens": 1000, "training_flop_per_token": 6 * size}
    run.metrics["evaluate"] |= {"nats_per_token": run.stories.nats.sum() / run.stories.tokens.sum()}
    run.metrics["evaluate"] |= {"bits_per_byte": run.stories.bits.sum() / run.stories.n_bytes.sum()}
    return run


def test_a_sweep_over_sizes_shows_its_scaling(make_run):
    others = [
        sized(make_run, 16e5, texts=["another"]),
        sized(make_run, 32e5, texts=[f"text {i}" for i in range(60)]),
    ]
    runs = [*(sized(make_run, size) for size in SIZES), *others]
    scaling = scaling_of(runs)
    assert [row["name"] for row in scaling.law.rows] == ["s100000", "s200000", "s400000", "s800000"]
    assert scaling.left_out == ["s1600000", "s3200000"]  # of another text, of these texts and more
    assert (scaling.law.unit, scaling.law.rows[1]["compute"]) == ("nats per token", 6 * 2e5 * 1000)
    comparison = compare(runs)
    text = to_text(sections(comparison, scaling), 160)
    assert "Left out, for their losses are not of the same text: s1600000, s3200000." in text
    assert "4 of 4" in text
    page = to_html(comparison, scaling)
    assert page.count("Loss against parameters") >= 1
    assert "scaling-compute" in page
    found = as_json(comparison, scaling)["scaling"]
    assert found["laws"]["parameters"]["exponent"]["value"] > 0
    assert found["left_out"] == ["s1600000", "s3200000"]


def test_a_sweep_over_anything_else_shows_none(many):
    scaling = scaling_of(many.runs)
    assert "Scaling" not in to_text(sections(many, scaling), 160)
    assert "scaling" not in as_json(many)


def test_tokenizers_are_set_side_by_side_by_bits_a_byte(make_run):
    runs = [sized(make_run, size) for size in SIZES]
    other = make_run("other", vocabulary="w")
    other.metrics.update(runs[0].metrics)
    scaling = scaling_of([*runs, other])
    assert scaling.law.unit == "bits per byte"
    assert scaling.law.rows[2]["loss"] == runs[2].value("evaluate", "bits_per_byte")


def test_a_sweep_is_drawn_as_means_with_bands_over_its_seeds(make_run):
    def runs(seeds):
        return [
            make_run(f"{lr}-{seed}", {"train.lr": lr, "train.seed": seed}, shift=-lr + seed / 100)
            for lr in (0.01, 0.1, 0.3)
            for seed in seeds
        ]

    for run in (three := runs((1, 2, 3))):
        run.metrics["evaluate"] |= {
            "nats_per_token": run.stories.nats.sum() / run.stories.tokens.sum()
        }
    found = sweep_of(three, same_tokens=True)
    line = found.lines[""]
    assert (found.key, found.unit, line.places, line.seeds) == (
        "train.lr",
        "nats per token",
        [0.01, 0.1, 0.3],
        [3, 3, 3],
    )
    assert [high - low for low, high in zip(line.lows, line.highs, strict=True)] == pytest.approx(
        [0.02] * 3
    )
    assert line.means[0] - line.means[2] == pytest.approx(0.29)
    drawing = draw_sweep(found, found.lines)
    assert len(drawing.axes[0].collections) == 1  # the band
    assert drawing.axes[0].get_xscale() == "log"
    comparison, scaling = compare(three), scaling_of(three)
    assert comparison.comparisons == 4  # loss and BLEU of two settings
    text = " ".join(to_text(sections(comparison, scaling), 160).split())
    assert (
        "0.1-1 (3 seeds: 1, 2, 3) against 0.01-1 (3 seeds: 1, 2, 3); intervals over stories and seeds"
        in text
    )
    assert (
        "4 comparisons (perplexity and bits per byte of two settings are one): p is Holm's" in text
    )
    page = to_html(comparison, scaling)
    assert "3 seeds for each setting. Lines: means. Bands: lowest to highest." in page
    assert as_json(comparison)["against_first"]["0.1-1"]["findings"]["perplexity"]["paired_by_seed"]
    single = [run for run in three if run.params["train.seed"] == 1]
    assert "1 seed for each setting. Without several seeds, there are no bands." in to_html(
        compare(single), scaling_of(single)
    )


def test_a_second_number_makes_lines_and_words_alone_no_picture(make_run):
    runs = [
        make_run(f"{lr}-{layers}", {"train.lr": lr, "model.layers": layers}, metrics={})
        for lr in (0.01, 0.02, 0.03)
        for layers in (2, 4)
    ]
    for run in runs:
        run.metrics["evaluate"] |= {"bits_per_byte": 1.0}
    found = sweep_of(runs, same_tokens=False)
    assert (list(found.lines), found.unit) == (
        ["model.layers 2", "model.layers 4"],
        "bits per byte",
    )
    words = [
        make_run("a", {"train.optimizer": "muon"}),
        make_run("b", {"train.optimizer": "adamw"}),
    ]
    assert sweep_of(words, same_tokens=True) is sweep_of([], same_tokens=True) is None
