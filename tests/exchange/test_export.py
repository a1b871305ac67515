"""tinylm export: what a folder holds, what it replaces, what is refused."""

import json

import pytest
import torch
from safetensors import safe_open

import tinylm
from tests.support.folders import contents
from tests.support.small import words_of
from tinylm.base.config import InputError
from tinylm.base.files import write_json
from tinylm.cli import main
from tinylm.exchange import export as module
from tinylm.exchange.export import export_folder
from tinylm.exchange.remote_code import remote_code
from tinylm.model.checkpoint import save_model
from tinylm.params.presets.write import params_or_preset
from tinylm.run.trained_model import load_trained

TEXT = "once upon a time the cat said hello to the dog and the dog sat down on a big red mat"
TRANSFORMERS = (
    *("config.json", "model.safetensors", "generation_config.json"),
    *("tokenizer.json", "tokenizer_config.json"),
)
ORIGINALS = {
    "tinylm/model.safetensors": "models/model.safetensors",
    "tinylm/config.json": "models/config.json",
    "tinylm/tokenizer.json": "data/vocab/tokenizer.json",
    "tinylm/tokenizer_kind.json": "data/vocab/tokenizer_kind.json",
}


@pytest.fixture
def new_trained(random_model, tmp_path, monkeypatch):
    """models/ and data/vocab/ of a random model in the working folder, read."""
    monkeypatch.chdir(tmp_path)

    def make(**settings):
        tokenizer = words_of([TEXT], punctuation="keep")
        path = "data/vocab/tokenizer.json"
        tokenizer.save(path)
        save_model("models", random_model(vocab=len(tokenizer), **settings))
        return load_trained("models", params_or_preset(), path)

    return make


@pytest.mark.parametrize("form", ["transformers", "tinylm"])
def test_a_folder_holds_the_model_and_its_originals(new_trained, tmp_path, form):
    trained = new_trained()
    export_folder(tmp_path / "out", trained, form)
    files = contents(tmp_path / "out")
    names = {*TRANSFORMERS, *ORIGINALS}
    if form == "tinylm":
        names |= remote_code().keys()
    assert files.keys() == names
    for name, source in ORIGINALS.items():
        assert files[name] == (tmp_path / source).read_bytes()
    config = json.loads(files["config.json"])
    tokenizer = trained.tokenizer
    roles = {"bos": tokenizer.sos_id, "eos": tokenizer.eos_id, "pad": tokenizer.pad_id}
    assert {role: config[f"{role}_token_id"] for role in roles} == roles
    with safe_open(tmp_path / "out/model.safetensors", "pt") as weights:
        assert weights.metadata() == {"format": "pt"}
        tensors = {name: weights.get_tensor(name) for name in weights.keys()}  # noqa: SIM118
    assert {tensor.dtype for tensor in tensors.values()} == {torch.float32}
    if form == "tinylm":
        expected = trained.model.state_dict()
        assert all(torch.equal(tensors[f"tinylm.{name}"], expected[name]) for name in expected)


def test_an_earlier_export_is_replaced_whole_or_not_at_all(new_trained, tmp_path, monkeypatch):
    trained = new_trained()
    (tmp_path / "out").mkdir()
    export_folder(tmp_path / "out", trained, "tinylm")
    export_folder(tmp_path / "out", trained, "transformers")
    assert not (tmp_path / "out/modeling_tinylm.py").exists()
    before = contents(tmp_path / "out")

    def fail(*_):
        raise OSError("disk full")

    monkeypatch.setattr(module, "write_originals", fail)
    with pytest.raises(OSError, match="disk full"):
        export_folder(tmp_path / "out", trained, "tinylm")
    assert contents(tmp_path / "out") == before
    assert sorted(path.name for path in tmp_path.iterdir()) == ["data", "models", "out"]


@pytest.mark.parametrize("added", ["README.md", None])
def test_what_no_export_wrote_is_not_replaced(new_trained, tmp_path, added):
    folder = tmp_path / "out"
    trained = new_trained()
    if added is None:
        folder.symlink_to(tmp_path / "models")
    else:
        export_folder(folder, trained, "transformers")
        (folder / added).write_text("mine")
    before = contents(folder)
    with pytest.raises(InputError, match=added):
        export_folder(folder, trained, "transformers")
    assert contents(folder) == before


def test_a_model_that_no_architecture_computes_is_refused_by_its_key(new_trained, tmp_path, capsys):
    model = new_trained(norm_kind="std").model
    assert main(["export", "out"]) == 2
    assert "model.norm_kind" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()
    assert main(["export", "out", "--format", "tinylm"]) == 0
    out = capsys.readouterr().out
    assert "trust_remote_code=True" in out
    size = sum(parameter.numel() for parameter in model.parameters())
    assert f"{size:,} parameters" in out


def test_an_export_is_exported_again(new_trained, tmp_path):
    new_trained()
    assert main(["export", "out", "--format", "gguf"]) == 0
    assert main(["export", "again", "--models", "out"]) == 0
    config = "tinylm/config.json"
    assert (tmp_path / "again" / config).read_bytes() == (tmp_path / "out" / config).read_bytes()


@pytest.mark.parametrize(
    ("source", "path", "is_told"),
    [("world", "w", True), ("world", "/home/ada/w", False), ("local", "w", False)],
)
def test_an_export_notes_what_wrote_the_stories(
    new_trained, tmp_path, monkeypatch, source, path, is_told
):
    """Of the user's own folders only that of a world, which `tinylm truth` reads, and no path from the root."""
    new_trained()
    noted = {"source": source, "path": path, "world": "d1"}
    values = noted | {"evaluation_split": "", "splits": {}, "dropped": {}}
    write_json(tmp_path / "data/figures/download.json", values)
    export_folder(tmp_path / "first", load_trained("models", params_or_preset()), "transformers")
    lock = {
        "download": {"outs": [{"path": "stories", "md5": "new"}]},
        "vocab": {"deps": [{"path": "stories", "md5": "old"}]},
    }
    (tmp_path / "dvc.lock").write_text(json.dumps({"stages": lock}))
    assert load_trained("models", params_or_preset()).corpus is None  # not its stories any more
    params = params_or_preset()
    (tmp_path / "data/figures/download.json").unlink()
    export_folder(tmp_path / "again/out", load_trained("first", params), "transformers")
    monkeypatch.chdir(tmp_path / "again")
    written = json.loads((tmp_path / "again/out/tinylm/corpus.json").read_text())
    assert written == {key: noted[key] for key in noted if is_told or key != "path"}
    loaded = tinylm.load("out")
    found = (loaded.source, loaded.world, loaded.world_digest)
    assert found == (source, "w" if is_told else None, "d1")
    (tmp_path / "again/w").mkdir()
    monkeypatch.chdir(tmp_path)  # a world beside the export is found from anywhere
    assert tinylm.load("again/out").world == ("again/w" if is_told else None)
    (tmp_path / "again/out/tinylm/corpus.json").unlink()  # older versions noted nothing
    assert tinylm.load("again/out").world_digest is None


@pytest.mark.parametrize("name", ["model.safetensors", "config.json", "tokenizer.json"])
def test_an_export_whose_originals_are_cut_off_or_gone_is_refused(new_trained, tmp_path, name):
    export_folder(tmp_path / "out", new_trained(), "transformers")
    path = tmp_path / "out/tinylm" / name
    path.write_bytes(path.read_bytes()[:-9])
    with pytest.raises(InputError, match=name):
        load_trained("out", params_or_preset())
    path.unlink()
    with pytest.raises(InputError, match=name):
        load_trained("out", params_or_preset())


def test_without_a_length_penalty_nothing_is_exported_but_gguf(new_trained, tmp_path, capsys):
    new_trained()
    params = params_or_preset()
    del params["beam_bench"]
    (tmp_path / "params.yaml").write_text(json.dumps(params))
    assert main(["export", "out"]) == 2
    assert "beam_bench" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()
    assert main(["export", "out", "--format", "gguf"]) == 0
