"""Oracle: autograd through the block itself; saved tensors are counted by PyTorch's hooks."""

import torch
from torch import nn
from torch.nn import functional as F

from tinylm.learn.expect import drawn, expect, require


class _Block(nn.Module):
    def __init__(self, dropout=0.0, width=2):
        super().__init__()
        self.weight = nn.Parameter(drawn(1, width, width))
        self.dropout = dropout
        self.calls = 0

    def forward(self, x):
        self.calls += 1
        hidden = F.dropout(torch.tanh(x @ self.weight), self.dropout)
        return x + hidden * hidden


def _run(function, x, dropout=0.0, needs_gradient=True):
    """(y, dx, dweight, calls in forward, calls in all)"""
    torch.manual_seed(1)
    block = _Block(dropout, x.shape[-1])
    leaf = x.clone().requires_grad_(needs_gradient)
    y = function(block, leaf)
    calls = block.calls
    require(isinstance(y, torch.Tensor) and y.grad_fn is not None, "the result has no gradient",
            "is backward ever called? x may need no gradient while the block's weights do")  # fmt: skip
    y.square().sum().backward()
    dx = leaf.grad if needs_gradient else torch.zeros_like(x)
    return y.detach(), dx, block.weight.grad, calls, block.calls


def _plain(block, x):
    return block(x)


def _pieces(mine, theirs, given):
    names = ("the result y", "the gradient of x", "the gradient of the weight")
    advice = (
        "return block(x)",
        "return x.grad from backward, one value for each argument of forward",
        "torch.autograd.backward(y, g) adds the parameters' gradients; torch.autograd.grad(y, x) does not",
    )
    for name, answer, expected, hint in zip(names, mine, theirs, advice):
        require(answer is not None, f"{name} is missing", hint, **given)
        expect(lambda _: answer, given, expected, {hint: answer})  # noqa: B023


def same_gradients(checkpointed):
    """result and gradients equal plain autograd"""
    for shape in ((1, 2), (3, 2)):
        x = drawn(2, *shape)
        _pieces(_run(checkpointed, x), _run(_plain, x), {"x": x})


def runs_twice(checkpointed):
    """the block runs once in forward and once in backward"""
    *_, first, total = _run(checkpointed, drawn(2, 1, 2))
    require((first, total) == (1, 2), f"it ran {first} times in forward and {total - first} in backward",
            "nothing was recomputed" if total == 1 else "once each is enough")  # fmt: skip


def keeps_only_x(checkpointed):
    """forward keeps only x"""
    x = drawn(3, 4, 2).requires_grad_()
    shapes = []

    def pack(tensor):
        shapes.extend([tuple(tensor.shape)] if tensor.ndim else [])
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        checkpointed(_Block(), x)
    require(len(shapes) <= 1, f"{len(shapes)} tensors were kept: {shapes}",
            "autograd records the block: run it inside forward of your Function")  # fmt: skip


def same_dropout(checkpointed):
    """the second run draws the same dropout"""
    x = drawn(4, 4, 2)
    given = {"x": x, "dropout": 0.5}
    mine = _run(checkpointed, x, 0.5)
    theirs = _run(_plain, x, 0.5)
    advice = "set the generator to the state that it had before the first run"
    expect(lambda *_: mine[1], given, theirs[1], {advice: mine[1]})


def leaves_the_generator(checkpointed):
    """backward leaves the random generator as it was"""
    block = _Block(0.5)
    y = checkpointed(block, drawn(5, 2, 2).requires_grad_())
    torch.rand(3)  # what follows the block in a model
    before = torch.get_rng_state()
    y.sum().backward()
    same = torch.equal(before, torch.get_rng_state())
    require(same, "after backward the generator has another state",
            "put it back after the second run: torch.random.fork_rng()")  # fmt: skip


def without_gradient_of_x(checkpointed):
    """the weight gets its gradient even if x needs none"""
    x = drawn(6, 2, 2)
    mine = _run(checkpointed, x, needs_gradient=False)
    theirs = _run(_plain, x, needs_gradient=False)
    expect(lambda _: mine[2], {"x": x}, theirs[2], {"the weight's gradient is lost": mine[2]})
