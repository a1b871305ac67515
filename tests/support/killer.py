"""Run a module as `python -m` does, but die by SIGKILL before its N-th write, fsync or rename.

python -m tests.support.killer N stages.train
"""

import runpy
import sys

import pytest

from tests.faults.disk import Disk, kill

if __name__ == "__main__":
    number, module, *arguments = sys.argv[1:]
    Disk(int(number), kill).install(pytest.MonkeyPatch())
    sys.argv = ["-m", *arguments]
    runpy.run_module(module, run_name="__main__", alter_sys=True)
