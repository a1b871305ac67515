"""Contenders on a CUDA card: nanoGPT's training loop and transformers' generate, and our decoding."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from benchmarks.contenders.decoding import MODEL_DISTRIBUTION, Prompts
from benchmarks.contenders.nanogpt import config_of, load
from benchmarks.contenders.training import gpt2_sizes
from benchmarks.shape import Shape, stream, untrained
from tinylm.base.config import read_section
from tinylm.decoding.beam_search import beam_search
from tinylm.decoding.sampling import generate
from tinylm.decoding.settings import DecodeSettings
from tinylm.presets.write import BASE, preset_values

LOG_EVERY = 10  # updates: how often nanoGPT's loop reads the loss
Work = Callable[[], object]


def with_deterministic_kernels(work: Work) -> Work:
    """The work as every stage does it: the same bits in each run on one card."""

    def run() -> None:
        torch.set_deterministic_debug_mode("error")
        work()

    return run


def with_any_kernels(work: Work) -> Work:
    """The work with kernels that may give other bits each time, torch's default."""

    def run() -> None:
        torch.set_deterministic_debug_mode("default")
        work()

    return run


def nanogpt_updates(clone: Path, shape: Shape, device: torch.device) -> Work:
    """One step of nanoGPT's train.py: bf16, flash attention, torch.compile, fused AdamW.

    As there, the next batch is gathered while the card computes. Its loop reads the loss of every
    step by default; here it does so every tenth, as in its own configurations.
    """
    theirs = load(str(clone))
    torch.set_deterministic_debug_mode("default")
    torch.manual_seed(1)
    raw = theirs.GPT(config_of(theirs, shape)).to(device)
    optimizer = raw.configure_optimizers(0.1, 1e-3, (0.9, 0.99), device.type)
    model: Any = torch.compile(raw) if device.type == "cuda" else raw
    ids = torch.from_numpy(stream(shape, 64 * shape.step_tokens))
    span = torch.arange(shape.context)

    def batch() -> tuple[torch.Tensor, torch.Tensor]:
        starts = torch.randint(len(ids) - shape.context, (shape.batch,))
        indices = starts[:, None] + span
        inputs, targets = ids[indices], ids[indices + 1]
        if device.type != "cuda":
            return inputs, targets
        inputs = inputs.pin_memory().to(device, non_blocking=True)
        return inputs, targets.pin_memory().to(device, non_blocking=True)

    upcoming = [batch()]
    steps = 0

    def step() -> None:
        nonlocal steps
        with torch.autocast(device.type, torch.bfloat16):
            _, loss = model(*upcoming.pop())
        upcoming.append(batch())
        loss.backward()
        torch.nn.utils.clip_grad_norm_(raw.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        steps += 1
        if steps % LOG_EVERY == 0:
            loss.item()

    return with_any_kernels(step)


def our_decode(options: Any, shape: Shape, new_tokens: int, use_cache: bool) -> Callable[..., Any]:
    """decode(prompts, method) with random weights; method: sample, or the width of a beam."""
    model = untrained(shape).to(options.device).eval()
    values = preset_values(BASE)
    section = {name[7:]: value for name, value in values.items() if name.startswith("decode.")}
    settings = read_section({"decode": section | MODEL_DISTRIBUTION}, "decode", DecodeSettings)
    fixed: dict[str, Any] = {
        "max_new_tokens": new_tokens,
        "eos_id": None,
        "banned": [],
        "stop_at_eos": False,
        "use_cache": use_cache,
    }

    def decode(prompts: Prompts, method: Any) -> object:
        if isinstance(method, int):
            return beam_search(model, prompts, width=method, **fixed)
        return generate(model, prompts, settings=settings, **fixed)

    return decode


def transformers_decode(
    options: Any, shape: Shape, new_tokens: int, use_cache: bool
) -> Callable[..., Any]:
    """decode(prompts, method) by generate of a GPT-2 of the shape with random weights."""
    from transformers import GPT2Config, GPT2LMHeadModel

    torch.set_deterministic_debug_mode("default")
    config = GPT2Config(**gpt2_sizes(shape), bos_token_id=0, eos_token_id=0)
    model: Any = GPT2LMHeadModel(config).to(options.device).eval()
    model.generation_config.eos_token_id = None
    fixed = {
        "max_new_tokens": new_tokens,
        "min_new_tokens": new_tokens,
        "pad_token_id": 0,
        "use_cache": use_cache,
    }

    def decode(prompts: Prompts, method: Any) -> object:
        torch.set_deterministic_debug_mode("default")
        ids = torch.tensor(prompts, device=options.device)
        how: dict[str, Any] = {"do_sample": True, "top_k": 0}
        if isinstance(method, int):
            how = {"do_sample": False, "num_beams": method}
        with torch.inference_mode():
            return model.generate(ids, attention_mask=torch.ones_like(ids), **fixed, **how)

    return decode
