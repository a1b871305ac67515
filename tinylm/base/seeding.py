"""Seeds: one number in params.yaml decides every random choice of a stage."""

import hashlib
import os
import random


def derive_seed(seed: int, *names: object) -> int:
    """Independent 63-bit seed for a named purpose: the first bytes of SHA-256 over seed and names.

    Neighbouring seeds and neighbouring rows get unrelated streams, on every machine.
    """
    text = "\x1f".join(str(part) for part in (seed, *names))
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big") >> 1


def seed_everything(seed: int, threads: int) -> None:
    """Seed python, numpy and torch, fix torch's thread count and ask for deterministic kernels.

    The thread count decides the order of floating-point sums, so equal bytes need equal counts.
    """
    import numpy as np
    import torch

    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # makes cuBLAS deterministic
    random.seed(seed)
    np.random.seed(seed % 2**32)  # noqa: NPY002 (libraries below us draw from the global state)
    torch.manual_seed(seed % 2**63)
    torch.set_num_threads(threads)
    # as use_deterministic_algorithms(True), without importing a compiler
    torch.set_deterministic_debug_mode("error")
