from tinylm.command import default_signals
from tinylm.runtime import share_cores

default_signals()
share_cores()  # here, since `python -m stages.NAME` comes by before anything imports torch
