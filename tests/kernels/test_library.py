import dataclasses

import pytest

from tinylm.kernels.library import CannotCompile, Library, compiler

NONE = "(no C++ compiler found (c++, g++, clang++ or the environment's CXX))\n"
SOURCE = 'extern "C" int seven() { return SEVEN; }\n'


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


@pytest.fixture
def library(tmp_path):
    (tmp_path / "a.cpp").write_text(SOURCE)
    return Library("a", (tmp_path / "a.cpp",), tries=(("-DSEVEN=none",), ("-DSEVEN=7",)))


@pytest.mark.skipif(compiler() is None, reason="no C++ compiler")
def test_the_first_flags_that_work_are_taken_and_the_library_is_kept(
    library, monkeypatch, tmp_path
):
    assert not library.is_compiled()
    assert library.is_at_hand()
    assert library.load().seven() == 7
    old = library.path()
    (tmp_path / "a.cpp").write_text(SOURCE.replace("SEVEN;", "SEVEN + 0;"))
    assert library.path() != old
    assert not library.is_compiled()


@pytest.mark.skipif(compiler() is None, reason="no C++ compiler")
def test_a_damaged_library_is_compiled_anew_and_never_loaded(library):
    path = library.compile()
    whole = path.read_bytes()
    for damaged in (whole[:4096], whole[:2000] + b"x" * 9 + whole[2009:], b""):
        path.write_bytes(damaged)
        assert not library.is_compiled()
    assert library.compile() == path
    assert library.load().seven() == 7


@pytest.mark.parametrize("changed", [{"flags": ("-O0",)}, {"tries": (("-DSEVEN=8",),)}])
def test_other_flags_are_another_library(library, changed):
    assert dataclasses.replace(library, **changed).path() != library.path()


def test_without_a_compiler_one_line_says_so(library, monkeypatch, capsys):
    monkeypatch.setenv("CXX", "no-such-compiler")
    assert not library.is_at_hand()
    assert capsys.readouterr().out == ("a: the slower path without compiled code " + NONE)
    with pytest.raises(CannotCompile):
        library.load()


@pytest.mark.skipif(compiler() is None, reason="no C++ compiler")
def test_what_the_compiler_says_is_one_line(tmp_path, capsys):
    (tmp_path / "b.cpp").write_text("int main( {}\n")
    assert not Library("b", (tmp_path / "b.cpp",)).is_at_hand()
    (line,) = capsys.readouterr().out.splitlines()
    assert "error" in line
