"""Oracle: a model whose loss is known without dropout."""

import torch
from torch import nn

from tinylm.learn.expect import expect, require


def _loss(model, batch):
    return float(model(batch).sum()), batch.numel()


def _model():
    torch.manual_seed(1)
    return nn.Sequential(nn.Dropout(0.5), nn.Identity())


def without_dropout(evaluate):
    """dropout is off"""
    batches = [torch.tensor([1.0, 2.0]), torch.tensor([3.0])]
    model = _model()
    answer = evaluate(model, batches, _loss)
    given = {"losses_without_dropout": batches}
    expect(lambda *_: answer, given, 2.0, {
        "dropout is active: the model must be told that it is evaluated": answer
    })  # fmt: skip


def twice(evaluate):
    """two evaluations of the same weights agree"""
    model = _model()
    batches = [torch.ones(10)]
    first, second = (evaluate(model, batches, _loss) for _ in range(2))
    require(
        first == second,
        f"first {first:.4g}, then {second:.4g}",
        "something in it is random: dropout",
    )


def restores_the_mode(evaluate):
    """training goes on with dropout afterwards, evaluation without"""
    for mode in (True, False):
        model = _model().train(mode)
        evaluate(model, [torch.ones(2)], _loss)
        require(model.training == mode, f"the model was in training mode: {mode}; afterwards: {model.training}",
                "put the mode back to what it was")  # fmt: skip
        require(all(part.training == mode for part in model.modules()), "a part has another mode")
