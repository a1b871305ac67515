"""What dead processes leave."""

import os
import subprocess
import sys

from tinylm.processes import is_alive, sweep


def test_a_killed_process_that_nobody_reaped_is_dead(tmp_path):
    other = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    assert is_alive(other.pid)
    left = tmp_path / f".model.json.{other.pid}.tmp"
    left.touch()
    sweep(tmp_path)
    assert left.exists()  # its writer is at work
    other.kill()
    os.waitid(os.P_PID, other.pid, os.WEXITED | os.WNOWAIT)  # dead, and not yet reaped
    assert not is_alive(other.pid)
    sweep(tmp_path)
    assert not left.exists()
    other.communicate()


def test_a_number_that_no_process_can_have():
    assert not is_alive(-1)
    assert not is_alive(1 << 80)


def test_other_files_stay(tmp_path):
    names = ["model.json", ".model.json.tmp", ".hidden", f".model.json.{os.getpid()}.tmp"]
    for name in names:
        (tmp_path / name).touch()
    sweep(tmp_path)
    assert sorted(names) == sorted(path.name for path in tmp_path.iterdir())
