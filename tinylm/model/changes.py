"""Whether a model still computes what its classes say, or a user has hooked or replaced parts of it.

Faster code reads a model's weights and skips its modules, so it serves unchanged models only.
"""

from collections.abc import Iterator
from typing import Any

from torch import Tensor, nn
from torch.nn.modules import module as torch_module

from tinylm.model.as_built import Parts, attributes_of
from tinylm.model.ops import ACTIVATIONS, Ops
from tinylm.model.transformer import Block, FeedForward, Norm, SelfAttention, TinyLM, has_hooks

# As they are when this module is imported: a user may replace them before building a model.
_CLASSES = (TinyLM, Block, SelfAttention, FeedForward, Norm, nn.Linear, nn.Identity, nn.ModuleList)
_ACTIVATIONS = dict(ACTIVATIONS)


def _methods() -> Iterator[tuple[type, str, Any]]:
    """(class, name, method) of all classes of a model, as they are when this module is imported."""
    for kind in (TinyLM, Block, SelfAttention, FeedForward, Norm):
        for name, method in vars(kind).items():
            if callable(method):
                yield kind, name, method
    yield nn.Linear, "forward", nn.Linear.forward
    yield nn.Identity, "forward", nn.Identity.forward


_METHODS = tuple(_methods())
_OPERATIONS = [name for name, method in vars(Ops).items() if name[0] != "_" and callable(method)]


def change_of(model: TinyLM) -> str:
    """The first change found, in words; empty if there is none. Weights may have any values."""
    if torch_module._has_any_global_hook():
        return "torch has a hook for all modules"
    for kind, name, method in _METHODS:
        if vars(kind).get(name) is not method:
            return f"{kind.__name__}.{name} was replaced"
    if type(model) is not TinyLM:
        return f"the model is a {type(model).__name__}"
    expected: Parts = getattr(model, "as_built", {})  # missing in a pickle of an earlier version
    activation = _ACTIVATIONS[model.settings.activation]
    found: dict[str, nn.Module] = dict(model.named_modules(remove_duplicate=False))
    if found.keys() != expected.keys():
        first = min(found.keys() ^ expected.keys())
        return f"{first} was {'added' if first in found else 'removed'}"
    for name, module in found.items():
        change = _change_of_module(module, *expected[name])
        if isinstance(module, FeedForward) and module.activation is not activation:
            change = "has another activation"
        if change:
            return f"{name or 'the model'} {change}"
    return ""


def _change_of_module(module: nn.Module, kind: type, attributes: dict[str, Any]) -> str:
    """How a module first differs from its class and attributes in a new model; "" if it does not."""
    if type(module) is not kind or kind not in _CLASSES:
        return f"is a {type(module).__name__}"
    if has_hooks(module):
        return "has a hook"
    for operation in _OPERATIONS:
        if _is_replaced(module, operation):
            return f"has another operation {operation}"
    found = attributes_of(module)
    if found.keys() != attributes.keys():
        return "was changed: an attribute or a weight was added or removed"
    for name, value in found.items():
        # A tensor, which a user may put in place of a number, has no single answer to ==.
        if isinstance(value, Tensor) or value != attributes[name]:
            return f"was changed: {name}"
    return ""


def replaces_attention(model: TinyLM) -> bool:
    """Whether a user has replaced attention, which decoding with a cache does not call."""
    return any(_is_replaced(module, "attention") for module in model.modules())


def _is_replaced(module: nn.Module, operation: str) -> bool:
    """Whether this operation of the module's `Ops` is defined outside tinylm."""
    ops = getattr(module, "ops", None)
    if ops is None:
        return False
    method = getattr(ops, operation, None)
    function = getattr(method, "__func__", method)
    return not str(getattr(function, "__module__", "")).startswith("tinylm.")
