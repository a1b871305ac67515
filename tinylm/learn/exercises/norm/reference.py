import torch

from tinylm.model.ops import REFERENCE

norm = REFERENCE.norm  # as it is now: a run replaces it


def layer_norm(x, gain, bias, eps):
    return norm(x, gain, bias, eps, "layer")


def layer_norm_gradient(x, gain, eps, g):
    leaves = [x.detach().clone().requires_grad_(), gain.detach().clone().requires_grad_()]
    leaves.append(torch.zeros_like(gain).requires_grad_())
    with torch.enable_grad():
        return torch.autograd.grad(layer_norm(*leaves, eps), leaves, g)
