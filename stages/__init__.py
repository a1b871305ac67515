from tinylm.host.command import default_signals
from tinylm.host.runtime import bound_kernel_caches, share_cores

default_signals()
# Here, since `python -m stages.NAME` imports this file before anything imports torch.
share_cores()
bound_kernel_caches()
