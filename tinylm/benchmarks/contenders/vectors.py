"""Vectors of given words out of a fastText .bin: tinylm's reader by position, and fasttext's own `load_model`."""

import hashlib
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from tinylm.benchmarks.serve import Step
from tinylm.host.memory import own_peak_mib


def _answer(seconds: float, table: np.ndarray) -> dict[str, Any]:
    """Seconds, a digest of the table's bytes, and the process's largest size."""
    digest = hashlib.sha256(np.ascontiguousarray(table, dtype="<f4").tobytes()).hexdigest()
    return {
        "seconds": seconds,
        "digest": digest,
        "process_mib": own_peak_mib(),
    }


def ours(setup: Mapping[str, Any]) -> Step:
    """setup: path, words, width."""
    from tinylm.text.vectors.fasttext_bin import read_bin

    def step(_: Mapping[str, Any]) -> dict[str, Any]:
        start = time.perf_counter()
        table = np.zeros((len(setup["words"]), setup["width"]), dtype=np.float32)
        read_bin(Path(setup["path"]), setup["words"], table, np.zeros(len(table), dtype=bool))
        return _answer(time.perf_counter() - start, table)

    return step


def fasttext(setup: Mapping[str, Any]) -> Step:
    """setup: path, words."""
    import fasttext

    def step(_: Mapping[str, Any]) -> dict[str, Any]:
        start = time.perf_counter()
        model = fasttext.load_model(setup["path"])
        table = np.stack([model.get_word_vector(word) for word in setup["words"]])
        return _answer(time.perf_counter() - start, table)

    return step
