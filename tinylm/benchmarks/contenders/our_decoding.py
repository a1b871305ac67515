"""Our decoding: `generate` and `beam_search`, as `tinylm generate` and stage evaluate call them."""

import time
from collections.abc import Mapping
from typing import Any

from tinylm.base.config import read_section
from tinylm.base.seeding import seed_everything
from tinylm.benchmarks.serve import Step
from tinylm.decoding.beam import beam_search
from tinylm.decoding.sampling import generate
from tinylm.decoding.settings import DecodeSettings
from tinylm.exchange.loading import read_params
from tinylm.host.runtime import pick_device
from tinylm.kernels.decoding.decoder import prepare
from tinylm.model.checkpoint import load_model
from tinylm.model.transformer import TinyLM

PLAIN = {"temperature": 1.0, "temperature_end": None, "top_k": 0, "top_p": 1.0, "repetition_penalty": 1.0}
MODES = ("fp32", "bf16", "int8", "plain")  # plain: the readable path in fp32, the others the compiled one


def prepared(model: TinyLM, mode: str) -> dict[str, Any]:
    """The options of `generate` and `beam_search` that take the compiled path; none for `plain`."""
    return {} if mode == "plain" else {"decoder": prepare(model, mode)}


def settings() -> DecodeSettings:
    """Section decode of the complete preset, drawn from the model's own distribution."""
    params = read_params()
    return read_section({"decode": params["decode"] | PLAIN}, "decode", DecodeSettings)


def make(setup: Mapping[str, Any]) -> Step:
    """setup: models, prompts, new_tokens, mode, device.

    request: method (sample | greedy | a beam's width), prompts (how many) or first and repeats
    -> {seconds, tokens, ids}.
    """
    seed_everything(1, setup["threads"])
    model, _ = load_model(setup["models"], pick_device(setup.get("device", "cpu")))
    drawn, new = settings(), setup["new_tokens"]
    greedy = drawn.greedy()
    fast = prepared(model, setup.get("mode", "plain"))

    def decode(prompts: list[list[int]], method: str | int) -> list[list[int]]:
        if isinstance(method, int):
            found = beam_search(model, prompts, width=method, max_new_tokens=new, eos_id=None, banned=[], **fast)
            return [best.ids for best, *_ in found]
        chosen = greedy if method == "greedy" else drawn
        return [row.ids for row in generate(model, prompts, chosen, max_new_tokens=new, eos_id=None, banned=[], **fast)]

    def step(request: Mapping[str, Any]) -> dict[str, Any]:
        return timed(decode, setup["prompts"], request)

    return step


def timed(decode: Any, prompts: list[list[int]], request: Mapping[str, Any]) -> dict[str, Any]:
    """All prompts at once, or each of the first `alone` by itself."""
    alone = request.get("alone")
    groups = [prompts] if alone is None else [[prompt] for prompt in prompts[:alone]]
    ids: list[list[int]] = []
    start = time.perf_counter()
    for group in groups:
        ids += decode(group, request["method"])
    seconds = time.perf_counter() - start
    return {"seconds": seconds, "tokens": sum(map(len, ids)), "ids": ids if request["method"] == "greedy" else []}
