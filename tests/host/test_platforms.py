"""The first stages on a system without what only Linux has, without a home folder and without a compiler."""

import builtins
import ctypes
import io
import os
import signal
from pathlib import Path

import pytest

from tests.support.stages import SMALL, before_training, read, run
from tinylm.cli import main
from tinylm.host.processes import end_with_parent, own_peak_mib
from tinylm.kernels.train import binding, ops

LINUX_ALONE = ("posix_fallocate", "posix_fadvise", "sched_getaffinity", "copy_file_range", "waitid")


class _OtherLibrary:
    """A C library without prctl and mallopt."""


def _be_another_unix(patch: pytest.MonkeyPatch) -> None:
    for name in LINUX_ALONE:
        patch.delattr(os, name, raising=False)
    load = ctypes.CDLL
    patch.setattr(
        ctypes, "CDLL", lambda name, *more: load(name, *more) if name else _OtherLibrary()
    )
    real_open = open

    def no_proc(file, *arguments, **options):
        if str(file).startswith("/proc/"):
            raise FileNotFoundError(2, "No such file or directory", str(file))
        return real_open(file, *arguments, **options)

    patch.setattr(builtins, "open", no_proc)
    patch.setattr(io, "open", no_proc)
    patch.setitem(SMALL["embedding"], "source", "counts")  # fastText needs glibc's malloc


@pytest.fixture(autouse=True)
def other_machine():
    """The kernels that this process has loaded are forgotten, before and after."""
    forget = (binding.library.cache_clear, ops.why_no_kernels.cache_clear)
    for each in forget:
        each()
    yield
    for each in forget:
        each()


def test_check_download_vocab_and_training_work_there(tmp_path, monkeypatch, capsys):
    _be_another_unix(monkeypatch)
    monkeypatch.setenv("HOME", "/dev/null/home")  # no folder can be made here, not even by root
    for name in ("XDG_CACHE_HOME", "XDG_CONFIG_HOME", "HF_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("CXX", "no-such-compiler")
    end_with_parent(signal.SIGCONT)
    assert own_peak_mib() > 1
    before_training(tmp_path / "run", 60.0, precision="bf16")
    monkeypatch.chdir(tmp_path / "run")
    for name in (".git", ".dvc", "inputs/vocab", "inputs/vectors"):
        Path(name).mkdir(parents=True)
    assert main(["check"]) == 0
    assert run("train") == 0
    assert read(Path("metrics/train.json"))["val_loss"] < 3
    assert "kernels: torch's" in capsys.readouterr().out
