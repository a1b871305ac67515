"""The file of the embedding matrix, which stage vocab writes for training."""

from pathlib import Path

import numpy as np

from tinylm.base.config import InputError
from tinylm.base.files import require, write_bytes

TENSOR = "embedding"


def save_matrix(path: str | Path, matrix: np.ndarray) -> None:
    """Write the (V, D) matrix as safetensors."""
    from safetensors.numpy import save

    matrix = np.ascontiguousarray(matrix, dtype=np.float32)
    write_bytes(path, save({TENSOR: matrix}))


def load_matrix(path: str | Path) -> np.ndarray:
    """Read what `save_matrix` wrote, (V, D) float32. Raises InputError for any other file."""
    from safetensors import SafetensorError, safe_open

    require(path, "vocab")
    try:
        with safe_open(str(path), framework="numpy") as file:
            matrix = file.get_tensor(TENSOR)
        if matrix.dtype != np.float32 or matrix.ndim != 2:
            raise ValueError(f"expected float32 (V, D), got {matrix.dtype} {matrix.shape}")
        if not np.isfinite(matrix).all():
            raise ValueError("a value is not finite")
    except (SafetensorError, OSError, TypeError, ValueError, KeyError) as error:
        reason = str(error)[:160]
        raise InputError(
            f"{path}: not an embedding matrix of tinylm ({reason}); "
            f"rm {path} and run dvc repro -f -s vocab"
        ) from None
    return matrix
