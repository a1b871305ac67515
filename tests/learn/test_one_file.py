"""The model in one file: its constants, and greedy text; tests/recomputed compares its updates."""

from tests.recomputed.plain_run import ONE_FILE, PlainRun, constants
from tinylm.base.config import load_params
from tinylm.decoding.settings import DecodeSettings
from tinylm.decoding.texts import generate_text
from tinylm.learn.worker import load
from tinylm.model.checkpoint import load_model
from tinylm.presets.write import FOLDER
from tinylm.vocab.kinds import open_tokenizer


def test_constants_are_the_default_settings():
    one = load(ONE_FILE, "one_file")
    expected = constants(load_params(FOLDER / "storybook.yaml"))
    assert {name: getattr(one, name) for name in expected} == expected


def test_greedy_text_equals_the_packages(finished_run):
    plain = PlainRun(finished_run)
    tokenizer = open_tokenizer(finished_run / "data/vocab/tokenizer.json")
    model, _ = load_model(finished_run / "models")
    (text,) = generate_text(
        model, tokenizer, ["one day"], DecodeSettings().greedy(), max_new_tokens=20
    )
    assert plain.one.greedy(plain.model(), plain.vocabulary, "one day", 20) == text
