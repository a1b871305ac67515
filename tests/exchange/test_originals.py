"""An export holds the files it was made from, and is read through them or refused."""

import pytest

from tinylm.base.config import InputError
from tinylm.exchange.loading import load_parts

NAMES = ("model.safetensors", "config.json", "tokenizer.json")


@pytest.fixture
def exported(random_model, export_of, words):
    """A whole export, next to the models/ and tokenizer.json that it was made of."""
    return export_of(random_model(vocab=len(words)))


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
