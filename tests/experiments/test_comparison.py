"""Settings compared with the first: the difference, what differs, the verdict; on the page and in the terminal."""

import contextlib
import dataclasses
import html
import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tinylm.cli.command import main
from tinylm.experiments import power
from tinylm.experiments.comparison import (
    BITS,
    NATS,
    OTHER_SEEDS,
    PERPLEXITY,
    SAME,
    compare_settings,
)
from tinylm.experiments.comparison_page import to_markdown
from tinylm.experiments.power import Noise
from tinylm.report.html_page import to_html
from tinylm.report.render import to_terminal


def seeded(make_run, name, params=(), seeds=(1, 2, 3), spread=0.01, shift=0.0, **moved):
    """Runs of one setting with these seeds, a little apart."""
    runs = []
    for seed in seeds:
        values = {"train.seed": seed, **dict(params)}
        runs.append(make_run(f"{name}{seed}", values, shift=shift + spread * (seed % 3), **moved))
    return runs


def test_one_seed_claims_nothing_but_shows_the_difference(make_run):
    second = make_run("b", {"train.lr": 0.01}, shift=-0.1, noise=0.01)
    comparison = compare_settings([make_run("a"), second])
    row = comparison.rows[0]
    assert (row.name, row.metric, row.differs) == ("b", PERPLEXITY, ["train.lr 0.003 → 0.01"])
    assert row.difference.second == pytest.approx(second.perplexity)
    assert row.difference.first > row.difference.second
    assert row.difference.low < row.difference.value < row.difference.high < 0
    assert np.isnan(row.p)
    assert "one seed" in row.verdict


def test_a_run_that_diverged_is_compared_by_nats(make_run):
    others = seeded(make_run, "b", {"train.lr": 9}, shift=500.0, noise=0.01)
    row = compare_settings([*seeded(make_run, "a"), *others]).rows[-1]
    assert row.metric == NATS
    assert row.difference.value == pytest.approx(500.0, rel=1e-3)
    assert row.verdict.startswith("worse")


@pytest.mark.parametrize(("shift", "verdict"), [(-0.3, "better"), (0.3, "worse")])
def test_a_lower_perplexity_is_better(make_run, shift, verdict):
    others = seeded(make_run, "b", {"train.lr": 1}, shift=shift, noise=0.01)
    row = compare_settings([*seeded(make_run, "a"), *others]).rows[-1]
    assert row.verdict.startswith(verdict)
    assert row.p < 0.05


def test_settings_are_compared_seed_by_seed_where_seeds_are_the_same(make_run):
    base = seeded(make_run, "a")
    alike = []
    for seed in (1, 2, 3):
        shift = 0.01 * (seed % 3) - 0.02 + seed / 1e3
        alike.append(make_run(f"b{seed}", {"train.lr": 1, "train.seed": seed}, shift=shift))
    apart = seeded(make_run, "c", {"train.lr": 2}, seeds=(7, 8, 9), shift=-0.1)
    comparison = compare_settings([base[0], *alike, *base[1:], *apart])
    assert [row.name for row in comparison.rows] == ["b1", "a2", "a3", "c7"]
    assert (comparison.first_seeds, comparison.settings) == ([1], 2)
    paired, _, _, unpaired = comparison.rows
    assert paired.difference.seeds.paired
    assert not unpaired.difference.seeds.paired
    assert paired.difference.seeds.size < 0.2 * unpaired.difference.seeds.size
    assert paired.verdict.startswith("better")
    assert paired.p == pytest.approx(2 * paired.difference.p)  # corrected for two settings


def test_runs_of_one_setting_are_compared_by_the_seeds_that_both_have(make_run):
    runs = seeded(make_run, "a", seeds=(1, 2, 3, 4), spread=0.1)
    tables = {seed: run.stories[seed] for seed, run in enumerate(runs, start=1)}

    @given(*2 * [st.sets(st.integers(1, 4), min_size=1)])
    def check(seeds, others):
        first, second = (
            dataclasses.replace(runs[0], name=name, stories={seed: tables[seed] for seed in of_run})
            for name, of_run in (("a", seeds), ("b", others))
        )
        comparison = compare_settings([first, second])
        (row,) = comparison.rows
        assert (comparison.first_seeds, row.seeds) == (sorted(seeds), sorted(others))
        assert row.verdict == (SAME if seeds == others else OTHER_SEEDS)
        for side, compared in ((seeds, row.difference.first), (others, row.difference.second)):
            of_seeds = [tables[seed] for seed in seeds & others or side]
            nats = sum(table["nats"].sum() for table in of_seeds)
            tokens = sum(table["tokens"].sum() for table in of_seeds)
            assert compared == pytest.approx(np.exp(nats / tokens))

    check()


def test_two_settings_are_compared_by_the_seeds_that_the_page_names(make_run):
    """Where one has all seeds of the other, further ones do not count."""
    runs = seeded(make_run, "a", seeds=(1, 2, 3, 4), spread=0.1)
    tables = {seed: run.stories[seed] for seed, run in enumerate(runs, start=1)}
    edited = make_run("b", {"train.lr": 1})

    @given(*2 * [st.sets(st.integers(1, 4), min_size=1)])
    def check(seeds, others):
        first, second = (
            dataclasses.replace(run, stories={seed: tables[seed] for seed in of_run})
            for run, of_run in ((runs[0], seeds), (edited, others))
        )
        comparison = compare_settings([first, second])
        (row,) = comparison.rows
        shared = seeds & others
        is_named = len(shared) > 1 and seeds != others and shared in (seeds, others)
        assert row.compared_seeds == (sorted(shared) if is_named else [])
        named = f", seeds {', '.join(map(str, sorted(shared)))} |"
        assert (named in to_markdown(comparison)) == is_named
        if is_named or seeds == others:
            assert row.difference.value == pytest.approx(0, abs=1e-12)

    check()


def test_the_same_parameters_on_another_processor_show_both_perplexities(make_run):
    comparison = compare_settings([make_run("HEAD"), make_run("workspace", noise=1e-6)])
    assert comparison.rows[0].verdict == SAME
    assert comparison.rows[0].perplexity != comparison.results[0].perplexity
    assert comparison.rows[0].difference.value != 0


def test_other_code_or_another_parameter_is_another_setting(make_run):
    first = make_run("a")
    edited = make_run("b", inputs={"tinylm/model": "m2", "tinylm/new.py": "n"})
    assert compare_settings([first, edited]).rows[0].differs == ["tinylm/model", "tinylm/new.py"]
    added = compare_settings([first, make_run("c", {"train.new": None})])
    assert added.rows[0].differs == ["train.new (none) → null"]
    assert added.settings == 1
    assert compare_settings([first, make_run("d", {"train.seed": 2})]).settings == 0


def with_stories(run, **columns):
    stories = {seed: table.assign(**columns) for seed, table in run.stories.items()}
    return dataclasses.replace(run, stories=stories)


def test_the_loss_that_can_be_compared_is_chosen(make_run):
    first = make_run("a")
    table = first.stories[1]
    vocabulary = make_run("b", {"vocab.tokenizer": "bpe"}, vocabulary="other")
    layout = with_stories(vocabulary, tokens=table["tokens"] + np.eye(40)[3])
    raw_text = with_stories(vocabulary, raw_bytes=table["raw_bytes"] - 1)
    lost = dataclasses.replace(first, name="b", stories={})
    cases = ((vocabulary, BITS), (layout, BITS), (raw_text, ""), (lost, ""))
    for second, metric in cases:
        row = compare_settings([first, second]).rows[0]
        assert row.metric == metric
        assert (row.difference is None) == (metric == "")
    bits = (
        compare_settings([first, make_run("b", vocabulary="other", shift=-0.1)]).rows[0].difference
    )
    assert bits.value == pytest.approx(-0.1 * 2 / 6)


def test_the_page_and_the_terminal_have_the_same_table(make_run):
    second = make_run("warm-newt", {"train.lr": 0.01}, shift=-0.1)
    third = make_run("other-text", texts=["a", "b"])
    comparison = compare_settings([make_run("main"), second, third])
    source = to_html(to_markdown(comparison))
    assert not re.search(r"<script|(?:src|href)=\"(?!#|data:)", source)  # it loads nothing
    page = " ".join(html.unescape(re.sub(r"<[^>]+>", " ", source)).split())
    terminal = " ".join(to_terminal(to_markdown(comparison), 200).split())
    for text in (page, terminal):
        for expected in ("train.lr 0.003 → 0.01", f"{second.perplexity:.4f}", "40 texts"):
            assert expected in text
        assert comparison.rows[0].verdict in text


# the command


@pytest.fixture
def asked(monkeypatch, revision, lock, tmp_path):
    """The arguments of DVC's stand-in: a, b with another learning rate, and one experiment."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "params.yaml").write_text("train: {}\n")
    lock["train"]["params"]["params.yaml"]["train"]["lr"] = 0.01
    by_name = {"a": revision("a"), "b": revision("b", lock)}
    calls = []

    @contextlib.contextmanager
    def opened(names, experiments=False):
        calls.append((list(names), experiments))
        more = [by_name["b"]] if experiments else []
        yield [by_name.get(name, by_name["a"]) for name in names] + more

    monkeypatch.setattr("tinylm.experiments.revisions.opened", opened)
    return calls


def test_two_revisions_as_text_and_a_page(asked, capsys, tmp_path):
    assert main(["compare", "a", "b", "--html", "out/page.html"]) == 0
    assert asked == [(["a", "b"], False)]
    assert "train.lr 0.003 → 0.01" in " ".join(capsys.readouterr().out.split())
    assert "Comparison with a" in (tmp_path / "out/page.html").read_text()


@pytest.mark.parametrize("names", [[], ["a"]])
def test_the_noise_is_that_of_all_experiments_unless_revisions_are_named(asked, names):
    main(["compare", *names, "--effect", "1"])
    ((_, has_experiments),) = asked
    assert has_experiments == (not names)


def test_a_plan_is_for_the_strictest_of_all_its_comparisons(asked, monkeypatch, capsys):
    @settings(max_examples=40)
    @given(
        seeds=st.sampled_from([1e-6, 1e-4]),
        stories=st.sampled_from([1e-3, 1e-2]),
        effect=st.sampled_from([0.005, 0.01, 0.05]),
        comparisons=st.integers(1, 20),
    )
    def check(seeds, stories, effect, comparisons):
        noise = Noise(seeds, 4, stories, 500)
        monkeypatch.setattr(power, "recorded_noise", lambda runs: noise)
        words = ["compare", "a", "b", "--effect", str(effect), "--comparisons", str(comparisons)]
        assert main(words) == 0
        printed = capsys.readouterr().out
        level = 0.05 / comparisons  # Holm's first step
        assert f"level {100 * level:.2g} %" in printed
        for count in (500, 1000, 2500):
            needed = power.seeds_for(noise, effect, 0.8, level, count)
            if needed:
                assert f"  {needed:,} seeds with {count:,} evaluation stories" in printed

    check()


@pytest.mark.parametrize(
    ("words", "key"),
    [
        ([], "at least two revisions, or --all, got 0"),
        (["a", "b", "a"], "'a'"),
        (["--effect", "0"], "--effect"),
        (["--effect", "1", "--comparisons", "0"], "--comparisons"),
        (["a", "--effect", "1"], "seeds"),
    ],
)
def test_a_wrong_request_is_one_line(asked, capsys, tmp_path, words, key):
    assert main(["compare", *words]) == 2
    error = capsys.readouterr().err
    assert key in error
    assert error.count("\n") == 1
    assert (tmp_path / "params.yaml").read_text() == "train: {}\n"
