"""The compiled decoding step: the numbers of `Step`, computed by step.cpp for one token of each row."""

import ctypes
import functools
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from tinylm.base.config import InputError
from tinylm.decoding.session import Step
from tinylm.kernels.decoding.graphed import GraphedStep
from tinylm.kernels.decoding.weights import ACTIVATIONS, NORMS, PackedWeights
from tinylm.kernels.library import CannotCompile, Library
from tinylm.model.changes import change_of
from tinylm.model.kv_cache import KVCache
from tinylm.model.transformer import TinyLM

FOLDER = Path(__file__).parent
LIBRARY = Library(
    "step",
    units=(FOLDER / "step.cpp",),
    headers=(FOLDER / "products.h",),
    flags=("-fno-math-errno", "-fno-trapping-math"),
    tries=(("-fopenmp",), ()),  # without OpenMP the step has one thread
)
MOST_TOKENS = 512  # of one compiled call: bounds the memory of its intermediate results
TWO_THREAD_WORK = 12 << 20  # bytes of weights times tokens, above which a second thread pays


class _Arguments(ctypes.Structure):
    _fields_ = [
        ("sequences", ctypes.c_int64),
        ("capacity", ctypes.c_int64),
        ("layer_stride", ctypes.c_int64),
        ("threads", ctypes.c_int64),
        ("starts", ctypes.c_void_p),
        ("tokens", ctypes.c_void_p),
        ("positions", ctypes.c_void_p),
        ("keys", ctypes.c_void_p),
        ("values", ctypes.c_void_p),
        ("logits", ctypes.c_void_p),
    ]


@functools.cache
def library() -> ctypes.CDLL:
    """The compiled step, loaded. Raises CannotCompile."""
    shared = LIBRARY.load()
    shared.tinylm_step.restype = ctypes.c_int64
    shared.tinylm_step.argtypes = [ctypes.c_void_p, ctypes.c_void_p]
    return shared


class CompiledStep(Step):
    """`Step` in compiled code, for a float32 model on the CPU. Logits differ by rounding.

    Many tokens at a time, such as long prompts, and texts without a cache run through the model's own code: there
    torch is as fast. The weights are those that the model has when the step is made. Raises CannotCompile.
    """

    name = "compiled"

    def __init__(self, model: TinyLM) -> None:
        super().__init__(model)
        self._library = library()
        self._weights = PackedWeights(model)

    def fill(self, windows: np.ndarray, sizes: np.ndarray, cache: KVCache | None) -> Tensor:
        if cache is None or windows.size > MOST_TOKENS:
            return super().fill(windows, sizes, cache)
        columns = np.arange(windows.shape[1])
        filled = columns < sizes[:, None]  # (R, T)
        positions = np.broadcast_to(columns, windows.shape)
        starts = np.concatenate([[0], sizes.cumsum()])
        return self._run(starts, windows[filled], positions[filled], cache)

    def advance(self, tokens: np.ndarray, positions: np.ndarray, cache: KVCache) -> Tensor:
        return self._run(np.arange(len(tokens) + 1), tokens, positions, cache)

    def _run(
        self, starts: np.ndarray, tokens: np.ndarray, positions: np.ndarray, cache: KVCache
    ) -> Tensor:
        """Logits after the last token of each row.  -> (R, V)

        starts: (R + 1,), where each row's tokens begin among all tokens, and where the last row's end.
        """
        cache.reserve(torch.from_numpy(positions))
        rows = len(starts) - 1
        is_large = len(tokens) * self._weights.nbytes > TWO_THREAD_WORK
        logits = torch.empty(rows, self.model.vocab_size, dtype=torch.float32, device="cpu")
        keys = cache.keys
        _check_cache(cache)
        arguments = _Arguments(
            sequences=rows,
            capacity=cache.capacity,
            layer_stride=keys.stride(0),
            threads=torch.get_num_threads() if is_large else 1,
            starts=starts.ctypes.data,
            tokens=tokens.ctypes.data,
            positions=positions.ctypes.data,
            keys=keys.data_ptr(),
            values=cache.values.data_ptr(),
            logits=logits.data_ptr(),
        )
        model = ctypes.byref(self._weights.structure)
        if not self._library.tinylm_step(model, ctypes.byref(arguments)):
            raise MemoryError(f"{len(tokens)} tokens of one decoding step")
        return logits


def _check_cache(cache: KVCache) -> None:
    """Raises TypeError unless step.cpp can write to this cache."""
    buffer = cache.buffer
    is_dense = buffer.stride()[-2:] == (buffer.shape[-1], 1)
    if buffer.dtype != torch.float32 or buffer.device.type != "cpu" or not is_dense:
        raise TypeError(
            f"the compiled step expected a float32 cache on cpu, got {buffer.dtype} on {buffer.device} "
            f"with strides {buffer.stride()}"
        )


def decoding_step(model: TinyLM, step: str = "auto") -> Step:
    """The step of this name: plain, compiled, or auto, which is the fastest that works here.

    auto: graphed on a CUDA card, compiled on a CPU; plain for a model that was changed, since only
    that step calls its modules (`change_of`). Raises InputError for another name, and if the step is
    "compiled" and does not work here.
    """
    if step not in ("plain", "compiled", "auto"):
        raise InputError(f"step: expected plain, compiled or auto, got {step!r}")
    if step == "plain":
        return Step(model)
    obstacle = change_of(model)
    is_float32 = model.embedding.dtype == torch.float32
    if step == "auto" and not obstacle and is_float32 and model.embedding.device.type == "cuda":
        return GraphedStep(model)
    obstacle = obstacle or _obstacle(model)
    if not obstacle:
        return CompiledStep(model)
    if step == "compiled":
        raise InputError(f"step: expected plain or auto here, got compiled: {obstacle}")
    return Step(model)


def _obstacle(model: TinyLM) -> str:
    """Why there is no compiled step for this model here; empty if there is one."""
    tensors = [*model.parameters(), *model.buffers()]
    if any(x.dtype != torch.float32 or x.device.type != "cpu" for x in tensors):
        return "it is for float32 models on the CPU"
    if model.settings.norm_kind not in NORMS:
        return f"it has no norm_kind = '{model.settings.norm_kind}'"
    if model.settings.activation not in ACTIVATIONS:
        return f"it has no activation = '{model.settings.activation}'"
    try:
        library()
    except (CannotCompile, OSError) as error:
        return str(error)
    return ""
