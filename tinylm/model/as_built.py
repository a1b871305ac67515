"""The parts of a model when it is built; `changes.py` compares a later state with them."""

from typing import Any

from torch import nn

# They concern training, or are compared by their class.
_NOT_COMPARED = {"training", "dropout", "ops", "run_blocks", "as_built"}

# {name of a module: (its class, its attributes)}
Parts = dict[str, tuple[type, dict[str, Any]]]


def parts_of(model: nn.Module) -> Parts:
    """Class and attributes of each module; a module with two names occurs twice."""
    modules = model.named_modules(remove_duplicate=False)
    return {name: (type(module), attributes_of(module)) for name, module in modules}


def attributes_of(module: nn.Module) -> dict[str, Any]:
    """Attributes of the instance, such as the number of heads, and the shapes of its tensors."""
    found: dict[str, Any] = {}
    for name, value in vars(module).items():
        if name[0] != "_" and name not in _NOT_COMPARED:
            found[name] = value
    for tensors in (module._parameters, module._buffers):
        for name, tensor in tensors.items():
            found[name] = None if tensor is None else tensor.shape
    return found
