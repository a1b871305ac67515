import io
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from tinylm.base.config import InputError
from tinylm.base.machine import pick_device
from tinylm.base.printable import visible
from tinylm.host.runtime import Progress, conditions, duration


def test_device_auto_falls_back_to_cpu(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert pick_device("auto").type == pick_device("cpu").type == "cpu"
    with pytest.raises(InputError, match=r"runtime\.device = 'cuda'; allowed here: auto \| cpu"):
        pick_device("cuda")


def test_device_auto_takes_the_card_where_there_is_one(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    assert pick_device("auto").type == pick_device("cuda").type == "cuda"
    assert pick_device("cpu").type == "cpu"


def test_conditions_name_what_a_timing_was_taken_on():
    found = conditions(torch.device("cpu"), 3)
    assert found["threads"] == 3
    assert found["device"] == "cpu"
    assert found["torch"] == torch.__version__
    assert found["cores"] >= 1


def test_progress_prints_plain_lines_where_output_is_no_terminal(capsys):
    with Progress("work", 200, "units", every_s=1e-9) as progress:
        progress.advance(50, "loss 2.0")
        progress.write("note")
        progress.advance(100)
        progress.advance(55)
    assert capsys.readouterr().out.splitlines() == [
        "work:  25% of 200 units, loss 2.0",
        "note",
        "work:  75% of 200 units, 0 s left",
        "work: 100% of 200 units, 0 s left",  # and never more than all
    ]


def test_progress_is_quiet_between_lines(capsys):
    with Progress("work", 10, "units", every_s=1000.0) as progress:
        progress.advance(5)
    assert capsys.readouterr().out == ""


def test_time_left_is_not_judged_by_the_setting_up(monkeypatch, capsys):
    """A minute of compiling before the first story said nothing about the other 9,900."""
    now = [100.0]
    monkeypatch.setattr("time.monotonic", lambda: now[0])
    with Progress("stories", 10000, "stories", every_s=5.0) as progress:
        for seconds, amount in ((60.0, 100), (5.0, 100), (5.0, 100)):
            now[0] += seconds
            progress.advance(amount)
    assert capsys.readouterr().out.splitlines() == [
        "stories:   1% of 10,000 stories",
        "stories:   2% of 10,000 stories, 8 min left",
        "stories:   3% of 10,000 stories, 8 min left",
    ]


@pytest.mark.parametrize(
    ("seconds", "said"), [(0.4, "0 s"), (99, "99 s"), (150, "2 min"), (7899, "2 h 12 min")]
)
def test_a_duration_is_said_as_a_person_would(seconds, said):
    assert duration(seconds) == said


@pytest.mark.parametrize("wish", [None, "77"])
def test_stages_share_the_cores_and_bound_the_caches_before_torch_is_loaded(wish):
    defaults = {
        "GOMP_SPINCOUNT": "1000",
        "ONEDNN_PRIMITIVE_CACHE_CAPACITY": "64",
        "LRU_CACHE_CAPACITY": "64",
    }
    code = f"import os, sys, stages; print(*[os.environ[name] for name in {list(defaults)}], 'torch' in sys.modules)"
    environment = {name: value for name, value in os.environ.items() if name not in defaults}
    if wish:
        environment |= dict.fromkeys(defaults, wish)  # the user's own word stands
    shown = subprocess.run(
        [sys.executable, "-c", code],
        env=environment,
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
    )
    assert shown.stdout.split() == [wish or value for value in defaults.values()] + ["False"]


def test_what_a_terminal_would_obey_is_spelt_out():
    text = "a\x1b[2J\u202eb\u200d\x07\x9b\r\u2028\udc80"
    expected = "a⟨U+001B⟩[2J⟨U+202E⟩b⟨U+200D⟩⟨U+0007⟩⟨U+009B⟩⟨U+000D⟩⟨U+2028⟩⟨U+DC80⟩"
    assert visible(text) == "".join(map(visible, text)) == expected
    assert visible("one\ntwo\tthree é 日 \ufffd") == "one\ntwo three é 日 \ufffd"


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_terminal_gets_a_bar_with_its_notes(monkeypatch):
    monkeypatch.setattr(sys, "stderr", Terminal())
    with Progress("reading", 40, "stories") as progress:
        progress.resume(10)
        progress.advance(10, "loss 3.2")
        assert (progress.bar.n, progress.bar.total, progress.bar.postfix) == (20, 40, "loss 3.2")
        progress.write("a line")
    assert "reading" in sys.stderr.getvalue()


def test_elsewhere_a_line_comes_every_few_seconds(monkeypatch, capsys):
    now = [100.0]
    monkeypatch.setattr("time.monotonic", lambda: now[0])
    with Progress("reading", 4000, "stories", every_s=5.0) as progress:
        assert progress.bar is None
        progress.resume(1000)
        for seconds, amount, note in (
            (4.9, 500, ""),
            (0.1, 500, "loss 3.2"),
            (1.0, 500, ""),
            (4.0, 500, ""),
        ):
            now[0] += seconds
            progress.advance(amount, note)
        progress.write("a line")
    assert capsys.readouterr().out.splitlines() == [
        "reading:  50% of 4,000 stories, loss 3.2",
        "reading:  75% of 4,000 stories, 3 s left",
        "a line",
    ]
