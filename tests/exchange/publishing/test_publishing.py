"""The folder of a publication: complete, the same bytes twice, and never half there."""

import pytest

from tinylm.base.config import InputError
from tinylm.exchange.hub import check_repo, files_of
from tinylm.exchange.publication import Origin, Publication, data_licence
from tinylm.exchange.publishing import build
from tinylm.report.sources import Run

LOSS = [
    {"step": str(n), "tokens": str(100 * n), "series": "train", "value": str(9 - n)}
    for n in range(1, 5)
]


@pytest.fixture
def root(tmp_path):
    """What a pipeline left."""
    made = tmp_path / "run"
    contents = {
        "params.yaml": "data: {}\n", "dvc.lock": "schema: '2.0'\n", "data/figures/train.json": "{}\n",
        "metrics/train_time.json": "{}\n", "plots/loss.csv": "step\n", "report/index.html": "<p>",
        "report/report.pdf": "%PDF"
    }  # fmt: skip
    for name, text in contents.items():
        (made / name).parent.mkdir(parents=True, exist_ok=True)
        (made / name).write_text(text)
    return made


@pytest.fixture
def run(params) -> Run:
    return Run(
        params,
        {"train": {"parameters": 1234, "tokens": 400}, "train_time": {"seconds": 3}, "loss": LOSS},
        {},
    )


@pytest.fixture
def publication(params) -> Publication:
    origin = Origin("0123456789ab", "c0ffee.dir", ())
    return Publication(
        "me/stories", "transformers", None, data_licence(params["data"], None), origin, True, (), ()
    )


def export(folder):
    (folder / "config.json").write_text("{}")
    (folder / "model.safetensors").write_bytes(b"weights")


def contents(folder):
    return {name: (folder / name).read_bytes() for name in files_of(folder)}


def test_everything_is_there(tmp_path, root, run, publication):
    folder = tmp_path / "exports/me/stories"
    files = build(folder, run, publication, export, root)
    assert files == [
        "README.md", "config.json", "model.safetensors", "pictures/loss.png", "pipeline/data/figures/train.json",
        "pipeline/dvc.lock", "pipeline/params.yaml", "pipeline/plots/loss.csv", "report/index.html",
        "report/report.pdf"
    ]  # fmt: skip
    assert files == files_of(folder)
    (root / "report/lab.html").write_text("the model")
    assert "report/lab.html" in build(folder, run, publication, export, root)
    assert (folder / "pictures/loss.png").read_bytes().startswith(b"\x89PNG")
    for name in ("params.yaml", "dvc.lock", "data/figures/train.json", "plots/loss.csv"):
        assert (folder / "pipeline" / name).read_bytes() == (root / name).read_bytes()
    assert "](pictures/loss.png" in (folder / "README.md").read_text("utf-8")


def test_twice_the_same_bytes(tmp_path, root, run, publication):
    for name in ("a", "b"):
        build(tmp_path / name, run, publication, export, root)
    assert contents(tmp_path / "a") == contents(tmp_path / "b")


def test_without_a_report_and_without_a_curve(tmp_path, root, run, publication):
    del run.found["loss"]
    files = build(
        tmp_path / "a", run, Publication(**(vars(publication) | {"report": False})), export, root
    )
    assert not [name for name in files if name.startswith(("report/", "pictures/"))]
    assert "![" not in (tmp_path / "a/README.md").read_text("utf-8")


def test_an_earlier_publication_is_replaced_whole(tmp_path, root, run, publication):
    folder = tmp_path / "a"
    build(
        folder, run, publication, lambda new: (new / "modeling_tinylm.py").write_text("old"), root
    )
    files = build(folder, run, publication, export, root)
    assert "modeling_tinylm.py" not in files
    assert [path.name for path in tmp_path.iterdir() if path.name != "run"] == ["a"]


def test_a_failure_leaves_the_earlier_one(tmp_path, root, run, publication):
    folder = tmp_path / "a"
    build(folder, run, publication, export, root)
    before = contents(folder)

    def failing(new):
        (new / "config.json").write_text("half")
        raise InputError("no")

    with pytest.raises(InputError, match="no"):
        build(folder, run, publication, failing, root)
    assert contents(folder) == before
    assert [path.name for path in tmp_path.iterdir() if path.name != "run"] == ["a"]


def test_a_folder_of_somebody_else_is_refused(tmp_path, root, run, publication):
    (tmp_path / "a").mkdir()
    build(tmp_path / "a", run, publication, export, root)  # an empty one is nobody's
    (tmp_path / "b").mkdir()
    (tmp_path / "b/thesis.tex").write_text("x")
    (tmp_path / "c").write_text("a file")
    for name in ("b", "c"):
        with pytest.raises(InputError, match=f"{name} is there"):
            build(tmp_path / name, run, publication, export, root)
    assert files_of(tmp_path / "b") == ["thesis.tex"]


@pytest.mark.parametrize("repo", ["me/stories", "a/b", "My-Group/tiny_stories-2m.v1", "0x/_x"])
def test_names_of_repositories(repo):
    from huggingface_hub.utils import validate_repo_id

    check_repo(repo)
    validate_repo_id(repo)


NO_NAMES = [
    "stories",
    "",
    "a/b/c",
    "../x",
    "me/..",
    "me/../x",
    "me/a--b",
    "me/a.git",
    "me/a b",
    "/x",
    "me/",
    "me/x.",
]
ODD_NAMES = [
    "https://huggingface.co/me/x", "me/ä", "me/" + "x" * 97, "me\n/x", "me/x\n", "-me/x", ".me/x", "me/.x", "me/-x"
]  # fmt: skip


@pytest.mark.parametrize("repo", [*NO_NAMES, *ODD_NAMES])
def test_what_is_no_name_of_a_repository(repo):
    with pytest.raises(InputError, match="OWNER/NAME"):
        check_repo(repo)
