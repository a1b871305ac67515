import os
from pathlib import Path

import pytest

from tinylm.base.config import InputError
from tinylm.base.paths import output_file


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    for name in ("data/vocab", "own"):
        (tmp_path / name).mkdir(parents=True)
    for name in ("params.yaml", "own/file"):
        (tmp_path / name).touch()
    (tmp_path / "to_file").symlink_to("own/file")
    (tmp_path / "to_params").symlink_to("params.yaml")
    os.mkfifo(tmp_path / "pipe")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    "name",
    ["own", "pipe", "own/file/below", "own/../params.yaml", "to_params", "dvc.lock", "models/a"],
)
def test_what_must_not_be_written_over_is_refused(name):
    with pytest.raises(InputError, match=f"^--output {name}"):
        output_file("output", name)


def test_other_files_are_named_by_where_they_are(folder):
    assert output_file("output", "new/page.html") == folder / "new/page.html"
    assert output_file("output", "to_file") == folder / "own/file"
    Path("params.yaml").unlink()  # no folder of a pipeline any more
    assert output_file("output", "models/page.html") == folder / "models/page.html"
