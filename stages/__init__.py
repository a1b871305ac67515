from tinylm.host.starting import default_signals

default_signals()

from tinylm.host.runtime import bound_kernel_caches, share_cores  # noqa: E402

# Here, since `python -m stages.NAME` imports this file before anything imports torch.
share_cores()
bound_kernel_caches()
