import os
import sys

from tinylm.host.starting import default_signals, wrong_folder, wrong_python

default_signals()

# All of this is here, since `python -m stages.NAME` imports this file before anything slow, such as torch.
if sys.argv[0] == "-m":
    wrong = wrong_python() or wrong_folder(os.path.dirname(__file__))
    if wrong:
        print(f"error: {wrong}", file=sys.stderr)
        sys.exit(2)

from tinylm.host.command import errors_in_one_line  # noqa: E402
from tinylm.host.runtime import bound_kernel_caches, share_cores  # noqa: E402

errors_in_one_line()
share_cores()
bound_kernel_caches()
