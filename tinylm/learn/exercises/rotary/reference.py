import torch

from tinylm.model.ops import apply_rotary
from tinylm.model.transformer import position_angles


def rotate(x, positions):
    angles = position_angles(int(positions.max()) + 1, x.shape[-1])[positions]
    table = torch.stack([angles.cos(), angles.sin()], 1)[None]  # (1, T, 2, Dh / 2)
    qkv = x.transpose(1, 2)[:, :, None].expand(-1, -1, 3, -1, -1)
    return apply_rotary(qkv.double(), table)[:, :, 0].transpose(1, 2).to(x.dtype)
