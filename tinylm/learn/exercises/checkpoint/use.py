from tinylm.learn.use import train


def run(updates):
    # A wrong state of the random generator shows only where something is drawn.
    return train(updates, {"model": {"dropout": 0.1}})


def replacements(student):
    def run_blocks(blocks, x, mask):
        for block in blocks:
            x = student.checkpointed(lambda x, block=block: block(x, mask), x)
        return x

    return {"tinylm.train.preparation.Checkpointing": lambda mode, run: run_blocks}
