"""What `make test` checks of drawn runs: those on which a property once failed, and a few new ones, always the same.

`make any` draws as many as you like (tests/drawn/__main__.py). A failure that it writes becomes a test in folder found/.
"""

import itertools
from contextlib import nullcontext
from pathlib import Path

import pytest
import yaml
from hypothesis import HealthCheck, Phase, given, seed, settings

from tests.drawn.corpora import Files
from tests.drawn.drawing import Changes, DrawnRun, corpora_alone, runs, settings_alone
from tests.drawn.noted import figures_noted, figures_of
from tests.drawn.pairs import (
    Levels,
    corpus_runs,
    may_run,
    merged,
    rows,
    training_levels,
    training_runs,
    whole_levels,
)
from tests.drawn.properties import ALONE, check_property, from_yaml, load_properties
from tests.drawn.running import LEVELS, EndsEarly, Refused, advance
from tests.storybook.worlds import BAUERNHOF, files_of

FOUND = sorted((Path(__file__).parent / "found").glob("*.yaml"))
PROPERTIES = load_properties()
OF_LEVEL = {
    level: [each for each in PROPERTIES.values() if each.level == level] for level in LEVELS
}
SEEDS = (0, 1, 2, 3)
PARTS = 4  # so that several processes can share the work
FEW = settings(
    database=None,
    suppress_health_check=list(HealthCheck),
    phases=[Phase.generate],  # `python -m tests.drawn --only NAME` finds the smallest run
)


@pytest.mark.parametrize("path", FOUND, ids=lambda path: path.stem)
def test_a_run_that_was_wrong_once(path, tmp_path):
    """A file that says `refused: true` is refused before training; the property holds for any other."""
    text = path.read_text("utf-8")
    is_refused = yaml.safe_load(text).get("refused", False)
    with pytest.raises(Refused) if is_refused else nullcontext():
        check_property(*from_yaml(text), tmp_path)


def checked_to_its_end(drawn: DrawnRun, folder: Path) -> bool:
    """Check all properties on the way to the report; whether the run got there."""
    for level in LEVELS:
        try:
            advance(level, drawn, folder)
        except EndsEarly:
            return False
        for each in OF_LEVEL[level]:
            each.check(drawn, folder)
    return True


def test_the_simplest_run(tmp_path):
    assert checked_to_its_end(DrawnRun(), tmp_path)


def test_every_figure_of_a_run_is_read_by_a_property(tmp_path):
    """The run is on a world whose stories fit the context, so that the generator judges them."""
    files = Files(path="world", world=files_of(BAUERNHOF))
    changes = {"data.source": "world", "data.path": "world", "data.drop_first_line": False}
    changes |= {"data.train_stories": 40, "data.evaluation_stories": 6}
    changes |= {"model.context": 160, "accum_sweep.tokens": 2000, "accum_sweep.stories": None}
    changes |= {"seeds.more": [2], "train.keep_epochs": [0.02, 0.1]}
    # Losses that rise again, so that the last and the best are not the same.
    changes |= {"train.lr": 0.3, "train.patience": 9, "train.validate_every": 1}
    drawn = DrawnRun(changes, files)
    with figures_noted() as taken:
        assert checked_to_its_end(drawn, tmp_path)
        (tmp_path / "alone").mkdir()
        PROPERTIES["every_update_follows_from_its_formula"].check(drawn, tmp_path / "alone")
    assert sorted(figures_of(tmp_path) - taken) == []


@pytest.mark.parametrize("number", SEEDS)
def test_whole_runs(number, tmp_path_factory):
    """Each seed draws until a run reaches its report."""
    ended_well = []

    @seed(number)
    @settings(FEW, max_examples=8)
    @given(runs(rows()))
    def check(drawn: DrawnRun) -> None:
        # hypothesis begins every search with the simplest run, which has a test of its own.
        if drawn != DrawnRun() and not ended_well:
            folder = tmp_path_factory.mktemp("drawn")
            ended_well.extend([True] * checked_to_its_end(drawn, folder))

    check()
    assert ended_well, "none of the runs that were drawn reached its report"


@pytest.mark.parametrize("name", [each.name for each in PROPERTIES.values() if each.level == ALONE])
def test_a_property_alone(name, tmp_path_factory):
    chosen = PROPERTIES[name]

    @settings(FEW, max_examples=3)
    @seed(1)
    @given(settings_alone(rows()) if chosen.settings_alone else runs(rows()))
    def check(drawn: DrawnRun) -> None:
        try:
            chosen.check(drawn, tmp_path_factory.mktemp("drawn"))
        except EndsEarly:
            return

    check()


@pytest.mark.filterwarnings("ignore:characters outside the vocabulary", "ignore:words not in")
@pytest.mark.parametrize("part", range(PARTS))
def test_corpora_under_every_pair_of_settings(part, tmp_path_factory):
    """Settings of data, vocabulary and vectors, up to the last stage before training; each on the simplest corpus."""
    prepared = []
    for number, changes in enumerate(corpus_runs()):
        if number % PARTS != part:
            continue

        @seed(number)
        @settings(FEW, max_examples=1)
        @given(corpora_alone(changes))
        def check(drawn: DrawnRun) -> None:
            folder = tmp_path_factory.mktemp("drawn")
            for level in ("planted", "prepared"):
                try:
                    advance(level, drawn, folder)
                except EndsEarly:
                    return
                for each in OF_LEVEL[level]:
                    each.check(drawn, folder)
            prepared.append(drawn)

        check()
    assert len(prepared) > len(corpus_runs()) / PARTS / 2


def legal_pairs_that_no_run_has(levels: list[Levels], runs: list[Changes]) -> list[Changes]:
    """A pair is legal if one of the runs is still legal with it."""
    missing = []
    for one, other in itertools.combinations(levels, 2):
        for first, second in itertools.product(one, other):
            both = merged([first, second])
            if not any(both.items() <= run.items() for run in runs):
                missing += [both] * any(may_run(run | both) for run in runs)
    return missing


def test_every_legal_pair_of_settings_of_training_occurs():
    assert legal_pairs_that_no_run_has(training_levels(), training_runs()) == []


def test_every_legal_pair_of_settings_occurs():
    for level in itertools.chain(*whole_levels()):
        assert any(level.items() <= row.changes.items() for row in rows()), level
    assert legal_pairs_that_no_run_has(whole_levels(), [row.changes for row in rows()]) == []


@pytest.mark.parametrize("part", range(PARTS))
def test_updates_under_every_pair_of_settings(part, tmp_path_factory):
    """Settings of model and training; so few stories that all runs take less than a minute."""
    chosen = PROPERTIES["every_update_follows_from_its_formula"]
    for number, changes in enumerate(training_runs()):
        if number % PARTS == part:
            folder = tmp_path_factory.mktemp("drawn")
            chosen.check(DrawnRun(changes | {"data.train_stories": 24}, number=number), folder)
            assert (folder / "data/figures/train.json").exists(), f"{changes} did not end"
