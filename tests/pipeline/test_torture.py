"""`make torture` with four kills and no more than the first three stages; the whole is a command of its own."""

import pytest

from tests.torture import run as torture

MADE = ("data/stories/", "data/vocab/", "data/tokens/", "models/")
FILES = {f"{place}/{name}.json" for place in ("metrics", "data/figures") for name in ("download", "vocab", "train")}
FILES |= {f"plots/{name}.csv" for name in ("loss", "perplexity", "learning_rate", "grad_norm")}


@pytest.fixture
def tortured(base, tmp_path):
    """A copy in which nothing ever ran, and the bytes of `base`, in which all did, undisturbed."""
    clone = type(base)(tmp_path / "clone")
    clone.install_python()
    base.run("git", "clone", "-q", str(base.path), str(clone.path))
    found = torture.Torture(clone, 3, "train")
    whole = torture.written(base.path)
    found.expected = {name: content for name, content in whole.items() if name.startswith(MADE) or name in FILES}
    yield found
    found.end()


def test_fault_01_06_killed_four_times_and_then_the_bytes_of_an_undisturbed_run(tortured):
    tortured.kills(4, 4.0)
    counts = tortured.table
    assert [counts[f"kill -9 of {kind}", "taken up again by the next `make repro`"] for kind in torture.KINDS] == [
        1
    ] * 4
    ends = {outcome for fault, outcome in counts if fault == "a round of kills"}
    assert ends == {"the bytes of an undisturbed run"}, counts
