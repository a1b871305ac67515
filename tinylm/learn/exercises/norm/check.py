"""Oracle: PyTorch's layer_norm and its autograd, in float64."""

import torch
from torch.nn import functional

from tinylm.learn.expect import drawn, expect, require, rows


def _oracle(x, gain, bias, eps):
    return functional.layer_norm(x, x.shape[-1:], gain, bias, eps)


def _suspects(x, gain, bias, eps):
    centred = x - x.mean(-1, keepdim=True)
    variance = centred.square().mean(-1, keepdim=True)
    std = x.std(-1, keepdim=True)
    return {
        "the variance divides by D - 1; divide by D": centred / (std.square() + eps).sqrt() * gain
        + bias,
        "eps belongs inside the root": centred / (variance.sqrt() + eps) * gain + bias,
        "eps is missing": centred / variance.sqrt() * gain + bias,
        "the mean is not subtracted": x / (variance + eps).sqrt() * gain + bias,
        "divide by the root of the variance": centred / (variance + eps) * gain + bias,
        "gain and bias are missing": centred / (variance + eps).sqrt(),
        "the mean is over the rows; take it over the columns of each row": (
            _oracle(x.T, None, None, eps).T * gain + bias
        ),
    }


def _gradients(x, gain, eps, g):
    leaves = [
        x.clone().requires_grad_(),
        gain.clone().requires_grad_(),
        torch.zeros_like(gain).requires_grad_(),
    ]
    return torch.autograd.grad(_oracle(*leaves, eps), leaves, g)


def _given(seed, count, width, eps=1e-5):
    ones = torch.ones(width, dtype=torch.float64)
    return {"x": drawn(seed, count, width), "gain": ones + drawn(seed + 1, width) / 4,
            "bias": drawn(seed + 2, width), "eps": eps}  # fmt: skip


def by_hand(layer_norm):
    """a row of two numbers becomes -1 and 1"""
    one = torch.ones(2).double()
    given = {"x": rows([3.0, 7.0]), "gain": one, "bias": 0 * one, "eps": 0.0}
    expect(layer_norm, given, rows([-1.0, 1.0]), _suspects(**given))


def equals_pytorch(layer_norm):
    """forward equals PyTorch in float64"""
    for seed, (count, width, eps) in enumerate(
        [(1, 2, 1.0), (1, 3, 1e-5), (3, 4, 1e-5), (4, 5, 0.1)]
    ):
        given = _given(10 * seed, count, width, eps)
        expect(layer_norm, given, _oracle(**given), _suspects(**given))


def equal_numbers(layer_norm):
    """a row of equal numbers gives the bias, no nan"""
    given = {**_given(7, 1, 3), "x": rows([2.0, 2.0, 2.0])}
    expect(layer_norm, given, _oracle(**given), _suspects(**given))


def gradient_by_parts(layer_norm_gradient):
    """dbias and dgain equal autograd"""
    for seed, (count, width) in enumerate([(1, 2), (3, 3)]):
        given = _given(20 * seed, count, width)
        del given["bias"]
        given["g"] = drawn(seed + 5, count, width)
        answer = layer_norm_gradient(*given.values())
        require(
            isinstance(answer, tuple | list) and len(answer) == 3,
            "return (dx, dgain, dbias)",
            yours=answer,
        )
        _, dgain, dbias = _gradients(**given)
        expect(lambda *_: answer[2], given, dbias,  # noqa: B023
               {"a sum over the rows, not their mean": dbias / count,
                "sum over the rows: .sum(0)": given["g"].sum(-1)})  # fmt: skip
        n = _oracle(given["x"], None, None, given["eps"])
        expect(lambda *_: answer[1], given, dgain,  # noqa: B023
               {"multiply g by n, the normalised x, before the sum": (given["g"] * given["x"]).sum(0),
                "a sum over the rows, not their mean": dgain / count,
                "sum over the rows: .sum(0)": (given["g"] * n).sum(-1)})  # fmt: skip


def gradient_of_x(layer_norm_gradient):
    """dx equals autograd"""
    for seed, (count, width) in enumerate([(1, 2), (1, 3), (3, 4)]):
        given = _given(30 * seed + 1, count, width)
        del given["bias"]
        given["g"] = drawn(seed + 8, count, width)
        eps = given["eps"]
        dx = _gradients(**given)[0]
        n = _oracle(given["x"], None, None, eps)
        inverse = (given["x"].var(-1, correction=0, keepdim=True) + eps).rsqrt()
        h = given["g"] * given["gain"]
        centred = h - h.mean(-1, keepdim=True)
        through_variance = n * (h * n).mean(-1, keepdim=True)
        bare = given["g"]
        expect(lambda *a: layer_norm_gradient(*a)[0], given, dx, {
            "the variance depends on x, too: the term n * mean(h * n) is missing": centred * inverse,
            "the mean depends on x, too: the term mean(h) is missing": (h - through_variance) * inverse,
            "the mean and the variance depend on x, too: the two terms with means are missing": h * inverse,
            "each mean is over the columns of its row: mean(-1, keepdim=True)": (
                h - h.mean() - n * (h * n).mean()
            ) * inverse,
            "g is not multiplied by the gain first": (
                bare - bare.mean(-1, keepdim=True) - n * (bare * n).mean(-1, keepdim=True)
            ) * inverse,
            "divide by sqrt(v + eps) at the end": centred - through_variance,
        })  # fmt: skip


def keeps_float32(layer_norm):
    """float32 inputs give a float32 result"""
    given = {name: x if name == "eps" else x.float() for name, x in _given(3, 2, 4).items()}
    expect(layer_norm, given, _oracle(**given))
