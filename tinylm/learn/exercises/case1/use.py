from tinylm.learn.use import train


def run(updates):
    return train(updates, {"train": {"tokens": 200_000}})


def replacements(student):
    def attention(ops, qkv, scale, mask, dropout, rope_cache=None):
        queries, keys, values = qkv.permute(2, 0, 3, 1, 4)
        return student.attention(queries, keys, values).transpose(1, 2).flatten(2)

    return {"tinylm.model.ops.Ops.attention": attention}
