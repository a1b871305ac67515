"""The page docs/tutorial/one-story.md: its code runs on a small model, its shapes are right, its outputs are true."""

import re

import pytest
import torch

from tests.support.literate import BLOCK, STORY, executed, printed_by
from tests.support.stages import ROOT, plant, read, run, small_params
from tinylm.base.config import load_params
from tinylm.learn.worker import load
from tinylm.params.presets.write import FOLDER
from tinylm.vocab.token_store import TokenStore

ONE_FILE = ROOT / "docs/tutorial/one_file.py"
OTHER_NAMES = {"batch_size": "BATCH", "tokens": "BUDGET", "clip_norm": "CLIP"}
PAGE = STORY.read_text(encoding="utf-8")
SHAPE = re.compile(r"\(([A-Z][\w, ]*)\) = (\([\d, ]+\))")  # "keys (B, H, T, Dh) = (1, 4, 145, 32)"


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    """(page, namespace, sizes by their letters) of a small model in another folder."""
    folder = tmp_path_factory.mktemp("story")
    params = small_params()
    # few epochs of fastText leave tiny vectors: steep losses
    params["embedding"] |= {"source": "random", "std": 1.0}
    plant(folder, params)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        assert [run(stage) for stage in ("download", "vocab", "train")] == [0, 0, 0]
        page, namespace = executed(PAGE)
        tokens = len(TokenStore("data/tokens", "evaluation").story(0)) - 1
    model, width = params["model"], params["embedding"]["width"]
    vocab_size = read(folder / "models/config.json")["vocab_size"]
    sizes = {"B": 1, "T": min(tokens, model["context"]), "V": vocab_size, "D": width}
    sizes |= {"H": model["heads"], "Dh": width // model["heads"]}
    sizes |= {"F": model["feed_forward"], "context": model["context"]}
    return page, namespace, sizes


def outputs(page: str) -> list[str]:
    """What each block of code printed."""
    return [printed_by(block) for block in BLOCK.finditer(page)]


def test_every_shape_is_made_of_the_sizes_that_its_letters_name(small):
    page, _, sizes = small
    found = SHAPE.findall("".join(outputs(page)))
    assert len(found) >= 19
    for letters, shape in found:
        named = [sizes[name] if name in sizes else int(name) for name in letters.split(", ")]
        assert str(tuple(named)) == shape, letters
    assert {letters for letters, _ in found} == {letters for letters, _ in SHAPE.findall(PAGE)}


def test_what_the_page_says_holds_for_another_model(small):
    page, names, _ = small
    assert all(outputs(page))
    assert "False" not in "".join(outputs(page))
    assert torch.allclose(names["weights"].sum(-1), torch.ones(names["T"]))
    assert not names["weights"].triu(1).any()
    assert names["after"] < names["before"]
    assert names["mean"] == pytest.approx(float(names["before"].detach()), abs=1e-4)
    assert torch.is_grad_enabled()


def test_constants_of_one_file_are_the_default_settings():
    one = load(ONE_FILE, "one_file")
    params = load_params(FOLDER / "storybook.yaml")
    expected = {}
    for key, value in (params["model"] | params["train"]).items():
        name = OTHER_NAMES.get(key, key.upper())
        if hasattr(one, name):
            expected[name] = value
    assert len(expected) == 11
    assert {name: getattr(one, name) for name in expected} == expected
