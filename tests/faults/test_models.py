"""Rows 33 to 39: vectors, weights and vocabularies that a user gives; none can crash, hang, lie or run code."""

import ast
import gzip
import io
import json
import pickle
import struct
import tarfile
import zipfile
from pathlib import Path

import numpy as np
import pytest
import torch

from tests.fuzz.seeds import PARTS, WIDTH, WORDS, make_seeds
from tests.support.stages import ORDER, plant, run, small_params
from tinylm.base.config import InputError
from tinylm.base.files import read_json, sha256, write_json
from tinylm.download.splits import write_stories
from tinylm.download.stories import DataSettings
from tinylm.embedding.source import check_vectors, read_vectors
from tinylm.exchange.originals import verified
from tinylm.model.checkpoint import load_model
from tinylm.train.snapshot import Snapshots
from tinylm.vocab.gpt2_files import read_local
from tinylm.vocab.matrix_file import load_matrix
from tinylm.vocab.tokenizer import open_tokenizer

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def seeds(tmp_path_factory):
    return make_seeds(tmp_path_factory.mktemp("seeds"))


def write(folder: Path, files: dict[str, bytes]) -> Path:
    for name, content in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)
    return folder


def refusal(path: Path, width: int = WIDTH, words: list[str] = WORDS) -> str:
    """The one line with which a file of vectors is refused."""
    with pytest.raises(InputError) as found:
        read_vectors(path, words, width)
    assert "\n" not in str(found.value)
    assert str(path) in str(found.value)
    return str(found.value)


def test_fault_35_widths_and_coverage_are_told(tmp_path, seeds, monkeypatch, capsys):
    (tmp_path / "a.vec").write_text("2 3\nzebra 1 2 3\nyak 1 2 3\n")
    with pytest.raises(InputError, match=r"a.vec, line 1: vectors of width 3; embedding.width = 6"):
        check_vectors(tmp_path / "a.vec", WIDTH)
    assert "has none of the vocabulary's 11 words" in refusal(tmp_path / "a.vec", 3)
    monkeypatch.chdir(tmp_path)
    params = small_params()
    params["embedding"] |= {"source": "file", "path": "b.vec", "width": 3}
    plant(tmp_path, params)
    Path("b.vec").write_text("2 3\nthe 1 2 3\nyak 1 2 3\n")
    assert [run(command) for command in ORDER[:2]] == [0, 0]
    assert "of 23 words, 1 have a vector (4.3%)" in capsys.readouterr().out


def safetensors(header: dict | bytes, data: bytes = b"", size: int | None = None) -> bytes:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(text) if size is None else size) + text + data


def tensor(shape, start, end, kind="F32") -> dict:
    return {"dtype": kind, "shape": shape, "data_offsets": [start, end]}


FLOATS = np.arange(4, dtype="<f4").tobytes()
LIES = {
    "header of 2^63 bytes": safetensors({"embedding": tensor([2, 2], 0, 16)}, FLOATS, 1 << 63),
    "overlap": safetensors({"embedding": tensor([2, 2], 0, 16), "b": tensor([2], 8, 16)}, FLOATS),
    "shape that lies": safetensors({"embedding": tensor([2, 200], 0, 16)}, FLOATS),
    "shape past every number": safetensors({"embedding": tensor([2**62, 2**62], 0, 16)}, FLOATS),
    "duplicate key": safetensors(
        b'{"embedding":{"dtype":"F32","shape":[1,2],"data_offsets":[0,8]},'
        b'"embedding":{"dtype":"F32","shape":[1,2],"data_offsets":[8,16]}}',
        FLOATS,
    ),
    "extra tensor": safetensors(
        {"embedding": tensor([1, 2], 0, 8), "b": tensor([2], 8, 16)}, FLOATS
    ),
    "missing tensor": safetensors({"b": tensor([2, 2], 0, 16)}, FLOATS),
    "fp16": safetensors({"embedding": tensor([2, 4], 0, 16, "F16")}, FLOATS),
    "nan": safetensors({"embedding": tensor([2, 2], 0, 16)}, np.full(4, np.nan, "<f4").tobytes()),
    "nested header": safetensors(b'{"a":' * 100_000),
    "nothing": b"",
}


@pytest.mark.parametrize("lie", LIES)
def test_fault_36_safetensors_that_lie_are_refused_by_name(tmp_path, seeds, lie):
    path = tmp_path / "embedding.safetensors"
    path.write_bytes(LIES[lie])
    with pytest.raises(InputError, match=r"embedding\.safetensors: [^\n]*$"):
        load_matrix(path)
    folder = write(tmp_path / "run", seeds["model"][0])
    sign_model(folder, LIES[lie])
    with pytest.raises(InputError, match=r"model\.safetensors: not the weights of [^\n]*$"):
        load_model(folder)


def sign_model(folder: Path, content: bytes) -> None:
    """Other weights under their right checksum."""
    (folder / "model.safetensors").write_bytes(content)
    config = json.loads((folder / "config.json").read_text())
    config["sha256"] = sha256(folder / "model.safetensors")
    (folder / "config.json").write_text(json.dumps(config))


class _Malice:
    def __init__(self, canary: str):
        self.canary = canary

    def __reduce__(self):
        return Path.touch, (Path(self.canary),)


def pickles(canary: Path) -> dict[str, bytes]:
    """The same pickle bare, in torch's zip and in its old tar-like form."""
    zipped, legacy, tarred = io.BytesIO(), io.BytesIO(), io.BytesIO()
    torch.save(_Malice(str(canary)), zipped)
    torch.save(_Malice(str(canary)), legacy, _use_new_zipfile_serialization=False)
    bare = pickle.dumps(_Malice(str(canary)))
    with tarfile.open(fileobj=tarred, mode="w") as archive:
        member = tarfile.TarInfo("pickle")
        member.size = len(bare)
        archive.addfile(member, io.BytesIO(bare))
    return {
        "bare": bare,
        "zip": zipped.getvalue(),
        "legacy": legacy.getvalue(),
        "tar": tarred.getvalue(),
    }


@pytest.mark.parametrize("form", ["bare", "zip", "legacy", "tar"])
def test_fault_37_a_pickle_is_never_unpickled(tmp_path, seeds, form, capsys):
    canary = tmp_path / "canary"
    content = pickles(canary)[form]
    folder = write(tmp_path / "run", seeds["model"][0])
    sign_model(folder, content)
    with pytest.raises(InputError, match=r"model\.safetensors: not the weights"):
        load_model(folder)
    for name, reader in (
        ("embedding.safetensors", load_matrix),
        ("tokenizer.json", open_tokenizer),
    ):
        (tmp_path / name).write_bytes(content)
        with pytest.raises(InputError, match=name):
            reader(tmp_path / name)
    kept = write(tmp_path / "snapshots", seeds["snapshot"][0])
    for path in kept.rglob("[0-9]*.safetensors"):
        path.write_bytes(content)
        numbers = read_json(path.with_suffix(".json"))
        write_json(path.with_suffix(".json"), numbers | {"sha256": sha256(path)}, sealed=True)
    assert Snapshots(kept, PARTS, 1.0).latest() is None
    assert "not a snapshot" in capsys.readouterr().out
    assert not canary.exists()
    torch.load(io.BytesIO(pickles(canary)["zip"]), weights_only=False)  # the canary works
    assert canary.exists()


def test_fault_37_no_source_of_ours_unpickles():
    for path in [*ROOT.glob("tinylm/**/*.py"), *ROOT.glob("stages/*.py")]:
        tree = ast.parse(path.read_text(encoding="utf-8"))
        for node in ast.walk(tree):
            names = (
                [alias.name for alias in getattr(node, "names", [])]
                if "Import" in type(node).__name__
                else []
            )
            assert not {name.partition(".")[0] for name in names} & {
                "pickle",
                "dill",
                "joblib",
                "shelve",
                "marshal",
            }
            if isinstance(node, ast.Call):
                called = ast.unparse(node.func)
                assert called not in (
                    "torch.load",
                    "pandas.read_pickle",
                    "pd.read_pickle",
                    "eval",
                    "exec",
                ), path
                assert "allow_pickle=True" not in map(ast.unparse, node.keywords), path


IDS = {
    "equal ids": '{"a": 0, "b": 0, "<|endoftext|>": 1}', "a gap": '{"a": 0, "b": 2, "<|endoftext|>": 3}',
    "huge": '{"a": 0, "b": 9223372036854775808, "<|endoftext|>": 1}', "nested": "[" * 100_000, "no object": "[]",
    "a word for an id": '{"a": "0"}', "true for an id": '{"a": false, "<|endoftext|>": true}',
    "equal keys": '{"a": 0, "a": 1, "<|endoftext|>": 2}'
}  # fmt: skip


@pytest.mark.parametrize("fault", IDS)
def test_fault_38_a_vocabulary_that_is_none_is_refused(tmp_path, seeds, fault):
    (tmp_path / "vocab.json").write_text(IDS[fault])
    (tmp_path / "merges.txt").write_text("")
    with pytest.raises(InputError, match=r"vocab\.json: [^\n]{1,300}$"):
        read_local(tmp_path)
    content = json.loads(seeds["tokenizer"][0]["tokenizer.json"])
    text = json.dumps(content).replace(json.dumps(content["model"]["vocab"]), IDS[fault])
    (tmp_path / "tokenizer.json").write_text(text)
    with pytest.raises(InputError, match=r"tokenizer\.json: [^\n]{1,300}$"):
        open_tokenizer(tmp_path / "tokenizer.json")


@pytest.mark.parametrize("suffix", ["zip", "tar.gz", "tar"])
def test_fault_39_archives_are_not_read_at_all(tmp_path, suffix):
    path = tmp_path / f"a.{suffix}"
    if suffix == "zip":
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr("../outside.txt", "x")
            archive.writestr("bomb.jsonl", "0" * 10**7, zipfile.ZIP_DEFLATED)
    else:
        with tarfile.open(path, f"w:{'gz' if suffix.endswith('gz') else ''}") as archive:
            archive.addfile(tarfile.TarInfo("/tmp/outside"), io.BytesIO())
    settings = DataSettings(source="local", path=str(path))
    with pytest.raises(InputError, match=r"not a supported format; allowed: \.parquet, "):
        write_stories(settings, tmp_path / "stories")
    assert "not a supported format of vectors" in refusal(path)
    with pytest.raises(InputError, match="not an export"):
        verified(path)
    assert sorted(tmp_path.iterdir()) in ([path], [path, tmp_path / "stories"])
    assert not (tmp_path.parent / "outside.txt").exists()


def test_fault_39_a_bomb_in_gzip_is_bounded_by_the_size_of_a_story(tmp_path, monkeypatch):
    from tinylm.download import readers

    monkeypatch.setattr(readers, "MAX_STORY_BYTES", 10**5)
    (tmp_path / "a.jsonl.gz").write_bytes(gzip.compress(b'{"text": "' + b"0" * 10**7 + b'"}\n'))
    with pytest.raises(InputError, match="line 1: longer than 100000 bytes"):
        list(readers.read_file(tmp_path / "a.jsonl.gz", "text"))
