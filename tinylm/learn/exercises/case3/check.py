"""Oracle: the mean over the tokens of one large batch, by autograd in float64."""

import torch

from tinylm.learn.expect import expect


def _compare(accumulate, lengths, losses):
    """Each token's loss is weight * number, so that the gradient is the mean of the numbers."""
    weight = torch.ones(1, dtype=torch.float64, requires_grad=True)
    numbers = iter(losses)
    batches = []
    for length in lengths:
        row = torch.tensor([[float(next(numbers)) for _ in range(length)]], dtype=torch.float64)
        padding = torch.nn.functional.pad
        targets = padding(
            torch.ones(1, length, dtype=torch.int64), (0, max(lengths) - length), value=-1
        )
        batches.append((padding(row, (0, max(lengths) - length)), targets))
    mean = accumulate(lambda inputs, targets: (weight * inputs).sum(), batches)
    means = [row.sum().item() / length for (row, _), length in zip(batches, lengths)]
    given = {
        "tokens_of_each": lengths,
        "losses": [row.tolist()[0][:n] for (row, _), n in zip(batches, lengths)],
    }
    padded = sum(losses) / sum(targets.numel() for _, targets in batches)
    right = sum(losses) / len(losses)
    expect(lambda *_: (mean, weight.grad.item()), given, (right, right), {
        "this is the mean of the mini-batches' means; the mean is over tokens": (
            sum(means) / len(means), sum(means) / len(means)
        ),
        "each loss is divided by its own tokens only; divide by those of all": (sum(means), sum(means)),
        "padding is counted: only targets >= 0 are tokens": (padded, padded),
        "these are sums: divide by the number of tokens": (float(sum(losses)), float(sum(losses))),
    })  # fmt: skip


def equal_lengths(accumulate):
    """(loss, gradient) for mini-batches of equal length"""
    _compare(accumulate, [2, 2], [1, 2, 3, 4])


def unequal_lengths(accumulate):
    """(loss, gradient) for mini-batches of unequal length"""
    _compare(accumulate, [1, 3], [8, 4, 4, 4])
    _compare(accumulate, [2, 5, 1], [1, 2, 3, 4, 5, 6, 7, 8])
