from tinylm.command import default_signals
from tinylm.runtime import bound_kernel_caches, share_cores

default_signals()
# Here, since `python -m stages.NAME` comes by before anything imports torch.
share_cores()
bound_kernel_caches()
