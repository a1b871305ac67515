"""The worked example of own-data.md, as typed, by a model that is smaller than the default."""

import re
import shlex

import pytest

from tests.pipeline.test_readme import PAGES, block_commands
from tests.support.clone import new_clone
from tinylm.base.config import parse_yaml
from tinylm.base.files import read_json

PAGE = PAGES["docs/how-to/own-data.md"].partition("\n## Files")[0]
ROWS = 1500  # of the page's corpus


@pytest.fixture(scope="module")
def clone(tmp_path_factory):
    clone = new_clone(tmp_path_factory.mktemp("own") / "clone")
    clone.set({"data.train_stories": None, "data.evaluation_stories": 500})
    (block,) = re.findall(r"```yaml\n(.*?)```", PAGE, flags=re.DOTALL)
    for section, values in parse_yaml(block, "own-data.md").items():
        clone.set({f"{section}.{key}": value for key, value in values.items()})
    return clone


def test_the_worked_example_runs_as_typed(clone):
    commands = [shlex.split(command) for command in block_commands(PAGE)]
    assert [words[0] for words in commands] == ["python", "tinylm", "dvc", "dvc", "tinylm"]
    for words in commands:
        said = clone.run(*words).stdout
    assert said.startswith("on monday morning")
    corpus = read_json(clone.path / "data/figures/download.json")
    counted = sum(split["stories"] for split in corpus["splits"].values())
    assert counted + sum(corpus["dropped"].values()) == ROWS
    assert (clone.path / "report/report.pdf").exists()
