"""Oracle: PyTorch's AdamW in float64."""

import torch

from tinylm.learn.expect import drawn, expect, rows

USUAL = {"lr": 0.1, "b1": 0.9, "b2": 0.98, "eps": 1e-8, "weight_decay": 0.1}


def _oracle(p, gradients, lr, b1, b2, eps, weight_decay, kind=torch.optim.AdamW):
    """(p, m, v) after the updates with these gradients."""
    leaf = p.clone().requires_grad_()
    optimizer = kind([leaf], lr=lr, betas=(b1, b2), eps=eps, weight_decay=weight_decay)
    for gradient in gradients:
        leaf.grad = gradient.clone()
        optimizer.step()
    state = optimizer.state.get(
        leaf, {"exp_avg": torch.zeros_like(p), "exp_avg_sq": torch.zeros_like(p)}
    )
    return leaf.detach(), state["exp_avg"], state["exp_avg_sq"]


def _compare(adamw, p, gradients, t, **changes):
    settings = {**USUAL, **changes}
    before, m, v = _oracle(p, gradients[: t - 1], **settings)
    g = gradients[t - 1]
    lr, b1, b2, eps, decay = settings.values()
    expected = _oracle(p, gradients[:t], **settings)
    _, m_new, v_new = expected
    shrunk = before * (1 - lr * decay)
    m_hat = m_new / (1 - b1**t)
    v_hat = v_new / (1 - b2**t)
    coupled = g + decay * before
    m_c, v_c = b1 * m + (1 - b1) * coupled, b2 * v + (1 - b2) * coupled**2
    step_c = lr * m_c / (1 - b1**t) / ((v_c / (1 - b2**t)).sqrt() + eps)

    def started(m_other, v_other, c1, c2):
        return shrunk - lr * m_other / c1 / ((v_other / c2).sqrt() + eps), m_other, v_other

    exchanged = started(b2 * m + (1 - b2) * g, b1 * v + (1 - b1) * g**2, 1 - b2**t, 1 - b1**t)
    squared_m = started(m_new, b2 * v + (1 - b2) * m_new**2, 1 - b1**t, 1 - b2**t)

    def stepped(c1, c2):
        return of(shrunk - lr * m_new / c1 / ((v_new / c2).sqrt() + eps))

    def of(p_new, m_new=m_new, v_new=v_new):
        return p_new, m_new, v_new

    given = {"p": before, "g": g, "m": m, "v": v, "t": t, **settings}
    expect(adamw, given, expected, {
        "m and v are not corrected for their start at 0": of(shrunk - lr * m_new / (v_new.sqrt() + eps)),
        "weight decay is part of the gradient; in AdamW it acts on p alone": of(before - step_c, m_c, v_c),
        "v is corrected with b2, m with b1": stepped(1 - b1**t, 1 - b1**t),
        "m is corrected with b1, v with b2; yours are exchanged": stepped(1 - b2**t, 1 - b1**t),
        "b1 belongs to m, b2 to v": exchanged,
        "v is the mean of g^2, not of m^2": squared_m,
        "only v is corrected": stepped(1.0, 1 - b2**t),
        "only m is corrected": stepped(1 - b1**t, 1.0),
        "eps is added after the correction of v": of(
            shrunk - lr * m_hat * (1 - b2**t) ** 0.5 / (v_new.sqrt() + eps)
        ),
        "weight decay takes p as it was before the step": of(
            (before - lr * m_hat / (v_hat.sqrt() + eps)) * (1 - lr * decay)
        ),
        "weight decay is missing": of(before - lr * m_hat / (v_hat.sqrt() + eps)),
        "weight decay must be multiplied by lr": of(
            before * (1 - decay) - lr * m_hat / (v_hat.sqrt() + eps)
        ),
        "eps is outside the root": of(shrunk - lr * m_hat / (v_hat + eps).sqrt()),
        "take the root of v": of(shrunk - lr * m_hat / (v_hat + eps)),
        "return m and v without the correction": of(expected[0], m_hat, v_hat),
        "t counts from 1: the correction is 1 - b^t": of(
            shrunk - lr * m_new / (1 - b1 ** (t + 1)) / ((v_new / (1 - b2 ** (t + 1))).sqrt() + eps)
        ),
    })  # fmt: skip


def first_update(adamw):
    """the first update moves each number by lr against its gradient"""
    _compare(adamw, rows(1.0, -2.0), [rows(0.5, -3.0)], 1, weight_decay=0.0)


def decays(adamw):
    """weight decay shrinks p by lr * weight_decay, apart from the gradient"""
    _compare(adamw, rows(4.0, -2.0), [rows(1.0, 1.0)], 1)


def equals_pytorch(adamw):
    """updates 2 and 7 equal PyTorch's AdamW in float64"""
    for t in (2, 7):
        _compare(adamw, drawn(t, 2, 2), [drawn(t + i, 2, 2) for i in range(t)], t)


def adds_eps_to_the_root(adamw):
    """eps is added to the root"""
    _compare(adamw, rows(1.0, 2.0), [rows(0.1, -0.2)] * 2, 2, eps=0.5)
