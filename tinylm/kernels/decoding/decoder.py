"""Which way of computing a step suits this machine: the compiled one if available, else plain torch."""

import contextlib
import dataclasses
import functools
from collections.abc import Sequence

import torch
from torch import Tensor

from tinylm.base.config import InputError
from tinylm.decoding.session import Decoder, Session, decoding_mode
from tinylm.decoding.settings import DecodeSettings
from tinylm.kernels.decoding import build
from tinylm.kernels.decoding.graphs import GraphSession
from tinylm.kernels.decoding.rounding import LowerPrecision
from tinylm.kernels.decoding.session import FastSession, LateSession, window_logits
from tinylm.kernels.decoding.weights import ACTIVATIONS, NORMS, PackedModel
from tinylm.model.transformer import TinyLM


class _RoundedSession(Session):
    """`Session` whose products are computed inside a mode."""

    mode: LowerPrecision

    def next_logits(self) -> Tensor:
        with self.mode:
            return super().next_logits()


@dataclasses.dataclass(frozen=True)
class ModelDecoder(Decoder):
    """A model prepared for decoding with its current weights.

    compiled: by the compiled step; otherwise by the model's own code, whose steps are replayed if `graphs`. at_once: a
    single text in fp32 gets its first token before the weights are packed.
    """

    precision: str
    compiled: bool
    said: str
    graphs: bool = False
    at_once: bool = False

    @functools.cached_property
    def packed(self) -> PackedModel | None:
        """The weights for the compiled step."""
        return PackedModel(self.model, self.precision) if self.compiled else None

    @functools.cached_property
    def _mode(self) -> LowerPrecision:
        return LowerPrecision(self.precision, self.model)

    def session(
        self,
        prompts: Sequence[Sequence[int]],
        *,
        slide: str = "half",
        use_cache: bool = True,
        new_tokens: int | None = None,
        beams: int = 1,
    ) -> Session:
        if (
            self.at_once
            and self.compiled
            and self.precision == "fp32"
            and len(prompts) == beams == 1
        ):
            return LateSession(
                self._pack,
                self.model,
                prompts,
                slide=slide,
                use_cache=use_cache,
                new_tokens=new_tokens,
            )
        if self.packed is not None:
            return FastSession(
                self.packed, self.model, prompts, slide, use_cache, new_tokens, beams
            )
        lower = self.precision != "fp32"
        if self.graphs and use_cache:
            mode = (lambda: self._mode) if lower else contextlib.nullcontext
            return GraphSession(self.model, prompts, slide, use_cache, new_tokens, mode)
        if not lower:
            return super().session(prompts, slide=slide, use_cache=use_cache, new_tokens=new_tokens)
        session = _RoundedSession(
            self.model, prompts, slide=slide, use_cache=use_cache, new_tokens=new_tokens
        )
        session.mode = self._mode
        return session

    def _pack(self) -> PackedModel:
        assert self.packed is not None
        return self.packed

    def logits(self, ids: Sequence[int]) -> Tensor:
        """Logits after each token of one window.  -> (T, V)"""
        with decoding_mode(self.model):
            if self.packed is not None:
                return window_logits(self.packed, ids)
            with self._mode:
                return self.model(torch.tensor([ids], device=self.model.embedding.device))[0]


def prepare(
    model: TinyLM, precision: str = "auto", step: str = "auto", wait: bool = True
) -> ModelDecoder:
    """Make a model ready for decoding: precision fp32 | bf16 | int8 | auto, step plain | compiled | auto.

    auto compiles if there is a compiler and the model is a float32 one on the CPU, and takes bf16 if the processor
    multiplies it, else fp32. On CUDA, steps are recorded as graphs instead of being compiled. Without `wait`, a step
    that is not compiled yet is left to a process in the background, this decoder does without it, and a text's first
    token does not wait for the weights either. Raises InputError if step is "compiled" and cannot be compiled.
    """
    if model.embedding.is_cuda and step != "plain":
        precision = "bf16" if precision == "auto" else precision
        return ModelDecoder(
            model, precision, False, f"{precision}, steps replayed as CUDA graphs", True
        )
    reason = "" if step == "plain" else _obstacle(model, wait)
    if reason and step == "compiled" and wait:
        raise InputError(
            f"decode.step = 'compiled', but it cannot be: {reason}; allowed here: plain | auto"
        )
    if reason or step == "plain":
        precision = "fp32" if precision == "auto" else precision
        return ModelDecoder(
            model, precision, False, f"{precision}, plain step" + (f" ({reason})" if reason else "")
        )
    if precision == "auto":
        precision = "bf16" if build.library().tinylm_bf16() else "fp32"
    decoder = ModelDecoder(model, precision, True, f"{precision}, compiled step", at_once=not wait)
    if wait:
        decoder._pack()  # now: later the model may have other weights
    return decoder


def decoder_of(model: TinyLM, settings: DecodeSettings, wait: bool = True) -> ModelDecoder:
    """The decoder that section `decode` asks for."""
    return prepare(model, settings.precision, settings.step, wait)


def _obstacle(model: TinyLM, wait: bool) -> str:
    """Why there is no compiled step for this model here; empty if there is one."""
    if model.embedding.device.type != "cpu" or model.embedding.dtype != torch.float32:
        return "made for float32 models on the CPU"
    for name, known in (("norm_kind", NORMS), ("activation", ACTIVATIONS)):
        if getattr(model.settings, name) not in known:
            return f"it has no {name} = '{getattr(model.settings, name)}'"
    try:
        if not wait and not build.is_compiled() and build.compiler():
            failed = build.last_failure()
            build.compile_in_background()
            return f"{failed or 'a first time'}: it is being compiled for the next"
        build.library()
    except (build.CannotCompile, OSError) as error:
        return str(error)
    return ""
