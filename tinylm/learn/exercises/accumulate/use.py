from tinylm.learn.use import train


def run(updates):
    return train(updates, {"train": {"batch_size": 2, "accumulation": 4}})


def replacements(student):
    def accumulate_gradients(model, batches, precision, total=None):
        tokens = sum(batch.tokens for batch in batches)
        pairs = [(batch.inputs, batch.targets) for batch in batches]
        return student.accumulate(model.loss, pairs) * tokens

    return {"tinylm.train.trainer.accumulate_gradients": accumulate_gradients}
