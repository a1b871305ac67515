"""Two hosts, as far as the kernel can make them on one machine."""

import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).with_name("two_hosts.py")


def test_two_hosts_compute_what_one_process_does():
    try:
        able = (
            subprocess.run(
                ["unshare", "-rnu", "ip", "link", "set", "lo", "up"], capture_output=True
            ).returncode
            == 0
        )
    except FileNotFoundError:
        able = False
    if not able:
        pytest.skip("no namespaces here: unshare, ip")
    done = subprocess.run(
        [sys.executable, str(SCRIPT), "--short"], capture_output=True, text=True, timeout=240
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "two hosts against one process: weights differ by at most" in done.stdout
    assert "; 2 processes, " in done.stdout
