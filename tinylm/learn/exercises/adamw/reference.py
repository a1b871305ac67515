from tinylm.train.optimizers import Adam


class _Adam(Adam):
    _apply_update = Adam._apply_update  # as it is now: a run replaces it


def adamw(p, g, m, v, t, lr, b1, b2, eps, weight_decay):
    parameter = p.clone()
    parameter.grad = g
    optimizer = _Adam([parameter], (b1, b2), eps, weight_decay, decoupled=True)
    optimizer.first = [m.clone()]
    optimizer.second = [v.clone()]
    optimizer.step(lr, t)
    return parameter, optimizer.first[0], optimizer.second[0]
