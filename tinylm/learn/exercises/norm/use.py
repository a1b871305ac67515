import torch

from tinylm.learn.use import train


def run(updates):
    return train(updates, {})


def replacements(student):
    class Norm(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, gain, bias, eps):
            ctx.save_for_backward(x, gain)
            ctx.eps = eps
            return student.layer_norm(x.flatten(0, -2), gain, bias, eps).view_as(x)

        @staticmethod
        def backward(ctx, g):
            x, gain = ctx.saved_tensors
            dx, dgain, dbias = student.layer_norm_gradient(
                x.flatten(0, -2), gain, ctx.eps, g.flatten(0, -2)
            )
            return dx.view_as(x), dgain, dbias, None

    def norm(ops, x, gain, bias, eps, kind):
        return Norm.apply(x, gain, bias, eps)

    return {"tinylm.model.ops.Ops.norm": norm}
