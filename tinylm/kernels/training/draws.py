"""The random numbers that say what dropout drops in low precision on a CPU: 16 bits a number, of one seed a tensor."""

import numpy as np
import torch

_LEVELS = 1 << 16
_STEP = 0x9E3779B97F4A7C15
_FACTORS = ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB))


def chance(probability: float) -> tuple[int, float]:
    """(least signed 16 bits of a number that is kept, factor of the kept ones), for a `probability` of 1 / 65536s."""
    dropped = round(probability * _LEVELS)
    return dropped - _LEVELS // 2, _LEVELS / (_LEVELS - dropped)


def new_seed() -> int:
    """A seed from torch's generator, which so decides all that is dropped: one number of it for each tensor."""
    return int(torch.randint(1 << 62, ()))


def random_bits(seed: int, count: int) -> np.ndarray:
    """The seed's first `count` numbers of 16 random bits, signed: each word of SplitMix64 cut in four.  -> (count,)

    Steele, Lea and Flood 2014. Word n is a function of seed + n alone, so that compiled loops draw the same numbers a
    piece at a time, in any order.
    """
    words = np.arange(1, -(-count // 4) + 1, dtype=np.uint64)
    words *= np.uint64(_STEP)
    words += np.uint64(seed)
    for shift, factor in _FACTORS:
        words ^= words >> np.uint64(shift)
        words *= np.uint64(factor)
    words ^= words >> np.uint64(31)
    return words.view(np.int16)[:count]
