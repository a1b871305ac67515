"""Oracle: PyTorch's cross_entropy in float64."""

import torch
from torch.nn.functional import cross_entropy

from tinylm.learn.expect import drawn, expect


def _compare(batch_loss, logits, targets):
    right = cross_entropy(logits, targets, ignore_index=-1)
    counted = int((targets >= 0).sum())
    expect(batch_loss, {"logits": logits, "targets": targets}, right, {
        "the mean is over padding, too: divide by the targets that count": right * counted / len(targets),
        "this is the sum": right * counted,
        "id 0 is a word: only targets below 0 are padding": (
            right * counted / max(int((targets > 0).sum()), 1)
        ),
        "padding is scored as if its target were id 0": cross_entropy(logits, targets.clamp(min=0)),
    })  # fmt: skip


def without_padding(batch_loss):
    """without padding it is the mean"""
    _compare(batch_loss, torch.zeros(2, 4).double(), torch.tensor([1, 3]))
    _compare(batch_loss, drawn(1, 3, 4), torch.tensor([1, 3, 0]))


def with_padding(batch_loss):
    """padding changes nothing"""
    _compare(batch_loss, torch.zeros(2, 4).double(), torch.tensor([1, -1]))
    _compare(batch_loss, drawn(2, 5, 3), torch.tensor([-1, 2, 0, -1, -1]))
