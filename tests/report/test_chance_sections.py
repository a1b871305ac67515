"""How far seeds change the figures, and what is copied from train."""

import pytest

from tinylm.report.blocks import Fold, Table
from tinylm.report.chance_sections import memorised, seeds
from tinylm.report.pictures import new_ngrams, seed_band, seed_losses
from tinylm.report.run_sections import curves


def table(blocks, caption: str) -> Table:
    """The one table of this caption, wherever it stands."""
    found = [block for block in blocks if isinstance(block, Table) and block.caption == caption]
    inner = [
        block
        for outer in blocks
        if hasattr(outer, "blocks")
        for block in outer.blocks
        if isinstance(block, Table)
    ]
    (wanted,) = found + [block for block in inner if block.caption == caption]
    return wanted


def test_seeds_stand_with_their_spread(run):
    blocks = seeds(run)
    assert "The same training with 3 seeds" in blocks[0].text
    rows = {row[0]: row[1:] for row in table(blocks, "Statistics over seeds").rows}
    assert rows["perplexity on evaluation"] == ("7.10", "0.07100", "0.4437")
    assert rows["bits per byte, normalised text"] == ("0.580", "0.005800", "0.03625")
    assert table(blocks, "Each seed").rows[1] == ("seed 2", "7.14", "2.000", "0.620", "2.002")


def test_one_seed_has_no_section_no_picture_and_no_band(run):
    run.found["seeds"] = {
        "n": 1,
        "seeds": [1],
        "perplexity": {"mean": 7.1},
        "by_seed": {"1": {"perplexity": 7.1}},
    }
    run.found["seed_curves"] = [row for row in run.rows("seed_curves") if row["series"] == "seed 1"]
    assert seeds(run) == []
    assert seed_losses(run) is None
    assert seed_band(run, "tokens") == {}
    assert "band" not in str(curves(run))


@pytest.mark.parametrize(
    ("name", "x", "bands"),
    [("loss_tokens", "tokens", 1), ("loss_steps", "step", 1), ("perplexity", "tokens", 0)],
)
def test_the_band_of_all_seeds_lies_behind_the_held_out_loss(run, drawn, name, x, bands):
    axes = drawn[name].figure.axes[0]
    assert len(axes.collections) == bands
    if bands:
        places, lows, highs = seed_band(run, x)["held-out"]
        corners = axes.collections[0].get_paths()[0].vertices
        assert {tuple(corner) for corner in corners} >= {*zip(places, lows), *zip(places, highs)}
        assert tuple(axes.collections[0].get_facecolor()[0][:3]) == pytest.approx(
            tuple(int(axes.lines[1].get_color()[i : i + 2], 16) / 255 for i in (1, 3, 5))
        )
    assert "The band holds the held-out losses of all 3 seeds" in str(curves(run))


def test_copies_stand_beside_what_the_stories_share_with_train(run):
    blocks = memorised(run)
    assert blocks[0].text == "Words as the model has them. Train has 19,600 stories."
    rows = {row[0]: row[1:] for row in table(blocks, "Shared with train").rows}
    assert rows["longest run, mean"] == ("9.00 (8.55 to 9.45)", "6.00 (5.70 to 6.30)")
    assert rows["whole texts in train"] == ("1", "0")
    assert rows["nearest story holds"] == ("20.0 % (19.0 to 21.0)",) * 2
    grams = table(blocks, "n-grams not in the training split").rows
    assert [row[0] for row in grams] == ["1 word", *(f"{n} words" for n in range(2, 9))]
    assert grams[3][1] == "40.0 % (38.0 to 42.0)"
    assert "continuations from 10.0 to 80.0" in new_ngrams(run).alt


def test_the_longest_copies_come_first_each_with_its_nearest_story(run):
    blocks = memorised(run)
    rows = table(blocks, "Continuations with the longest runs").rows
    assert [row[2] for row in rows] == ["16", "15", "14", "13", "12"]
    assert rows[0][3] == "was a little dog 11 who"
    (fold,) = (block for block in blocks if isinstance(block, Fold))
    assert not fold.on_paper
    assert fold.blocks[0].rows[0] == ("once upon a time 11", "111", "the nearest story 11")


def test_texts_without_words_or_nearest_story_are_left_out(run):
    run.found["evaluate"]["memorised"]["continuations"] = {"count": 0, "words": 0}
    rows = {row[0]: row[1:] for row in table(memorised(run), "Shared with train").rows}
    assert rows["longest run, mean"] == ("–", "6.00 (5.70 to 6.30)")
    run.found["memorised"] = [row | {"nearest": ""} for row in run.rows("memorised")]
    assert not [block for block in memorised(run) if isinstance(block, Fold)]
    run.found["evaluate"].pop("memorised")
    assert memorised(run) == []
    assert new_ngrams(run) is None
