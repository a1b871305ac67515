import torch

from tinylm.learn.use import train


def run(updates):
    # Pairs of columns are rotated, so the width of a head is even, whatever the vectors are.
    return train(updates, {"model": {"positions": "rotary", "head_width": 32}})


def replacements(student):
    def apply_rotary(qkv, rope_cache):
        queries, keys, values = qkv.permute(2, 0, 3, 1, 4)
        positions = torch.arange(qkv.shape[1])
        rotated = (student.rotate(queries, positions), student.rotate(keys, positions), values)
        return torch.stack(rotated).permute(1, 3, 0, 2, 4)

    return {"tinylm.model.ops.apply_rotary": apply_rotary}
