"""The report of a run."""

import os
from importlib.util import find_spec

# A notebook hands its kernel's backend to every command. Where this environment lacks its module,
# matplotlib cannot be imported; pictures go to files, which needs no backend.
_backend = os.environ.get("MPLBACKEND", "")
if _backend.startswith("module://"):
    _package = _backend.removeprefix("module://").partition(".")[0]
    if find_spec(_package) is None:
        del os.environ["MPLBACKEND"]
