import os
import sys

from tinylm.host.starting import wrong_folder, wrong_python

# All of this is here, since `python -m stages.NAME` imports this file before anything slow, such as torch.
if sys.argv[0] == "-m":
    wrong = wrong_python() or wrong_folder(os.path.dirname(__file__))
    if wrong:
        print(f"error: {wrong}", file=sys.stderr)
        sys.exit(2)

from tinylm.host.command import default_signals, errors_in_one_line
from tinylm.host.runtime import bound_kernel_caches, share_cores

default_signals()
errors_in_one_line()
share_cores()
bound_kernel_caches()
