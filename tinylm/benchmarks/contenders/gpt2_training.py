"""GPT-2 of transformers, trained: bf16, eager, AdamW of torch."""

import time
from collections.abc import Mapping
from typing import Any

import torch

from tinylm.benchmarks.serve import Step
from tinylm.benchmarks.shape import Shape, stream


def make(setup: Mapping[str, Any]) -> Step:
    """setup: shape; request: updates -> {seconds, tokens}."""
    from transformers import GPT2Config, GPT2LMHeadModel

    torch.set_num_threads(setup["threads"])
    torch.manual_seed(1)
    shape = Shape(**setup["shape"])
    drop: dict[str, Any] = dict.fromkeys(("resid_pdrop", "embd_pdrop", "attn_pdrop"), shape.dropout)
    config = GPT2Config(
        vocab_size=shape.vocab, n_positions=shape.context, n_embd=shape.width, n_layer=shape.layers,
        n_head=shape.heads, n_inner=shape.feed_forward, **drop,
    )  # fmt: skip
    model: Any = GPT2LMHeadModel(config).train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    rows = torch.from_numpy(stream(shape, 64 * shape.step_tokens)).view(64, shape.batch, shape.context)

    def step(request: Mapping[str, Any]) -> dict[str, Any]:
        start = time.perf_counter()
        for number in range(request["updates"]):
            optimizer.zero_grad(set_to_none=True)
            with torch.autocast("cpu", torch.bfloat16):
                loss = model(input_ids=rows[number % 64], labels=rows[number % 64]).loss
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
        return {"seconds": time.perf_counter() - start, "tokens": request["updates"] * shape.step_tokens}

    return step
