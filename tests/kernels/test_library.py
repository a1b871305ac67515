import pytest

from tests.support.small import needs_compiler
from tinylm.kernels.library import CannotCompile, Library

SOURCE = 'extern "C" int seven() { return SEVEN; }\n'


@pytest.fixture
def library(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    (tmp_path / "a.cpp").write_text(SOURCE)
    return Library("a", (tmp_path / "a.cpp",), tries=(("-DSEVEN=none",), ("-DSEVEN=7",)))


@needs_compiler
def test_the_first_flags_that_work_are_taken_and_another_source_is_another_library(
    library, tmp_path
):
    assert library.load().seven() == 7
    old = library.path()
    (tmp_path / "a.cpp").write_text(SOURCE.replace("SEVEN;", "SEVEN + 0;"))
    assert library.path() != old
    assert library.load().seven() == 7


@needs_compiler
def test_without_a_compiler_nothing_is_loaded(library, monkeypatch):
    monkeypatch.setenv("CXX", "no-such-compiler")
    with pytest.raises(CannotCompile):
        library.load()
