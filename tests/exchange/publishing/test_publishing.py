"""The folder of a publication: complete, the same bytes twice, never half there; its licences."""

import pytest

from tinylm.base.config import InputError
from tinylm.exchange.card import Origin, Publication, data_licence
from tinylm.exchange.publish import build, check_repo, files_of
from tinylm.report.sources import Run

LOSS = [
    {"step": str(n), "tokens": str(100 * n), "series": "train", "value": str(9 - n)}
    for n in range(1, 5)
]
CONTENTS = {
    "params.yaml": "data: {}\n",
    "dvc.lock": "schema: '2.0'\n",
    "data/figures/train.json": "{}\n",
    "metrics/train_time.json": "{}\n",
    "plots/loss.csv": "step\n",
    "report/index.html": "<p>",
    "report/report.pdf": "%PDF",
}
HUB = {"source": "hub", "hub_id": "roneneldan/TinyStories", "hub_revision": "abc", "path": ""}


@pytest.fixture
def root(tmp_path, monkeypatch):
    """What a pipeline left; the working folder."""
    folder = tmp_path / "run"
    for name, text in CONTENTS.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    monkeypatch.chdir(folder)
    return folder


@pytest.fixture
def run(params) -> Run:
    train = {"parameters": 1234, "tokens": 400}
    return Run(params, {"train": train, "train_time": {"seconds": 3}, "loss": LOSS}, {})


@pytest.fixture
def publication(params) -> Publication:
    origin = Origin("0123456789ab", "c0ffee.dir", ())
    data = data_licence(params["data"], None)
    return Publication("me/stories", "transformers", None, data, origin, True, (), ())


def export(folder):
    (folder / "config.json").write_text("{}")


def contents(folder):
    return {name: (folder / name).read_bytes() for name in files_of(folder)}


def test_everything_is_there_twice_with_the_same_bytes(tmp_path, root, run, publication):
    (root / "report/lab.html").write_text("the model")
    build(tmp_path / "a", run, publication, export)
    build(tmp_path / "b", run, publication, export)
    files = contents(tmp_path / "a")
    assert files == contents(tmp_path / "b")
    assert files.pop("README.md")
    assert files.pop("pictures/loss.png").startswith(b"\x89PNG")
    pipeline = ("params.yaml", "dvc.lock", "data/figures/train.json", "plots/loss.csv")
    expected = {f"pipeline/{name}": CONTENTS[name].encode() for name in pipeline}
    expected |= {name: text.encode() for name, text in CONTENTS.items() if "report/" in name}
    assert files == expected | {"config.json": b"{}", "report/lab.html": b"the model"}


def test_an_earlier_publication_is_replaced_whole_or_not_at_all(tmp_path, root, run, publication):
    folder = tmp_path / "a"
    folder.mkdir()

    def old(new):
        (new / "modeling_tinylm.py").write_text("old")

    def failing(new):
        (new / "config.json").write_text("half")
        raise InputError("no")

    build(folder, run, publication, old)
    assert "modeling_tinylm.py" not in build(folder, run, publication, export)
    before = contents(folder)
    with pytest.raises(InputError, match="no"):
        build(folder, run, publication, failing)
    assert contents(folder) == before
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a", "run"]


def test_a_folder_of_somebody_else_is_refused(tmp_path, root, run, publication):
    (tmp_path / "b").mkdir()
    (tmp_path / "b/thesis.tex").write_text("x")
    with pytest.raises(InputError, match="b is there"):
        build(tmp_path / "b", run, publication, export)
    assert files_of(tmp_path / "b") == ["thesis.tex"]


@pytest.mark.parametrize("repo", ["me/stories", "My-Group/tiny_stories-2m.v1", "0x/_x"])
def test_names_of_repositories(repo):
    check_repo(repo)


@pytest.mark.parametrize(
    "repo", ["stories", "a/b/c", "../x", "me/a--b", "me/a.git", "me/ä", "me/" + "x" * 97, "me/x\n"]
)
def test_what_is_no_name_of_a_repository(repo):
    with pytest.raises(InputError, match="OWNER/NAME"):
        check_repo(repo)


def test_the_licence_of_the_data_is_known_or_given(params):
    local = {"source": "local", "path": "/home/me/stories"}
    assert data_licence(params["data"], None).name == "mit"
    assert data_licence(params["data"], "cc0-1.0").name == "cc0-1.0"
    assert data_licence(HUB, None).name == "cdla-sharing-1.0"
    assert data_licence(HUB | {"hub_id": "someone/else"}, None).name is None
    assert data_licence(local, None).name is None
    assert "/home" not in data_licence(local, "cc0-1.0").data
