"""Peak memory of this process and its workers."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
CHILD = "from tinylm.host.processes import own_peak_mib; print(own_peak_mib())"


def test_the_size_of_a_process_is_its_own():
    """getrusage's begins with that of the process which started this one."""
    weight = b"x" * 300_000_000
    child = subprocess.run(
        [sys.executable, "-c", CHILD], capture_output=True, text=True, check=True, cwd=ROOT
    )
    assert 5 < float(child.stdout) < 200
    del weight
