"""Repositories of the Hugging Face hub: their names, and errors of the hub's library."""

import contextlib
import re
from collections.abc import Iterator

from tinylm.base.config import InputError
from tinylm.base.printable import first_line


def split_hub(name: str) -> tuple[str, str]:
    """(OWNER/NAME, REVISION) of a repository of the Hugging Face hub."""
    repository, _, revision = name.partition("@")
    return repository, revision


def hub_problem(name: str) -> list[str]:
    """What is wrong with the value of a key `hub`, if anything."""
    if re.fullmatch(r"[^\s/@]+/[^\s/@]+@[^\s@]+", name):
        return []
    return [f"hub: expected OWNER/NAME@REVISION, got {name!r}"]


@contextlib.contextmanager
def reading_hub(keys: str, local_key: str) -> Iterator[None]:
    """Turn every error of the hub's library into an InputError that names the keys.

    keys: the settings and their values; local_key: the setting for a local copy.
    """
    try:
        yield
    except Exception as error:  # offline, no network, no such id or revision, refused
        raise InputError(
            f"{keys}: cannot be read from the hub ({first_line(error)}); check name and revision, "
            f"or set {local_key} to a local copy"
        ) from None
