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
    assert not library.is_compiled()
    assert library.load().seven() == 7
    old = library.path()
    (tmp_path / "a.cpp").write_text(SOURCE.replace("SEVEN;", "SEVEN + 0;"))
    assert library.path() != old
    assert not library.is_compiled()


@needs_compiler
def test_a_damaged_library_is_compiled_anew_and_never_loaded(library):
    path = library.compile()
    path.write_bytes(path.read_bytes()[:4096])
    assert not library.is_compiled()
    assert library.load().seven() == 7


def test_without_a_compiler_one_line_names_the_slower_path(library, monkeypatch, capsys):
    monkeypatch.setenv("CXX", "no-such-compiler")
    assert not library.is_at_hand()
    assert len(capsys.readouterr().out.splitlines()) == 1
    with pytest.raises(CannotCompile):
        library.load()
