from tinylm.runtime import share_cores

share_cores()  # here, since `python -m stages.NAME` comes by before anything imports torch
