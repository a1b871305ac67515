"""transformers' cache of the Python files that an export brings along."""

import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager

import pytest


@contextmanager
def own_modules() -> Iterator[None]:
    """A cache of its own, so that a test does not depend on the exports that others have read.

    transformers imports these files as a package, and Python keeps looking for its modules where
    it was first found: a folder that is gone by then.
    """
    with tempfile.TemporaryDirectory() as modules, pytest.MonkeyPatch.context() as patch:
        patch.setattr("transformers.dynamic_module_utils.HF_MODULES_CACHE", modules)
        patch.setattr(sys, "path", [*sys.path])
        forget()
        yield
        forget()


def forget() -> None:
    for name in [name for name in sys.modules if name.startswith("transformers_modules")]:
        del sys.modules[name]
