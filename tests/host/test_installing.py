"""make setup is not silent: what pip says becomes a line every few seconds, and its end is shown if it fails."""

import sys

import pytest

from tinylm.host import installing
from tinylm.host.installing import Progress, run

LINES = """\
Obtaining file:///tmp/tinylm
Collecting torch==2.13.0 (from -c constraints.txt)
  Downloading torch-2.13.0-cp311.whl.metadata (29 kB)
Downloading torch-2.13.0-cp311-cp311-manylinux_2_28_x86_64.whl (190.4 MB)
  Using cached typing_extensions-4.1-py3-none-any.whl (500 kB)
Processing /opt/wheels/numpy-2.0-cp311.whl
Requirement already satisfied: pip
""".splitlines()


def test_what_pip_says_is_summed_up():
    progress = Progress()
    assert str(progress) == "at work"
    for line in LINES:
        progress.read(line)
    assert str(progress) == "3 packages found, 191 MB; at numpy"
    progress.read("Installing collected packages: torch, numpy, tinylm")
    assert str(progress) == "3 packages found, 191 MB; installing 3 packages"


@pytest.mark.parametrize("code", [0, 3])
def test_it_speaks_and_passes_the_exit_code_on(code, monkeypatch, capsys):
    monkeypatch.setattr(installing, "EVERY_S", 0.02)
    shown = (
        f"import sys, time; print('no such package', flush=True); time.sleep(0.5); sys.exit({code})"
    )
    assert run([sys.executable, "-c", shown]) == code
    said = capsys.readouterr()
    first, *_, last = said.out.splitlines()
    assert first.endswith("s: at work")
    assert last.startswith("  failed with exit code 3: " if code else "  done: ")
    assert ("no such package" in said.err) is bool(code)
