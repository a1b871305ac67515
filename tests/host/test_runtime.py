"""Device, conditions of a timing, progress, and what is set before slow imports."""

import subprocess
import sys
from pathlib import Path

import pytest
import torch

from tinylm.base.config import InputError
from tinylm.base.machine import pick_device
from tinylm.base.printable import visible

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize(("available", "auto"), [(False, "cpu"), (True, "cuda")])
def test_device_auto_is_the_card_if_there_is_one(monkeypatch, available, auto):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: available)
    assert pick_device("auto").type == auto
    assert pick_device("cpu").type == "cpu"
    if not available:
        with pytest.raises(InputError, match=r"runtime\.device"):
            pick_device("cuda")


def test_a_python_without_torch_is_one_line_and_exit_code_2():
    code = "import importlib.util as u; u.find_spec = lambda name: None; import stages"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 2
    assert "source .venv/bin/activate" in done.stderr
    assert "Traceback" not in done.stderr


def test_characters_that_a_terminal_would_obey_are_spelt_out():
    text = "a\x1b[2J\u202eb\u200b\x07\x9b\r\u2028\udc80"
    expected = "a⟨U+001B⟩[2J⟨U+202E⟩b⟨U+200B⟩⟨U+0007⟩⟨U+009B⟩⟨U+000D⟩⟨U+2028⟩⟨U+DC80⟩"
    assert visible(text) == "".join(map(visible, text)) == expected
    assert visible("one\ntwo\tthree é 日 \ufffd") == "one\ntwo three é 日 \ufffd"
    assert visible("می\u200cخ 👨\u200d👩") == "می\u200cخ 👨\u200d👩"  # joiners are part of words
