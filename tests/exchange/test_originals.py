"""An export read back: to the same bytes, or refused in one line with nothing changed."""

import json
import shutil

import pytest
import torch
from safetensors.torch import load_file, save_file

from tinylm.base.config import InputError
from tinylm.base.files import sha256
from tinylm.cli import main
from tinylm.exchange import originals
from tinylm.exchange.originals import is_export, restore, write_originals
from tinylm.model.checkpoint import load_model
from tinylm.vocab.longest_match import train_longest_match
from tinylm.vocab.settings import VocabSettings
from tinylm.vocab.tokenizer import open_tokenizer

NAMES = ("model.safetensors", "config.json", "tokenizer.json")


@pytest.fixture
def exported(random_model, export_of, words):
    """A whole export, beside the models/ and tokenizer.json that it was made of."""
    return export_of(random_model(vocab=len(words)))


@pytest.fixture
def places(tmp_path):
    return tmp_path / "new" / "models", tmp_path / "new" / "vocab" / "tokenizer.json"


def contents(*folders):
    return {
        path.relative_to(folder): path.read_bytes()
        for folder in folders
        for path in folder.rglob("*")
        if path.is_file()
    }


def resign(folder):
    """Write the SHA-256 of the files as they are now: what the sums cannot find must be found all the same."""
    source = folder / "tinylm"
    config = json.loads((source / "config.json").read_text())
    config["sha256"] = sha256(source / "model.safetensors")
    config["tokenizer_sha256"] = sha256(source / "tokenizer.json")
    (source / "config.json").write_text(json.dumps(config))
    (source / "sha256.json").write_text(json.dumps({name: sha256(source / name) for name in NAMES}))


def change_config(folder, **changes):
    path = folder / "tinylm" / "config.json"
    config = json.loads(path.read_text())
    for key, value in changes.items():
        (config if key in config else config["model"])[key] = value
    path.write_text(json.dumps(config))
    resign(folder)


@pytest.mark.parametrize("form", ["transformers", "tinylm"])
def test_an_export_comes_back_to_the_same_bytes(
    tmp_path, random_model, export_of, words, places, form
):
    folder = export_of(random_model(vocab=len(words)), form)
    shutil.move(folder, tmp_path / "moved")
    parameters, tokenizer = restore(tmp_path / "moved", *places, replace=False)
    assert contents(places[0]) == contents(tmp_path / "models")
    assert places[1].read_bytes() == (tmp_path / "tokenizer.json").read_bytes()
    assert tokenizer.tokens == words.tokens
    model, _ = load_model(places[0])
    assert parameters == sum(parameter.numel() for parameter in model.parameters())


def test_every_kind_of_tokenizer_comes_back(random_model, export_of, places):
    settings = VocabSettings(
        tokenizer="longest_match", lower_case=False, punctuation="keep", max_size=40
    )
    own = train_longest_match(["the cat sat on a mat"], settings)
    folder = export_of(random_model(vocab=len(own)), tokenizer=own)
    restore(folder, *places, replace=False)
    assert open_tokenizer(places[1]).tokens == own.tokens


def test_a_copy_of_links_is_read_as_files(tmp_path, exported, places):
    """As the hub's library keeps what it fetched."""
    linked = tmp_path / "linked" / "tinylm"
    linked.mkdir(parents=True)
    for path in (exported / "tinylm").iterdir():
        (linked / path.name).symlink_to(path)
    restore(linked.parent, *places, replace=False)
    assert not (places[0] / "config.json").is_symlink()
    assert load_model(places[0])


@pytest.mark.parametrize("name", NAMES)
def test_one_changed_byte_is_refused(exported, places, name):
    path = exported / "tinylm" / name
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
    with pytest.raises(InputError, match=f"{name}: not the file that was exported"):
        restore(exported, *places, replace=True)
    assert not places[0].exists()
    assert not places[1].exists()


@pytest.mark.parametrize("name", NAMES)
def test_a_missing_file_is_refused(exported, places, name):
    (exported / "tinylm" / name).unlink()
    with pytest.raises(InputError, match=f"{name} is missing"):
        restore(exported, *places, replace=True)


def test_a_folder_that_is_no_export_is_refused(tmp_path, places):
    assert not is_export(tmp_path)
    with pytest.raises(InputError, match="not an export"):
        restore(tmp_path, *places, replace=True)


@pytest.mark.parametrize(
    "sums",
    [
        "[]",
        "{}",
        "null",
        "{",
        '{"model.safetensors": 1}',
        '{"../../x": "00"}',
        "[" * 10_000,
        "0" * 70_000,
    ],
)
def test_other_sums_than_ours_are_refused(exported, places, sums):
    (exported / "tinylm" / "sha256.json").write_text(sums)
    with pytest.raises(InputError, match=r"sha256\.json"):
        restore(exported, *places, replace=True)


def test_a_sum_too_many_or_too_short_is_refused(exported, places):
    path = exported / "tinylm" / "sha256.json"
    sums = json.loads(path.read_text())
    for wrong in (
        sums | {"setup.py": sums["config.json"]},
        sums | {"config.json": sums["config.json"][:-1]},
    ):
        path.write_text(json.dumps(wrong))
        with pytest.raises(
            InputError,
            match=r"sha256\.json: allowed: the SHA-256 of config\.json, model\.safetensors",
        ):
            restore(exported, *places, replace=True)


@pytest.mark.parametrize(
    "changes",
    [
        {"layers": 3},
        {"feed_forward": 22},
        {"layers": 1000, "feed_forward": 1_000_000},  # 150 GB of weights, if they were made
        {"context": 1_000_000, "positions": "learned"},
        {"tied_output": False},
        {"norm_kind": "rms"},
    ],
)
def test_a_config_of_another_size_is_refused_before_the_model_is_made(exported, places, changes):
    change_config(exported, **changes)
    with pytest.raises(InputError, match="its config describes"):
        restore(exported, *places, replace=True)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"vocab_size": 23}, "24 ids; the model has 23"), ({"vocab_size": 1 << 40}, "vocab_size"),
        ({"width": 0}, "width"), ({"width": "19"}, "width"), ({"layers": 1001}, "layers"),
        ({"heads": 40}, "model.heads"), ({"norm": "sideways"}, "norm")
    ],
)  # fmt: skip
def test_a_config_out_of_bounds_is_refused(exported, places, changes, message):
    change_config(exported, **changes)
    with pytest.raises(InputError, match=message) as caught:
        restore(exported, *places, replace=True)
    assert "dvc repro" not in str(caught.value)  # nothing that the pipeline makes is wrong
    assert str(exported) in str(caught.value)


def test_a_config_that_is_no_object_is_refused(exported, places):
    (exported / "tinylm" / "config.json").write_text("[]")
    sums = {name: sha256(exported / "tinylm" / name) for name in NAMES}
    (exported / "tinylm" / "sha256.json").write_text(json.dumps(sums))
    with pytest.raises(InputError, match="not the config of a model"):
        restore(exported, *places, replace=True)


def test_weights_that_are_not_finite_are_refused(exported, places):
    path = exported / "tinylm" / "model.safetensors"
    tensors = load_file(path)
    tensors["embedding"][0, 0] = torch.nan
    save_file(tensors, path)
    resign(exported)
    with pytest.raises(InputError, match="not finite"):
        restore(exported, *places, replace=True)


def test_a_tokenizer_that_is_none_is_refused(exported, places):
    (exported / "tinylm" / "tokenizer.json").write_text('{"type": "other"}')
    resign(exported)
    with pytest.raises(InputError, match=r"tokenizer\.json"):
        restore(exported, *places, replace=True)


def test_a_tokenizer_of_another_run_is_refused(exported, places, words):
    """Of the same size: only the hash in the config tells."""
    other = type(words)([*words.tokens[5:], words.tokens[4]], words.split)
    other.save(exported / "tinylm" / "tokenizer.json")
    sums = {name: sha256(exported / "tinylm" / name) for name in NAMES}
    (exported / "tinylm" / "sha256.json").write_text(json.dumps(sums))
    with pytest.raises(InputError, match="not the vocabulary"):
        restore(exported, *places, replace=True)


def test_another_model_that_is_there_stays_without_force(exported, places, random_model, words):
    models, vocab = places
    restore(exported, *places, replace=False)
    restore(exported, *places, replace=False)  # the same bytes are no other model
    (models / "config.json").write_text("{}")
    before = contents(models, vocab.parent)
    with pytest.raises(InputError, match=r"config\.json: another model is there; --force"):
        restore(exported, *places, replace=False)
    assert contents(models, vocab.parent) == before
    restore(exported, *places, replace=True)
    assert load_model(models)


def test_what_the_replaced_model_left_behind_goes_with_it(exported, places):
    models, vocab = places
    restore(exported, *places, replace=False)
    (models / "moments").mkdir()
    for left in ("moments/1.safetensors", "samples.json", "notes.txt"):
        (models / left).write_text("left")
    restore(exported, *places, replace=True)  # the same model: what it left is its own
    assert (models / "samples.json").exists()
    vocab.write_text("{}")
    restore(exported, *places, replace=True)
    assert {path.name for path in models.rglob("*") if path.is_file()} == {
        "model.safetensors",
        "config.json",
        "notes.txt",
    }


def test_a_file_that_changes_while_it_is_copied_appears_nowhere(exported, places, monkeypatch):
    monkeypatch.setattr(
        originals, "_open", lambda source: (source / "config.json").write_text("{}") and (0, None)
    )
    with pytest.raises(InputError, match="changed while it was copied"):
        restore(exported, *places, replace=False)
    assert not (places[0] / "config.json").exists()
    assert not list(places[0].glob(".*"))


def test_originals_are_copies_with_their_sums(tmp_path, exported):
    write_originals(tmp_path / "other", tmp_path / "models", tmp_path / "tokenizer.json")
    assert is_export(tmp_path / "other")
    assert contents(tmp_path / "other" / "tinylm") == contents(exported / "tinylm")


def test_the_command_imports_and_refuses(exported, places, capsys):
    options = ["--models", str(places[0]), "--vocab", str(places[1])]
    assert main(["import", str(exported), *options]) == 0
    out = capsys.readouterr().out
    assert "24 ids, words" in out
    assert out.endswith("trains anew,\nunless they are those of the last run\n")
    places[1].write_text("{}")
    assert main(["import", str(exported), *options]) == 2
    assert "--force" in capsys.readouterr().err
    assert main(["import", str(exported), *options, "--force"]) == 0
    assert main(["import", str(places[0]), *options]) == 2
    assert "not an export" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("models", "vocab", "said"),
    [
        ("new", "new/config.json", "are one place"),
        ("new", "new/model.safetensors", "are one place"),
        ("new", "new", "are one place"),
        ("new/models", "new", "are one place"),
        ("", "t.json", "--models ''; allowed: a folder"),
        ("new", "", "--vocab ''; allowed: a file"),
        ("taken", "t.json", "--models taken; allowed: a folder"),
        ("taken/x", "t.json", "taken is a file; allowed: a folder"),
        ("new", "models", "--vocab models; allowed: a file"),
    ],
)
def test_places_that_cannot_hold_both_are_refused(
    exported, tmp_path, monkeypatch, models, vocab, said
):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "taken").write_text("mine")
    before = contents(tmp_path)
    with pytest.raises(InputError, match=said):
        restore(exported, models, vocab, replace=True)
    assert contents(tmp_path) == before
