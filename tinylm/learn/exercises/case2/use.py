from unittest import mock

from tinylm.learn.use import train


def run(updates):
    with mock.patch("tinylm.vocab.batches.POOL_BATCHES", 0.125):  # rows are not sorted by length
        return train(updates, {"train": {"tokens": 100_000}})


def replacements(student):
    def output_loss(ops, hidden, weight, bias, targets):
        mean = student.batch_loss(hidden @ weight.T, targets)
        return mean * (targets >= 0).sum()  # the trainer divides by this number

    return {"tinylm.model.ops.Ops.output_loss": output_loss}
