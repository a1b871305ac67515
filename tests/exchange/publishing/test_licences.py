"""The licence of the data: known, read beside the data, or said by the user."""

import pytest

from tinylm.base.config import InputError
from tinylm.exchange.publication import check_name, data_licence

HUB = {"source": "hub", "hub_id": "roneneldan/TinyStories", "hub_revision": "abc", "path": ""}
LOCAL = {"source": "local", "path": "stories"}


def test_the_storybook_has_ours(params):
    found = data_licence(params["data"], None)
    assert (found.name, found.said_by) == ("mit", "tinylm's own licence")


def test_tinystories_has_its_own():
    found = data_licence(HUB, None)
    assert found.name == "cdla-sharing-1.0"
    assert "roneneldan/TinyStories" in found.data
    assert "revision abc" in found.data


def test_another_data_set_of_the_hub_is_not_known():
    assert data_licence(HUB | {"hub_id": "someone/else"}, None).name is None


def test_a_local_data_set_says_it_in_its_readme(tmp_path):
    (tmp_path / "stories").mkdir()
    (tmp_path / "stories/README.md").write_text(
        "---\nlicense: cc-by-4.0\ntags: [a]\n---\n# Stories\n"
    )
    found = data_licence(LOCAL, None, tmp_path)
    assert (found.name, found.said_by) == ("cc-by-4.0", "README.md of the data")
    assert str(tmp_path) not in found.data


@pytest.mark.parametrize(
    "page",
    [
        "# no head\nlicense: mit\n", "---\nlicense: [mit]\n---\n", "---\n{\n---\n",
        "---\nlicense: '<b>x</b>'\n---\n", "", None
    ],
)  # fmt: skip
def test_a_local_data_set_that_does_not_say_it(tmp_path, page):
    (tmp_path / "stories").mkdir()
    if page is not None:
        (tmp_path / "stories/README.md").write_text(page)
    found = data_licence(LOCAL, None, tmp_path)
    assert (found.name, found.said_by) == (None, "")


def test_what_the_user_says_wins(params):
    assert data_licence(params["data"], "cc0-1.0").name == "cc0-1.0"


@pytest.mark.parametrize("name", ["", "a: b", "x\ny", "-x", "<b>", "x" * 65])
def test_what_is_no_name(name):
    with pytest.raises(InputError, match="--license"):
        check_name(name, "--license")
