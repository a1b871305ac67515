"""Oracle: the gradient of one large batch, by autograd in float64."""

import weakref

import torch

from tinylm.learn.expect import drawn, expect, require

ID_WIDTH = 3


def _model():
    table = drawn(1, ID_WIDTH, ID_WIDTH).requires_grad_()

    def loss_sum(inputs, targets):
        """Sum of -ln softmax(table[input])[target] over the targets >= 0"""
        counts = targets >= 0
        log_p = table[inputs].log_softmax(-1)
        picked = log_p.gather(-1, targets.clamp(min=0)[..., None])[..., 0]
        return -(picked * counts).sum()

    return table, loss_sum


def _batches(*sizes):
    batches = []
    for number, (length, counted) in enumerate(sizes):
        inputs = ((torch.arange(length) + number) % ID_WIDTH)[None]
        targets = ((torch.arange(length) * 2 + number) % ID_WIDTH)[None]
        targets[:, counted:] = -1
        batches.append((inputs, targets))
    return batches


def _wanted(batches, weights):
    """(loss, gradient) of the sum of weight * S over the mini-batches."""
    table, loss_sum = _model()
    total = torch.stack([loss_sum(*batch) * w for batch, w in zip(batches, weights)]).sum()
    (gradient,) = torch.autograd.grad(total, table)
    return float(total.detach()), gradient


def _suspects(batches):
    """Usual mistakes, and what each multiplies the mini-batches' sums by."""
    counted = [int((targets >= 0).sum()) for _, targets in batches]
    positive = sum(int((targets > 0).sum()) for _, targets in batches)
    same = [1.0] * len(batches)
    return {
        "this is a mean of means: each mini-batch counts alike, however few tokens it has": [
            1 / n / len(counted) for n in counted
        ],
        "this adds the means; divide each sum by the number of all tokens": [1 / n for n in counted],
        "target 0 is a token, too: only targets below 0 do not count": [1 / positive for _ in same],
        "this is the gradient of the sum; divide by the number of tokens": same,
        "divide by the number of tokens, not of mini-batches": [1 / len(batches) for _ in same],
        "padding is counted: only targets >= 0 are tokens": [
            1 / sum(targets.numel() for _, targets in batches) for _ in same
        ],
        "this divides by the tokens so far; count those of all mini-batches first": [
            1 / sum(counted[: number + 1]) for number in range(len(counted))
        ],
        "only the last mini-batch counts: do not clear the gradients": [
            *(0.0 for _ in counted[1:]), 1 / sum(counted)
        ],
    }  # fmt: skip


def _compare(accumulate, batches):
    tokens = sum(int((targets >= 0).sum()) for _, targets in batches)
    right = _wanted(batches, [1 / tokens] * len(batches))
    answers = {name: _wanted(batches, weights)[1] for name, weights in _suspects(batches).items()}
    table, loss_sum = _model()
    loss = accumulate(loss_sum, batches)
    gradient = table.grad
    require(
        gradient is not None, "no gradient arrived", "call backward() on each mini-batch's loss"
    )
    loss_value = loss.item() if isinstance(loss, torch.Tensor) and loss.numel() == 1 else loss
    given = {"batches": batches, "tokens": [int((t >= 0).sum()) for _, t in batches]}
    expect(lambda *_: gradient, given, right[1], answers)
    expect(lambda *_: loss_value, given, right[0], {
        "the gradient is right; the returned loss is not the mean over all tokens": loss_value
    })  # fmt: skip


def one_batch(accumulate):
    """one mini-batch: the gradient of its mean loss"""
    _compare(accumulate, _batches((3, 3)))


def equal_lengths(accumulate):
    """mini-batches of equal length"""
    _compare(accumulate, _batches((2, 2), (2, 2)))


def unequal_lengths(accumulate):
    """mini-batches of unequal length: the mean is over tokens"""
    _compare(accumulate, _batches((1, 1), (3, 3)))
    _compare(accumulate, _batches((2, 2), (7, 7), (3, 3)))


def with_padding(accumulate):
    """padding does not count"""
    _compare(accumulate, _batches((3, 1), (3, 3)))


def adds(accumulate):
    """gradients that are there already stay: it adds to them"""
    table, loss_sum = _model()
    batches = _batches((1, 1), (2, 2))
    accumulate(loss_sum, batches)
    once = table.grad.clone()
    accumulate(loss_sum, batches)
    require(torch.allclose(table.grad, 2 * once), "a second call does not double the gradients",
            "do not set gradients to None or 0; add to them", once=once, twice=table.grad)  # fmt: skip


def one_graph_at_a_time(accumulate):
    """only one mini-batch's graph is alive at a time"""
    _, loss_sum = _model()
    alive = []
    most = 0

    class SavedTensor:
        def __init__(self, tensor):
            self.tensor = tensor

    def watched(inputs, targets):
        nonlocal most
        most = max(most, sum(reference() is not None for reference in alive))
        saved_tensors = []

        def pack(tensor):
            saved_tensors.append(SavedTensor(tensor))
            return saved_tensors[-1]

        with torch.autograd.graph.saved_tensors_hooks(pack, lambda one: one.tensor):
            loss = loss_sum(inputs, targets)
        alive.append(weakref.ref(saved_tensors[0]))
        return loss

    accumulate(watched, _batches((2, 2), (2, 2), (2, 2), (2, 2)))
    require(most <= 1, f"{most} earlier graphs were alive when the next loss was computed",
            "call backward() inside the loop, and keep numbers (.item()), not tensors")  # fmt: skip
