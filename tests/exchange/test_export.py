"""tinylm export: what a folder holds, what it replaces, what is refused."""

import json
import os

import pytest
import torch
import yaml
from safetensors import safe_open

from tinylm.base.config import InputError, parse_yaml
from tinylm.base.files import sha256
from tinylm.cli import main
from tinylm.exchange import export as module
from tinylm.exchange.export import Trained, export_folder
from tinylm.exchange.loading import load_parts
from tinylm.model.checkpoint import save_model
from tinylm.presets.write import BASE, preset_text
from tinylm.vocab.settings import VocabSettings
from tinylm.vocab.words import build_tokenizer, count_words

TEXT = "once upon a time the cat said hello to the dog and the dog sat down on a big red mat"
FILES = {
    "config.json",
    "model.safetensors",
    "generation_config.json",
    "tokenizer.json",
    "tokenizer_config.json",
}


@pytest.fixture
def new_trained(random_model, tmp_path, monkeypatch):
    """models/ and data/vocab/ of a random model in the working folder, read."""
    monkeypatch.chdir(tmp_path)

    def make(**settings):
        vocab = VocabSettings(tokenizer="words", punctuation="keep")
        tokenizer = build_tokenizer(count_words([TEXT], vocab), vocab)
        tokenizer.save("data/vocab/tokenizer.json")
        save_model("models", random_model(vocab=len(tokenizer), **settings))
        return Trained(
            "models",
            "data/vocab/tokenizer.json",
            *load_parts("models", "data/vocab/tokenizer.json"),
        )

    return make


def tree(folder):
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file()
    }


@pytest.mark.parametrize(
    ("form", "more"), [("transformers", set()), ("tinylm", {"modeling_tinylm.py"})]
)
def test_a_folder_holds_the_model_and_its_originals(new_trained, tmp_path, form, more):
    trained = new_trained()
    export_folder(tmp_path / "out", trained, form)
    held = tree(tmp_path / "out")
    originals = {
        "tinylm/model.safetensors",
        "tinylm/config.json",
        "tinylm/tokenizer.json",
        "tinylm/sha256.json",
    }
    assert held.keys() == FILES | originals | more
    for name, source in (
        ("model.safetensors", "models"),
        ("config.json", "models"),
        ("tokenizer.json", "data/vocab"),
    ):
        assert held[f"tinylm/{name}"] == (tmp_path / source / name).read_bytes()
    config = json.loads(held["config.json"])
    tokenizer = trained.tokenizer
    assert [config[f"{role}_token_id"] for role in ("bos", "eos", "pad")] == [
        tokenizer.sos_id,
        tokenizer.eos_id,
        tokenizer.pad_id,
    ]
    assert config["vocab_size"] == len(tokenizer)
    with safe_open(tmp_path / "out/model.safetensors", "pt") as weights:
        assert weights.metadata() == {"format": "pt"}
        assert {weights.get_tensor(name).dtype for name in weights.keys()} == {torch.float32}  # noqa: SIM118


def test_the_weights_of_our_own_format_are_ours_to_the_bit(new_trained, tmp_path):
    trained = new_trained()
    export_folder(tmp_path / "out", trained, "tinylm")
    with safe_open(tmp_path / "out/model.safetensors", "pt") as weights:
        found = {name: weights.get_tensor(name) for name in weights.keys()}  # noqa: SIM118
    expected = trained.model.state_dict()
    assert found.keys() == expected.keys()
    assert all(torch.equal(found[name], expected[name]) for name in found)


def test_an_earlier_export_is_replaced_and_leaves_nothing(new_trained, tmp_path):
    trained = new_trained()
    (tmp_path / "out").mkdir()
    export_folder(tmp_path / "out", trained, "tinylm")
    export_folder(tmp_path / "out", trained, "transformers")
    assert not (tmp_path / "out/modeling_tinylm.py").exists()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["data", "models", "out"]


def test_an_export_that_fails_leaves_the_earlier_one(new_trained, tmp_path, monkeypatch):
    trained = new_trained()
    export_folder(tmp_path / "out", trained, "tinylm")
    before = tree(tmp_path / "out")

    def fail(*_):
        raise OSError("disk full")

    monkeypatch.setattr(module, "write_originals", fail)
    with pytest.raises(OSError, match="disk full"):
        export_folder(tmp_path / "out", trained, "transformers")
    assert tree(tmp_path / "out") == before
    assert sorted(path.name for path in tmp_path.iterdir()) == ["data", "models", "out"]


def test_what_no_export_wrote_is_not_replaced(new_trained, tmp_path):
    trained = new_trained()
    mine, mixed, inside, link = (tmp_path / name for name in ("mine", "mixed", "inside", "link"))
    mine.mkdir()
    (mine / "config.json").write_text("{}")
    export_folder(mixed, trained, "transformers")
    (mixed / "README.md").write_text("mine")
    export_folder(inside, trained, "transformers")
    (inside / "tinylm/notes.txt").write_text("mine")
    link.symlink_to(mixed)
    (tmp_path / "file").write_text("mine")
    for folder, reason in [
        (mine, r"config\.json"),
        (mixed, r"README\.md"),
        (inside, r"tinylm/notes\.txt"),
        (link, "link|file"),
        (tmp_path / "file", "link|file"),
        (tmp_path / "file/export", "file"),
        (tmp_path / "models", r"config\.json"),
    ]:
        with pytest.raises(InputError, match=reason):
            export_folder(folder, trained, "transformers")
    assert (mine / "config.json").read_text() == "{}"
    assert (mixed / "README.md").read_text() == "mine"
    assert (tmp_path / "file").read_text() == "mine"


def test_the_working_folder_itself_can_be_named(new_trained, tmp_path, monkeypatch):
    trained = new_trained()
    trained = Trained(
        tmp_path / "models",
        tmp_path / "data/vocab/tokenizer.json",
        *load_parts("models", str(trained.vocab)),
    )
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    export_folder(module.Path("."), trained, "transformers")
    assert (tmp_path / "here/config.json").exists()


def test_a_model_that_no_architecture_computes_is_refused_before_anything_is_written(
    new_trained, tmp_path, capsys
):
    new_trained(norm_kind="std")
    assert main(["export", "out"]) == 2
    assert "model.norm_kind" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()
    assert main(["export", "out", "--format", "tinylm"]) == 0
    assert (tmp_path / "out/modeling_tinylm.py").exists()


@pytest.mark.parametrize(
    ("form", "settings"),
    [
        ("transformers", {}),
        ("transformers", {"norm_eps": 1e-8, "output_bias": True, "tied_output": False}),
        ("transformers", {"positions": "rotary", "width": 20, "heads": 2}),
        ("tinylm", {"norm": "post", "norm_kind": "rms", "output_bias": True}),
        ("tinylm", {"norm_kind": "std", "tied_output": False}),
    ],
)
def test_stock_transformers_loads_the_folder(new_trained, tmp_path, monkeypatch, form, settings):
    transformers = pytest.importorskip("transformers")
    monkeypatch.setattr(
        "transformers.dynamic_module_utils.HF_MODULES_CACHE", str(tmp_path / "modules")
    )
    trained = new_trained(**settings)
    export_folder(tmp_path / "out", trained, form)
    model = transformers.AutoModelForCausalLM.from_pretrained(
        tmp_path / "out", trust_remote_code=form == "tinylm", local_files_only=True
    )
    assert (
        type(model).__name__
        == json.loads((tmp_path / "out/config.json").read_text())["architectures"][0]
    )
    assert model.dtype == torch.float32
    ids = torch.randint(
        0, len(trained.tokenizer), (3, 17), generator=torch.Generator().manual_seed(5)
    )
    with torch.no_grad():
        assert torch.allclose(model(ids).logits, trained.model(ids), rtol=1e-4, atol=1e-4)
    if form == "tinylm":
        source = (tmp_path / "out/modeling_tinylm.py").read_bytes()
        used = next((tmp_path / "modules").rglob("modeling_tinylm.py"))
        assert used.read_bytes() == source
        assert sha256(used) == sha256(
            os.path.join(os.path.dirname(module.__file__), "modeling_tinylm.py")
        )


def test_the_command_prints_how_to_use_what_it_wrote(new_trained, capsys, tmp_path):
    new_trained(width=20, heads=4)
    params = parse_yaml(preset_text(BASE), BASE)
    params["decode"]["temperature_end"] = 0.3
    (tmp_path / "params.yaml").write_text(yaml.safe_dump(params))
    assert main(["export", "out\x1b[31m"]) == 0
    printed = capsys.readouterr().out
    assert "GPT2LMHeadModel" in printed
    assert "AutoModelForCausalLM" in printed
    assert "decode.temperature_end" in printed  # which generate() lacks
    assert "trust_remote_code" not in printed
    assert "\x1b" not in printed
    assert main(["export", "out", "--format", "tinylm"]) == 0
    assert "trust_remote_code=True" in capsys.readouterr().out
