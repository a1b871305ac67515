"""Contenders in training: our Trainer, nanoGPT, GPT-2 of transformers.

Every setup has `shape` and `threads`. A request with `updates` answers {seconds, tokens}, one with `memory` answers
{peak_mib, process_mib}.
"""

import itertools
from collections.abc import Callable, Mapping
from typing import Any

import torch

from benchmarks.contenders.nanogpt import NanoGPT, windows
from benchmarks.serve import Step, seconds
from benchmarks.shape import (
    AS_NANOGPT,
    AS_PRESET,
    Shape,
    model_settings,
    new_trainer,
    stream,
    train_settings,
)
from tinylm.bench import measure
from tinylm.host.memory import own_peak_mib

CPU = torch.device("cpu")
BATCHES = 64


def _step(update: Callable[[], object], shape: Shape) -> Step:
    def step(request: Mapping[str, Any]) -> dict[str, Any]:
        if "memory" in request:
            process = own_peak_mib()
            return {"peak_mib": measure.peak_mib(update, CPU, update), "process_mib": process}
        updates = request["updates"]
        taken = seconds(lambda: [update() for _ in range(updates)])
        return {"seconds": taken, "tokens": updates * shape.step_tokens}

    return step


def ours(setup: Mapping[str, Any]) -> Step:
    """Our training step, as stage train runs it. setup: settings (of section train), form (preset, or nanoGPT's)."""
    shape = Shape(**setup["shape"])
    form = AS_PRESET if setup.get("form") == "preset" else AS_NANOGPT
    settings = train_settings(shape, **setup.get("settings", {}))
    trainer = new_trainer(shape, settings, setup["threads"], model=model_settings(shape, form))
    return _step(lambda: trainer.update(trainer.next_batches()), shape)


def nanogpt(setup: Mapping[str, Any]) -> Step:
    """nanoGPT from the user's clone. setup: clone, mode (fp32 | bf16 | bf16+compile)."""
    torch.set_num_threads(setup["threads"])
    torch.manual_seed(1)
    shape = Shape(**setup["shape"])
    peer = NanoGPT(setup["clone"], shape, setup["mode"])
    ids = stream(shape, BATCHES * shape.step_tokens)
    return _step(lambda: peer.update(windows(ids, shape)), shape)


def gpt2_sizes(shape: Shape) -> dict[str, Any]:
    """The shape in the names of transformers' GPT2Config."""
    return {
        "vocab_size": shape.vocab,
        "n_positions": shape.context,
        "n_embd": shape.width,
        "n_layer": shape.layers,
        "n_head": shape.heads,
        "n_inner": shape.feed_forward,
    }


def transformers(setup: Mapping[str, Any]) -> Step:
    """GPT-2 of transformers: bf16, eager, torch's AdamW."""
    from transformers import GPT2Config, GPT2LMHeadModel

    torch.set_num_threads(setup["threads"])
    torch.manual_seed(1)
    shape = Shape(**setup["shape"])
    dropout: dict[str, Any] = dict.fromkeys(
        ("resid_pdrop", "embd_pdrop", "attn_pdrop"), shape.dropout
    )
    config = GPT2Config(**gpt2_sizes(shape), **dropout)
    model: Any = GPT2LMHeadModel(config).train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    ids = torch.from_numpy(stream(shape, BATCHES * shape.step_tokens))
    batches = itertools.cycle(ids.view(BATCHES, shape.batch, -1))

    def update() -> None:
        rows = next(batches)
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast("cpu", torch.bfloat16):
            loss = model(input_ids=rows, labels=rows).loss
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()

    return _step(update, shape)
