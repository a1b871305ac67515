import importlib.util
import sys

if importlib.util.find_spec("torch") is None:  # before any import of ours, which would fail with a traceback
    sys.exit(
        f"error: {sys.executable} lacks tinylm's packages: activate the environment that has them "
        "(make setup; source .venv/bin/activate)"
    )

from tinylm.host.command import default_signals
from tinylm.host.runtime import bound_kernel_caches, share_cores

default_signals()
# Here, since `python -m stages.NAME` imports this file before anything imports torch.
share_cores()
bound_kernel_caches()
