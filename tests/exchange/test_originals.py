"""An export holds the files it was made from, and is read through them or refused."""

import json

import pytest

from tinylm.base.config import InputError
from tinylm.base.files import sha256
from tinylm.exchange.loading import load_parts

NAMES = ("model.safetensors", "config.json", "tokenizer.json")


@pytest.fixture
def exported(random_model, export_of, words):
    """A whole export, next to the models/ and tokenizer.json that it was made of."""
    return export_of(random_model(vocab=len(words)))


def test_an_export_is_read_also_as_the_links_in_which_the_hubs_library_stores_it(
    tmp_path, exported, words
):
    linked = tmp_path / "linked" / "tinylm"
    linked.mkdir(parents=True)
    for path in (exported / "tinylm").iterdir():
        (linked / path.name).symlink_to(path)
    for folder in (exported, linked.parent):
        model, tokenizer, _ = load_parts(folder)
        assert model.vocab_size == len(tokenizer)
        assert tokenizer.tokens == words.tokens


@pytest.mark.parametrize("name", NAMES)
def test_a_changed_or_missing_file_is_refused(exported, name):
    path = exported / "tinylm" / name
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
    with pytest.raises(InputError, match=name):
        load_parts(exported)
    path.unlink()
    with pytest.raises(InputError, match=name):
        load_parts(exported)


def test_a_config_of_another_size_is_refused(exported):
    path = exported / "tinylm" / "config.json"
    config = json.loads(path.read_text())
    config["model"]["feed_forward"] += 1
    path.write_text(json.dumps(config))
    sums = {name: sha256(exported / "tinylm" / name) for name in NAMES}
    (exported / "tinylm" / "sha256.json").write_text(json.dumps(sums))
    with pytest.raises(InputError, match=r"config\.json|model\.safetensors"):
        load_parts(exported)
