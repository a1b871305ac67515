from tinylm.learn.use import train


def run(updates):
    return train(updates, {})


def replacements(student):
    def output_loss(ops, hidden, weight, bias, targets):
        mean = student.cross_entropy(hidden @ weight.T, targets)
        return mean * (targets >= 0).sum()

    return {"tinylm.model.ops.Ops.output_loss": output_loss}
