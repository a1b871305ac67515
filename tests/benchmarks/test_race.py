"""The race: what is measured, what is refused, how entries are compared, and the table of the page."""

import copy
import math
from types import SimpleNamespace

import numpy as np
import pytest
import torch
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks import race, race_entry, race_judge
from tests.support.clone import new_clone
from tests.support.folders import write_stories
from tests.support.small import model_settings, words_of
from tinylm.base.command import CommandFailed
from tinylm.base.config import InputError, load_params
from tinylm.base.files import read_json
from tinylm.model.checkpoint import save_model
from tinylm.model.transformer import TinyLM
from tinylm.params.params import params_from
from tinylm.params.presets.write import FOLDER
from tinylm.storybook.corpus import generate
from tinylm.storybook.truth import Truth
from tinylm.storybook.world import storybook

TRAIN = [story.text for story in generate(30, 0, 1)[0]]


def settings_with(**changes):
    """The storybook's settings, with section__key=value changed."""
    values = load_params(FOLDER / "storybook.yaml")
    for name, value in changes.items():
        section, key = name.split("__")
        assert key in values[section]
        values[section][key] = value
    return values


@pytest.fixture
def run(tmp_path, monkeypatch):
    """A folder like that of a finished run, with a random model and few train stories."""
    write_stories(tmp_path / "data/stories/train.jsonl", TRAIN)
    write_stories(tmp_path / "data/stories/held_out.jsonl", [])
    digest = race_entry.hashlib.sha256("\n".join(TRAIN).encode()).hexdigest()
    monkeypatch.setattr(race_entry, "STORIES_SHA256", digest)
    tokenizer = words_of(TRAIN)
    tokenizer.save(tmp_path / "data/vocab/tokenizer.json")
    torch.manual_seed(1)
    model = TinyLM(model_settings(context=192), torch.randn(len(tokenizer), 16))
    save_model(tmp_path / "models", model, layout="stories")
    (tmp_path / "params.yaml").write_text(yaml.safe_dump(settings_with()), "utf-8")
    trained = SimpleNamespace(seed=1, updates=7, training_flop_per_token=100, tokens=50)
    times = SimpleNamespace(train_s=90.0, conditions={"cpu": "a processor"})
    monkeypatch.setattr(race_entry, "read_stage", lambda kind, stage, folder: trained)
    monkeypatch.setattr(race_judge, "read_stage", lambda kind, stage, folder: trained)
    monkeypatch.setattr(race_judge, "read_result", lambda kind, path, stage: times)
    return SimpleNamespace(
        folder=tmp_path, model=model.eval(), tokenizer=tokenizer, trained=trained
    )


# ---------------------------------------------------------------- what is measured


@torch.no_grad()
def nats_by_definition(run, texts):
    """Sum of p ln(p / q) over the words at each position, over the number of positions."""
    nats, count = 0.0, 0
    for text in texts:
        ids = torch.tensor(run.tokenizer.encode_story(text))
        q = torch.softmax(run.model(ids[None, :-1])[0].double(), -1)
        truth = Truth()
        for position, word in enumerate([*storybook().normalise(text).split(), "<eos>"]):
            p = {}
            for next_word, prob in truth.next_words().probs.items():
                (token,) = (
                    run.tokenizer.encode(next_word)
                    if next_word != "<eos>"
                    else (run.tokenizer.eos_id,)
                )
                p[token] = p.get(token, 0.0) + prob
            nats += sum(
                prob * math.log(prob / q[position, token].item()) for token, prob in p.items()
            )
            count += 1
            truth.read(word)
    return nats / count


def test_nats_above_the_floor_are_sums_by_definition(run):
    stories = race_judge.fresh_stories(5, TRAIN, count=4)
    found = race_judge.nats_above_floor(run.folder, stories)
    assert found == pytest.approx(
        nats_by_definition(run, [story.text for story in stories]), rel=1e-5
    )
    measures = race_judge.measure(run.folder, stories)
    assert measures == {
        "seed": 1, "nats": round(found, 5), "updates": 7, "operations": 5000, "minutes": 1.5,
        "processor": "a processor",
    }  # fmt: skip


def test_fresh_stories_are_drawn_by_their_seed_and_were_never_seen():
    drawn = [story.text for story in generate(0, 8, 5)[1]]
    unseen = race_judge.fresh_stories(5, [drawn[2].upper(), *TRAIN], count=8)
    assert [story.text for story in unseen] == [*drawn[:2], *drawn[3:]]
    other = race_judge.fresh_stories(6, [], count=8)
    assert not {story.text for story in other} & set(drawn)


def test_a_story_longer_than_the_context_is_left_out(monkeypatch):
    lengths = [len(storybook().normalise(story.text).split()) for story in generate(0, 8, 5)[1]]
    monkeypatch.setattr(race_judge, "CONTEXT", sorted(lengths)[4])
    kept = race_judge.fresh_stories(5, [], count=8)
    assert [len(story.positions) - 1 for story in kept] == [
        n for n in lengths if n < sorted(lengths)[4]
    ]


# ---------------------------------------------------------------- what is refused


def problems(**changes):
    return list(race_entry.problems_with_params(params_from(settings_with(**changes))))


def test_the_default_recipe_and_what_is_free_break_no_rule():
    assert problems() == []
    assert problems(train__tokens=1000, train__batch_size=4, model__positions="rotary") == []
    assert problems(embedding__source="counts", embedding__width=64, model__context=400) == []


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"train__tokens": 1_600_001}, "train.tokens: expected at most 1,600,000, got 1,600,001"),
        ({"train__tokens": None, "train__epochs": 0.1}, "train.tokens: expected at most 1,600,000, got null"),
        ({"data__source": "local"}, "data.source: expected the storybook's storybook, got local"),
        ({"data__seed": 2}, "data.seed: expected the storybook's 1, got 2"),
        ({"data__train_stories": 90}, "data.train_stories: expected the storybook's None, got 90"),
        ({"vocab__min_count": 2}, "vocab.min_count: expected the storybook's 1, got 2"),
        ({"vocab__tokenizer": "bpe", "vocab__max_size": 300}, "vocab.tokenizer: expected the storybook's words, got bpe"),
        ({"embedding__source": "file"}, "embedding.source: expected vectors made from the train stories, got file"),
        ({"model__context": 191}, "model.context: expected at least 192, got 191"),
    ],
)  # fmt: skip
def test_settings_that_break_a_rule(changes, problem):
    assert problem in problems(**changes)


def test_a_patch_may_change_the_model_but_not_the_judge():
    assert list(race_entry.problems_with_patch(["tinylm/model/ops.py", "params.yaml"])) == []
    for file in ("benchmarks/race.py", "tinylm/storybook/plots.txt", "tinylm/evaluate/truth.py"):
        (problem,) = race_entry.problems_with_patch(["tinylm/model/ops.py", file])
        assert problem.endswith(f"got {file}")


def refused(run):
    with pytest.raises(InputError) as error:
        race_entry.check_run(run.folder)
    return str(error.value)


def test_a_run_that_breaks_a_rule_whatever_its_settings_say(run):
    race_entry.check_run(run.folder)
    run.trained.tokens = 1_600_001
    assert "training: expected at most 1,600,000 tokens, got 1,600,001" in refused(run)
    run.trained.tokens = 50
    words_of(TRAIN[:20]).save(run.folder / "data/vocab/tokenizer.json")
    assert "tokenizer: expected every word of the train stories, got all but" in refused(run)
    words_of([*TRAIN, "zebu"]).save(run.folder / "data/vocab/tokenizer.json")
    assert "tokenizer: expected a model of the storybook, got one with the word 'zebu'" in refused(
        run
    )
    run.tokenizer.save(run.folder / "data/vocab/tokenizer.json")
    write_stories(run.folder / "data/stories/train.jsonl", TRAIN[1:])
    assert "train stories: expected SHA-256" in refused(run)


def test_the_stories_of_the_run_itself_are_refused(run):
    with pytest.raises(InputError, match=r"expected another seed than .* data\.seed, got 1"):
        race_judge.measure_all(1, [run.folder])


def test_a_model_that_reads_ahead_is_refused(run, monkeypatch):
    stories = race_judge.fresh_stories(5, TRAIN, count=1)
    hidden_states = TinyLM.hidden_states

    def with_the_next_word(model, ids):
        return hidden_states(model, ids) + model.embedding[ids.roll(-1, 1)]

    monkeypatch.setattr(TinyLM, "hidden_states", with_the_next_word)
    with pytest.raises(InputError, match="model: expected no effect of later words, got"):
        race_judge.nats_above_floor(run.folder, stories)


def test_too_few_seeds_are_refused(tmp_path):
    for name in ("1", "2", "shared", "3"):
        (tmp_path / name / "data/times").mkdir(parents=True)
        if name != "3":  # whose training is not finished
            (tmp_path / name / "data/times/train.json").touch()
    with pytest.raises(InputError, match="expected finished runs of at least 3 seeds, got 2"):
        race_entry.finished_runs(tmp_path)
    (tmp_path / "3/data/times/train.json").touch()
    assert list(race_entry.finished_runs(tmp_path)) == [1, 2, 3]
    with pytest.raises(InputError, match="--seeds: expected at least 3, got 2"):
        race.main(["train", "params.yaml", "name", "--seeds", "1", "2", "2"])


# ---------------------------------------------------------------- how entries are compared

values = st.lists(st.integers(1, 10**6), min_size=3, max_size=3, unique=True).map(
    lambda numbers: [number / 10**5 for number in numbers]
)


@given(values, values, st.booleans(), st.lists(st.floats(1, 9), max_size=2))
@settings(max_examples=50)
def test_p_is_that_of_students_t_paired_where_the_seeds_are_the_same(
    before, entry, is_shared, further
):
    """further: of seeds that only the entry has, which do not count where the others are the same."""
    seeds = [1, 2, 3] if is_shared else [4, 5, 6]
    row = {
        "before": {
            "runs": [{"seed": n, "nats": v} for n, v in zip((1, 2, 3), before, strict=True)]
        },
        "runs": [{"seed": n, "nats": v} for n, v in zip(seeds, entry, strict=True)],
    }
    if is_shared:
        row["runs"] += [{"seed": 7 + n, "nats": v} for n, v in enumerate(further)]
    gains = np.subtract(before, entry)
    variance = (
        np.var(gains, ddof=1) if is_shared else np.var(before, ddof=1) + np.var(entry, ddof=1)
    )
    gain, p = race.gain_and_p(row)
    assert gain == pytest.approx(gains.mean())
    if variance > 1e-6:
        t = abs(gains.mean()) / math.sqrt(variance / 3)
        assert p == pytest.approx(1 - t / math.sqrt(2 + t * t), rel=0.01, abs=1e-6)


def test_the_interval_over_seeds_is_students():
    mean = race.mean_over_seeds([1.0, 2.0, 4.0])
    half = 4.302653 * np.std([1.0, 2.0, 4.0], ddof=1) / math.sqrt(3)
    assert mean == pytest.approx((7 / 3, 7 / 3 - half, 7 / 3 + half), rel=1e-6)


def runs_with(*nats):
    shared = {"updates": 7, "operations": 5000, "minutes": 1.5, "processor": "a processor"}
    return [{"seed": seed, "nats": value, **shared} for seed, value in enumerate(nats, 1)]


@pytest.fixture
def judge(tmp_path, monkeypatch):
    """Judges an entry by its name; what each entry measures is in the dictionary `nats`."""
    nats = {}
    asked = []
    page = tmp_path / "race.md"
    page.write_text("before\n<!-- race -->\n<!-- /race -->\nafter\n", "utf-8")
    monkeypatch.setattr(race, "RECORD", tmp_path / "race.json")
    monkeypatch.setattr(race, "PAGE", page)

    def measured(folder, stories_seed):
        asked.append((folder.name, stories_seed))
        return runs_with(*nats[folder.name])

    monkeypatch.setattr(race, "measured", measured)

    def judge(name, seed, *more):
        race.main(["judge", name, "--stories-seed", str(seed), "--work", str(tmp_path), *more])
        return read_json(tmp_path / "race.json")

    return SimpleNamespace(judge=judge, nats=nats, asked=asked, page=page)


def test_an_entry_is_compared_with_the_best_one_on_the_same_stories(judge):
    judge.nats |= {
        "start": (0.50, 0.51, 0.52), "worse": (0.60, 0.61, 0.62), "close": (0.48, 0.51, 0.50),
        "better": (0.30, 0.31, 0.32), "last": (0.20, 0.21, 0.22),
    }  # fmt: skip
    for seed, name in enumerate(judge.nats, 11):
        rows = judge.judge(name, seed)
    assert [row["better"] for row in rows] == [True, False, False, True, True]
    assert [row.get("before", {}).get("entry") for row in rows] == [
        None,
        "start",
        "start",
        "start",
        "better",
    ]
    assert judge.asked[-2:] == [("last", 15), ("better", 15)]
    assert rows[1]["p"] < 0.01  # and yet not better
    page = judge.page.read_text("utf-8")
    assert page.startswith("before\n<!-- race -->\n")
    assert page.endswith("<!-- /race -->\nafter\n")
    assert "| worse | 0.610 (0.585 to 0.635) | 3 | 0.510 |" in page
    assert page.count("| not better |") == 2


def test_a_name_and_a_seed_of_stories_count_once(judge):
    judge.nats |= {"start": (0.5, 0.6, 0.7), "other": (0.5, 0.6, 0.7)}
    judge.judge("start", 11)
    with pytest.raises(
        InputError, match="NAME: expected an entry that is not judged yet, got start"
    ):
        judge.judge("start", 12)
    with pytest.raises(InputError, match="--stories-seed: expected a new seed, got 11"):
        judge.judge("other", 11)
    assert len(judge.judge("other", 12)) == 2


def test_minutes_of_a_busy_machine_are_left_empty(judge):
    judge.nats |= {"start": (0.5, 0.6, 0.7)}
    (row,) = judge.judge("start", 11, "--busy", "--what", "the default recipe")
    assert [run["minutes"] for run in row["runs"]] == [None] * 3
    assert race.cells(row)[0] == "the default recipe"
    assert race.cells(row)[-2:] == ["–", "a processor"]


def test_the_page_shows_the_record_and_its_verdicts_follow_from_the_numbers():
    rows = race.read_record()
    page = race.PAGE.read_text("utf-8")
    assert race.with_table(page, rows) == page
    assert len(rows) >= 2
    best = rows[0]
    for row in rows[1:]:
        assert row["before"]["entry"] == best["entry"]
        gain, p = race.gain_and_p(row)
        assert row["p"] == p
        assert row["better"] == (gain > 0 and p < race.LEVEL)
        best = row if row["better"] else best
    changed = copy.deepcopy(rows)
    changed[-1]["runs"][0]["nats"] += 0.1
    assert race.with_table(page, changed) != page


# ---------------------------------------------------------------- the whole way

SMALL = {
    "embedding": {"source": "random", "width": 16},
    "model": {"layers": 1, "heads": 2, "feed_forward": 16},
    "train": {"tokens": 6000, "validate_every": 100},
    "runtime": {"threads": 1, "device": "cpu"},
}


def test_an_entry_is_trained_judged_and_kept(tmp_path, monkeypatch):
    root = new_clone(tmp_path / "root").path
    monkeypatch.setattr(race_entry, "ROOT", root)
    monkeypatch.setattr(race, "ROOT", root)
    entry = tmp_path / "small.yaml"
    values = settings_with()
    for section, changes in SMALL.items():
        values[section] |= changes
    entry.write_text(yaml.safe_dump(values), "utf-8")
    work = tmp_path / "work"
    train = ["train", str(entry), "small", "--work", str(work), "--seeds", "1", "2", "3"]
    race.main(train)
    weights = [(work / f"small/{seed}/models/model.safetensors").read_bytes() for seed in (1, 2, 3)]
    assert len(set(weights)) == 3
    before = (work / "small/2/data/times/train.json").stat()
    race.main(train)  # every seed is kept
    assert (work / "small/2/data/times/train.json").stat() == before
    rows = race.measured(work / "small", 7)
    assert [row["seed"] for row in rows] == [1, 2, 3]
    assert all(row["updates"] >= 5 and row["nats"] > 1 for row in rows)
    with pytest.raises(CommandFailed, match="expected another seed than"):
        race.measured(work / "small", 1)

    entry.write_text(yaml.safe_dump(values | {"train": values["train"] | {"lr": 0.1}}), "utf-8")
    with pytest.raises(InputError, match="expected the entry that it was made from, got another"):
        race.main(train)


def test_a_patch_is_applied_to_a_clone_of_this_commit(tmp_path, monkeypatch):
    clone = new_clone(tmp_path / "root")
    monkeypatch.setattr(race_entry, "ROOT", clone.path)
    model = clone.path / "tinylm/model/transformer.py"
    model.write_text("# A patch.\n" + model.read_text("utf-8"), "utf-8")
    (clone.path / "params.yaml").write_text(
        yaml.safe_dump(settings_with(train__batch_size=4)), "utf-8"
    )
    patch = tmp_path / "entry.patch"
    patch.write_text(clone.run("git", "diff").stdout, "utf-8")
    clone.run("git", "checkout", "-q", ".")
    entry = race_entry.open_entry(patch, tmp_path / "work")
    assert (entry.code / "tinylm/model/transformer.py").read_text("utf-8").startswith("# A patch.")
    assert yaml.safe_load(entry.params)["train"]["batch_size"] == 4
    assert clone.run("git", "status", "--porcelain").stdout == ""

    judge = clone.path / "benchmarks/race.py"
    judge.write_text(judge.read_text("utf-8").replace("0.01", "0.5"), "utf-8")
    patch.write_text(clone.run("git", "diff").stdout, "utf-8")
    with pytest.raises(
        InputError, match=r"expected no change in benchmarks/ .*got benchmarks/race\.py"
    ):
        race_entry.open_entry(patch, tmp_path / "other")
    assert not (tmp_path / "other/entry").exists()
    with pytest.raises(InputError, match=r"expected params\.yaml or a patch, got"):
        race_entry.open_entry(tmp_path / "none.patch", tmp_path / "none")
