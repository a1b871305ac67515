import dataclasses

import numpy as np
import pytest

from tinylm.compare.comparison import compare, what_differs
from tinylm.compare.sections import FIGURES

SEEDS = {
    "n": 3,
    "perplexity": {"mean": 8.0, "sd": 0.1},
    "bits_per_byte": {"mean": 1.0, "sd": 0.005},
}
ONE_SEED = "no difference claimed: better over these texts, but another seed alone might do as much"


def findings(comparison, place=0):
    return {finding.metric: finding for finding in comparison.against[place].findings}


def test_a_learning_rate_that_helps_is_seen_to_help(make_run):
    first, second = (
        make_run("a"),
        make_run("b", {"train.lr": 0.01}, shift=-0.1, noise=0.01, told="the dog sat down"),
    )
    comparison = compare([first, second])
    assert comparison.parameters == {"train.lr": {"a": 0.003, "b": 0.01}}
    found = findings(comparison)
    assert list(found) == ["perplexity", "raw_bits_per_byte", "bits_per_byte", "bleu4"]
    assert found["perplexity"].difference.second == pytest.approx(
        np.exp(second.stories.nats.sum() / second.stories.tokens.sum())
    )
    assert found["perplexity"].verdict.says == ONE_SEED
    assert found["bits_per_byte"].verdict.kind == "one seed"
    assert comparison.comparisons == 0
    assert found["bits_per_byte"].difference.value == pytest.approx(-0.1 * 1.5 / 5, rel=0.1)


def seeded(make_run, name, params=(), seeds=(1, 2, 3), spread=0.01, **moved):
    """Runs of one setting with these seeds, a little apart."""
    shift = moved.pop("shift", 0.0)
    return [
        make_run(
            f"{name}{seed}",
            {"train.seed": seed, **dict(params)},
            shift=shift + spread * (seed % 3),
            **moved,
        )
        for seed in seeds
    ]


def test_bleu_is_better_where_it_is_higher(make_run):
    close = "the dog ran home and slept in the sun"
    plain, near = seeded(make_run, "a"), seeded(make_run, "b", {"train.lr": 1}, told=close)
    found = findings(compare([*plain, *near]), 2)
    assert (found["bleu4"].verdict.kind, found["bleu4"].difference.count) == ("better", 10)
    assert findings(compare([*near, *plain]), 2)["bleu4"].verdict.kind == "worse"


def test_settings_are_compared_seed_by_seed_and_a_claim_wants_what_seeds_do_not_give(make_run):
    base = seeded(make_run, "a")
    alike = [
        make_run(f"b{s}", {"train.lr": 1, "train.seed": s}, shift=0.01 * (s % 3) - 0.02 + s / 1e3)
        for s in (1, 2, 3)
    ]
    apart = seeded(make_run, "c", {"train.lr": 2}, seeds=(7, 8, 9), shift=-0.1)
    comparison = compare([base[0], *alike, *base[1:], *apart])
    assert [against.name for against in comparison.against] == [
        "b1",
        "a2",
        "a3",
        "c7",
    ]  # others' seeds stand for none
    paired, *_, unpaired = (findings(comparison, place)["perplexity"] for place in range(4))
    assert (paired.difference.seeds.paired, paired.difference.seeds.freedom) == (True, 2)
    assert (
        paired.difference.seeds.error < 0.2 * unpaired.difference.seeds.error
    )  # the same spread, seed by seed
    assert (unpaired.difference.seeds.paired, unpaired.difference.seeds.counts) == (False, (3, 3))
    assert paired.verdict.kind == "better"
    assert (
        paired.verdict.says == f"better; p = {paired.p:.2g} after 4 comparisons"
    )  # two losses, two BLEUs
    assert comparison.against[0].seeds == ([1, 2, 3], [1, 2, 3])
    wide = findings(
        compare(
            [
                *seeded(make_run, "a", spread=0.2),
                *seeded(make_run, "c", {"train.lr": 2}, (7, 8, 9), 0.2),
            ]
        )
    )
    assert wide["perplexity"].verdict.kind == "seeds only"


def test_more_settings_make_the_same_difference_less_sure(make_run):
    base, changed = (
        seeded(make_run, "a"),
        seeded(make_run, "b", {"train.lr": 0.5}, shift=-0.003, noise=0.01),
    )
    alone = findings(compare([*base, *changed]), 2)["perplexity"]
    others = [
        seeded(make_run, f"r{lr}", {"train.lr": lr}, noise=0.01, seed=lr) for lr in range(1, 9)
    ]
    among = findings(compare([*base, *changed, *(run for runs in others for run in runs)]), 2)[
        "perplexity"
    ]
    assert among.difference == alone.difference
    assert alone.p < among.p / 8
    assert among.verdict.says.startswith("no difference claimed: p = ")


def test_a_repeated_seed_counts_once_and_is_named(make_run):
    runs = [
        *seeded(make_run, "a"),
        *seeded(make_run, "b", {"train.lr": 1}),
        make_run("again", {"train.lr": 1}, shift=9.0),
    ]
    against = compare(runs).against[2]
    assert "again has the seed of b1 and is left out" in against.notes
    assert against.findings == compare(runs[:-1]).against[2].findings


@pytest.mark.parametrize("seed", ["train.seed", "data.seed", "decode.seed"])
def test_runs_that_differ_in_a_seed_alone_are_not_said_to_differ(make_run, seed):
    found = findings(compare([make_run("a"), make_run("b", {seed: 2}, shift=-0.2)]))
    assert found["perplexity"].difference.high < 0
    assert found["perplexity"].verdict.kind == "seeds only"
    assert "no difference claimed" in found["perplexity"].verdict.says


def test_runs_that_differ_in_nothing_that_decides_are_not_said_to_differ(make_run):
    first, second = (
        make_run("a"),
        make_run("b", {"runtime.threads": 8, "kv_bench.batch": 3}, shift=-0.2),
    )
    comparison = compare([first, second])
    assert comparison.parameters == {}
    assert comparison.no_effect == ["runtime.threads", "kv_bench.batch"]
    assert findings(comparison)["perplexity"].verdict.kind == "nothing differs"
    assert findings(compare([first, make_run("b")]))["perplexity"].verdict.says == "the same"


def test_other_code_is_a_difference_in_settings(make_run):
    first, second = make_run("a"), make_run("b", {"train.seed": 2}, shift=-0.2)
    assert what_differs(first, second) == "seeds"
    edited = dataclasses.replace(second, inputs={"tinylm/model": "m2", "tinylm/new.py": "n"})
    assert what_differs(first, edited) == "settings"
    assert compare([first, edited]).inputs == ["tinylm/model"]
    added = dataclasses.replace(second, params=second.params | {"train.new": 1})
    assert what_differs(first, added) == "settings"


def test_a_difference_by_chance_is_not_shown(make_run):
    runs = [make_run("a"), make_run("b", {"train.lr": 0.01}, noise=0.05, seed=3)]
    assert findings(compare(runs))["perplexity"].verdict.kind == "unclear"


def test_what_stage_seeds_recorded_is_the_yardstick_of_single_runs(make_run):
    small = make_run("b", {"train.lr": 0.01}, metrics={"seeds": SEEDS}, shift=-0.03)
    large = make_run("b", {"train.lr": 0.01}, metrics={"seeds": SEEDS}, shift=-0.3)
    found = findings(compare([make_run("a"), small]))
    assert found["perplexity"].verdict.kind == "unclear"
    assert (
        found["perplexity"].verdict.says
        == f"no difference claimed: p = {found['perplexity'].p:.2g}"
    )
    assert found["perplexity"].noise.difference == pytest.approx(4.3027 * 2**0.5 * 0.1, rel=1e-4)
    assert found["bleu4"].noise is None
    found = findings(compare([make_run("a"), large]))
    assert found["perplexity"].verdict.kind == found["bits_per_byte"].verdict.kind == "better"
    # perplexity and bits per byte are one hypothesis, which the less sure of them decides
    assert (
        found["perplexity"].p
        == found["bits_per_byte"].p
        == max(f.difference.p for f in found.values() if f.p)
    )


def test_other_vocabularies_are_compared_by_bits_per_byte_alone(make_run):
    found = findings(
        compare([make_run("a"), make_run("b", {"train.lr": 1}, vocabulary="w", shift=-0.1)])
    )
    assert "perplexity" not in found
    assert found["bits_per_byte"].difference.paired
    assert found["bits_per_byte"].verdict.says == ONE_SEED


def test_other_texts_are_compared_unpaired(make_run):
    second = make_run("b", {"train.lr": 1}, texts=[f"other {i}" for i in range(30)])
    comparison = compare([make_run("a"), second])
    assert list(findings(comparison)) == ["raw_bits_per_byte", "bits_per_byte"]
    assert not findings(comparison)["bits_per_byte"].difference.paired
    assert comparison.against[0].changed == []


def test_bits_that_are_not_known_are_not_compared(make_run):
    second = make_run("b", {"train.lr": 1})
    bits = np.where(np.arange(40) == 3, np.nan, second.stories.bits)
    unknown = dataclasses.replace(
        second, stories=dataclasses.replace(second.stories, bits=bits, raw_bits=bits)
    )
    assert list(findings(compare([make_run("a"), unknown]))) == ["perplexity", "bleu4"]


def test_several_runs_are_each_held_against_the_first(make_run):
    runs = [
        make_run("a"),
        make_run("b", {"train.lr": 1}, shift=-0.1),
        make_run("c", {"train.lr": 2}, shift=0.1),
    ]
    comparison = compare(runs)
    assert [against.name for against in comparison.against] == ["b", "c"]
    said = [findings(comparison, place)["perplexity"].verdict.says for place in (0, 1)]
    assert said == [ONE_SEED, ONE_SEED.replace("better", "worse")]
    assert comparison.parameters["train.lr"] == {"a": 0.003, "b": 1, "c": 2}


def test_a_parameter_that_one_run_lacks_is_shown(make_run):
    second = make_run("b")
    del second.params["train.lr"]
    assert compare([make_run("a"), second]).parameters == {"train.lr": {"a": 0.003, "b": "(none)"}}


def test_the_stories_that_changed_most_come_first_with_both_continuations(make_run):
    first, second = make_run("a"), make_run("b", {"train.lr": 1}, told="a cat sat")
    moved = second.stories.nats.copy()
    moved[[8, 20, 21]] += np.array([-50.0, 90.0, 900.0])  # nobody continued story 21
    second = dataclasses.replace(second, stories=dataclasses.replace(second.stories, nats=moved))
    changed = compare([first, second]).against[0].changed
    assert len(changed) == 5
    assert [one.story for one in changed[:2]] == [20, 8]
    assert changed[0].change == pytest.approx(90 / first.stories.tokens[20])
    assert changed[1].change < 0
    assert (changed[0].first_continuation, changed[0].second_continuation) == (
        "the dog ran home",
        "a cat sat",
    )
    assert (changed[0].prompt, changed[0].unit) == ("prompt 20", "nats per token")


def test_stories_of_other_vocabularies_change_in_bits_a_byte(make_run):
    first, second = make_run("a"), make_run("b", {"train.lr": 1}, vocabulary="w", shift=-0.1)
    changed = compare([first, second]).against[0].changed
    assert {one.unit for one in changed} == {"bits per byte"}
    assert changed[0].change == pytest.approx(-0.1 * 1.5 / 5)


@pytest.mark.parametrize(("count", "kind"), [(1, "unclear"), (4, "unclear"), (5, "one seed")])
def test_few_stories_show_no_difference(make_run, count, kind):
    texts = [f"text {i}" for i in range(count)]
    first, second = (
        make_run("a", texts=texts),
        make_run("b", {"train.lr": 0.01}, texts=texts, shift=-0.5),
    )
    found = {
        finding.metric: finding.verdict for finding in compare([first, second]).against[0].findings
    }
    assert found["perplexity"].kind == kind


def test_losses_that_are_not_finite_show_no_difference(make_run):
    with np.errstate(over="ignore", invalid="ignore"):
        first, second = make_run("a"), make_run("b", {"train.lr": 9.0}, shift=1e6)
        found = {
            finding.metric: finding.verdict
            for finding in compare([second, first]).against[0].findings
        }
    assert found["perplexity"].says == "no difference claimed: a figure is not finite"


def test_equal_runs_have_no_story_that_changed(make_run):
    assert compare([make_run("a"), make_run("b")]).against[0].changed == []
    told = compare([make_run("a"), make_run("b", told="the dog sat")]).against[0].changed
    assert {(story.change, story.second_continuation) for story in told} == {(0.0, "the dog sat")}


def test_figures_of_another_schema_are_absent(make_run):
    run = make_run(
        "a", metrics={"train": {"train_loss": "low", "tokens": [1]}, "evaluate": {"perplexity": {}}}
    )
    assert {figure.of(run)[0] for figure in FIGURES} == {None}
