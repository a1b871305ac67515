"""Oracle: PyTorch's cross_entropy in float64."""

import math

import torch
from torch.nn import functional

from tinylm.learn.expect import drawn, expect, require, rows


def _oracle(logits, targets):
    if not (targets >= 0).any():
        return logits.new_zeros(())
    return functional.cross_entropy(logits, targets.clamp(min=-1), ignore_index=-1)


def _suspects(logits, targets):
    counted = int((targets >= 0).sum())
    right = _oracle(logits, targets)
    return {
        "the sum is divided by all targets; divide by those that count": right * counted / len(targets),
        "this is the sum; divide by the number of targets that count": right * counted,
        "padding is counted as if its target were id 0": _oracle(logits, targets.clamp(min=0)),
        "a negative target picks the last column: padding is counted": _oracle(
            logits, targets % logits.shape[1]
        ),
        "the sign is wrong: the loss is -ln p": -right,
        "this is the loss in bits: use the natural logarithm": right / math.log(2),
    }  # fmt: skip


def _compare(cross_entropy, logits, targets):
    given = {"logits": logits, "targets": targets}
    expect(cross_entropy, given, _oracle(**given), _suspects(**given))


def equal_logits(cross_entropy):
    """equal logits of V words give ln V"""
    _compare(cross_entropy, torch.zeros(1, 4).double(), torch.tensor([2]))


def equals_pytorch(cross_entropy):
    """equals PyTorch's cross_entropy in float64"""
    for seed, (length, words) in enumerate([(1, 2), (2, 3), (5, 4), (20, 30)]):
        targets = torch.arange(length) * 7 % words
        _compare(cross_entropy, drawn(seed, length, words), targets)


def skips_padding(cross_entropy):
    """negative targets do not count"""
    _compare(cross_entropy, rows([0.0, 1.0], [2.0, 0.0]), torch.tensor([1, -1]))
    _compare(cross_entropy, drawn(5, 6, 3), torch.tensor([0, -1, 2, 1, -1, -1]))


def is_stable(cross_entropy):
    """logits of 1,000 give no inf and no nan"""
    given = {"logits": rows([1000.0, 0.0], [0.0, -1000.0]), "targets": torch.tensor([1, 0])}
    overflow = "exp(1000) is inf: subtract the largest logit of each row first"
    expect(cross_entropy, given, _oracle(**given), {overflow: torch.tensor(torch.inf).double()})


def nothing_counts(cross_entropy):
    """without a target that counts, the loss is 0"""
    _compare(cross_entropy, rows([0.0, 1.0]), torch.tensor([-1]))


def has_a_gradient(cross_entropy):
    """its gradient is (softmax - one-hot) / number of targets, 0 at padding"""
    targets = torch.tensor([1, -1, 0])
    logits = drawn(6, 3, 2).requires_grad_()
    loss = cross_entropy(logits, targets)
    require(getattr(loss, "grad_fn", None), "the loss has no gradient",
            "stay in tensors: .item() and float() cut the graph", logits=logits)  # fmt: skip
    (mine,) = torch.autograd.grad(loss, logits)
    (theirs,) = torch.autograd.grad(_oracle(logits, targets), logits)
    expect(lambda given: mine, {"logits": logits}, theirs)
