import torch

from tinylm.model.kv_cache import KVCache
from tinylm.model.ops import attention_weights
from tinylm.model.transformer import causal_mask


class Cache:
    def __init__(self, batch, heads, capacity, head_width):
        self.shape = {
            "layers": 1,
            "rows": batch,
            "heads": heads,
            "capacity": capacity,
            "head_width": head_width,
        }
        self.cache = None

    @property
    def used(self):
        return self.cache.used if self.cache else 0

    def append(self, keys, values):
        self.cache = self.cache or KVCache(**self.shape, like=keys)
        positions = torch.arange(self.used, self.used + keys.shape[2])[None]
        self.cache.reserve(positions)
        return self.cache.store(0, keys, values, positions)


def attend(queries, keys, values):
    slots = torch.arange(keys.shape[2])
    mask = causal_mask(slots[None, -queries.shape[2] :], slots, queries.dtype)
    scale = torch.tensor(queries.shape[-1] ** -0.5, dtype=queries.dtype)
    return attention_weights(queries, keys, scale, mask) @ values
