"""A laboratory for small language models: `lm = tinylm.load("models")`, then `lm.generate("once upon a time")`."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tinylm.api.language_model import LanguageModel, load
    from tinylm.api.results import Attention, NextWord, NextWords, Text

_FROM = {
    "LanguageModel": "language_model",
    "load": "language_model",
    "Attention": "results",
    "NextWord": "results",
    "NextWords": "results",
    "Text": "results",
}
__all__ = ["Attention", "LanguageModel", "NextWord", "NextWords", "Text", "__version__", "load"]


def __getattr__(name: str) -> Any:
    """PEP 562: each name is imported when it is first used, so that a stage does not import what it does not need."""
    import importlib

    if name == "__version__":
        from importlib.metadata import version

        return version("tinylm")
    if name in _FROM:
        return getattr(importlib.import_module(f"tinylm.api.{_FROM[name]}"), name)
    raise AttributeError(f"module 'tinylm' has no attribute {name!r}")
